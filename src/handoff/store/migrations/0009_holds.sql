-- What is not started for a while for no fault of an agent; and who was tried least comes first.
CREATE TABLE hold (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    reason TEXT NOT NULL,
    fix TEXT NOT NULL,
    session TEXT NOT NULL,
    tries BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    until DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (kind, name, host)
);

DROP INDEX task_ready;
CREATE INDEX task_ready ON task (priority DESC, attempt, key) WHERE state = 'ready';
