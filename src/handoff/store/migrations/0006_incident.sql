-- Incidents: what a guard refused or the watcher noticed, and what the watcher saw last.
CREATE TABLE incident (
    id TEXT PRIMARY KEY,
    at DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    project TEXT NOT NULL,
    session TEXT NOT NULL,
    place TEXT NOT NULL,
    body TEXT NOT NULL,
    settled_at DOUBLE PRECISION,
    settled TEXT NOT NULL DEFAULT ''
);
CREATE INDEX incident_open ON incident (project, at) WHERE settled_at IS NULL;
CREATE TABLE watched (
    place TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    facts TEXT NOT NULL
);
