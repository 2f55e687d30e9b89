-- What was decided about finished work, before anything is done about it: whoever finds it open carries it out.
CREATE TABLE decision (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    task BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    session TEXT NOT NULL,
    host TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    made_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION
);
CREATE UNIQUE INDEX decision_live ON decision (task) WHERE ended_at IS NULL;
CREATE INDEX decision_open ON decision (host, key) WHERE state = 'open';
