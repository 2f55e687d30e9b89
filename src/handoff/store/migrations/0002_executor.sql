-- Supervisors: who runs phases, and until when each is believed alive.
CREATE TABLE executor (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid BIGINT NOT NULL,
    process_start TEXT NOT NULL,
    state TEXT NOT NULL,
    lease_until DOUBLE PRECISION NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    seen_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX executor_open ON executor (host) WHERE state <> 'recovered';
