-- What came from a forge's issue, the request that asks to take work in, and the words we write on a forge.
CREATE TABLE issue (
    task BIGINT PRIMARY KEY,
    project TEXT NOT NULL,
    host TEXT NOT NULL,
    folder TEXT NOT NULL,
    number BIGINT NOT NULL,
    url TEXT NOT NULL,
    state TEXT NOT NULL,
    seen TEXT NOT NULL DEFAULT '[]',
    at DOUBLE PRECISION NOT NULL
);
CREATE UNIQUE INDEX issue_live ON issue (project, url) WHERE state = 'open';
CREATE TABLE request (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    host TEXT NOT NULL,
    folder TEXT NOT NULL,
    task BIGINT,
    branch TEXT NOT NULL,
    base TEXT NOT NULL,
    head TEXT NOT NULL,
    number BIGINT NOT NULL DEFAULT 0,
    url TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,
    checks TEXT NOT NULL DEFAULT '',
    review TEXT NOT NULL DEFAULT '',
    body TEXT NOT NULL,
    made_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION
);
CREATE UNIQUE INDEX request_live ON request (project, branch) WHERE ended_at IS NULL;
CREATE INDEX request_of_task ON request (task) WHERE task IS NOT NULL;
CREATE TABLE remark (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    marker TEXT NOT NULL,
    host TEXT NOT NULL,
    folder TEXT NOT NULL,
    verb TEXT NOT NULL,
    number BIGINT NOT NULL,
    thread TEXT NOT NULL DEFAULT '',
    text TEXT NOT NULL,
    state TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL
);
CREATE UNIQUE INDEX remark_marker ON remark (marker);
CREATE INDEX remark_open ON remark (host, key) WHERE state <> 'done';
