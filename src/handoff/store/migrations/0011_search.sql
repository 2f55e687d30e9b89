-- Search: how far the words of the journal and of transcripts are known.
-- How far the index of words has come in the journal. Writers of the journal do not wait for it: it follows them.
CREATE TABLE search_mark (
    name TEXT PRIMARY KEY,
    seq BIGINT NOT NULL
);

-- Which pieces of what sessions said are in the index of words; the words themselves are in the session's folder on its host.
CREATE TABLE transcript (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL,
    part BIGINT NOT NULL,
    project TEXT NOT NULL,
    task BIGINT,
    agent TEXT NOT NULL,
    host TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    seq BIGINT NOT NULL
);
CREATE UNIQUE INDEX transcript_parts ON transcript (session, part);
CREATE INDEX session_ended ON session (host, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX event_of_project ON event (project, seq);
