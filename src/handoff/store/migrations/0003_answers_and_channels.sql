-- What a gate does when its time is up, the text a person may edit, their edited text, and the code that answers it once.
ALTER TABLE gate ADD COLUMN fallback TEXT NOT NULL DEFAULT '';
ALTER TABLE gate ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE gate ADD COLUMN answer TEXT NOT NULL DEFAULT '';
ALTER TABLE gate ADD COLUMN code TEXT NOT NULL DEFAULT '';
CREATE INDEX gate_of_task ON gate (task, key);
CREATE INDEX gate_by_code ON gate (code) WHERE state = 'open';

-- How far each channel of notifications has read the journal, and how it fares.
CREATE TABLE channel (
    name TEXT PRIMARY KEY,
    place TEXT NOT NULL,
    seq BIGINT NOT NULL,
    state TEXT NOT NULL DEFAULT 'on',
    busy_until DOUBLE PRECISION NOT NULL DEFAULT 0,
    next_at DOUBLE PRECISION NOT NULL DEFAULT 0,
    tries BIGINT NOT NULL DEFAULT 0,
    sent BIGINT NOT NULL DEFAULT 0,
    dropped BIGINT NOT NULL DEFAULT 0,
    sent_at DOUBLE PRECISION,
    trouble TEXT NOT NULL DEFAULT ''
);
