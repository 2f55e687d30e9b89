-- Runs of phases on one machine: rows of ours, so that it needs no durable engine beside them.
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    version TEXT NOT NULL,
    name TEXT NOT NULL,
    inputs TEXT NOT NULL,
    outputs TEXT NOT NULL DEFAULT '{}',
    state TEXT NOT NULL DEFAULT 'waiting',
    executor TEXT NOT NULL DEFAULT '',
    ended_at DOUBLE PRECISION
);
CREATE INDEX run_open ON run (queue) WHERE ended_at IS NULL;
