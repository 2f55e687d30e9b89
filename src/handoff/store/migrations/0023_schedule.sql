-- Work that recurs, what came of each time, and what a program asked for under a key of its own.
CREATE TABLE schedule (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    body TEXT NOT NULL,
    overlap TEXT NOT NULL,
    keep BIGINT NOT NULL,
    state TEXT NOT NULL,
    next_at DOUBLE PRECISION NOT NULL,
    busy_until DOUBLE PRECISION NOT NULL DEFAULT 0,
    trouble TEXT NOT NULL DEFAULT '',
    made_by TEXT NOT NULL,
    made_at DOUBLE PRECISION NOT NULL
);
CREATE UNIQUE INDEX schedule_names ON schedule (project, name);
CREATE INDEX schedule_due ON schedule (next_at) WHERE state = 'on';
CREATE TABLE schedule_run (
    schedule BIGINT NOT NULL,
    due DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    work BIGINT NOT NULL,
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (schedule, due)
);
CREATE TABLE asked_once (
    caller TEXT NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    answer TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (caller, name)
);
