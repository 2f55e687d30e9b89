-- Who may read, answer or steer over HTTP: what a token hashes to, never the token.
CREATE TABLE token (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    project TEXT NOT NULL,
    hash TEXT NOT NULL,
    made_at DOUBLE PRECISION NOT NULL,
    made_by TEXT NOT NULL,
    until DOUBLE PRECISION,
    used_at DOUBLE PRECISION,
    withdrawn_at DOUBLE PRECISION,
    withdrawn_by TEXT NOT NULL DEFAULT ''
);
