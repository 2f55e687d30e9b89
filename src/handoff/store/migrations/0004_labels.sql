-- What a task demands of the host that runs it: each label is one row.
CREATE TABLE demand (
    task BIGINT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (task, name)
);

-- What a supervisor's host has: its agents and its labels.
CREATE TABLE offer (
    executor TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (executor, kind, name)
);
