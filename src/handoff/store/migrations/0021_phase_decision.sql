-- What was decided about a phase stands where everything decided stands, no longer in its flow's row. A phase without a session has no task.
CREATE TABLE decision_before AS SELECT * FROM decision;
DROP TABLE decision;
CREATE TABLE decision (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    task BIGINT,
    flow BIGINT,
    fence BIGINT NOT NULL,
    session TEXT NOT NULL,
    host TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    made_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION
);
CREATE UNIQUE INDEX decision_live ON decision (task) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX decision_of_flow ON decision (flow) WHERE ended_at IS NULL;
CREATE INDEX decision_open ON decision (host, key) WHERE state = 'open';
INSERT INTO decision (project, task, fence, session, host, state, body, made_at, ended_at)
SELECT project, task, fence, session, host, state, body, made_at, ended_at FROM decision_before ORDER BY key;
DROP TABLE decision_before;
-- Which host a flow's clone is on stood nowhere: whoever has the clone carries it out.
INSERT INTO decision (project, task, flow, fence, session, host, state, body, made_at)
SELECT project, task, key, 0, '', '', 'open', pending, changed_at FROM flow WHERE pending <> '' AND ended_at IS NULL;
ALTER TABLE flow DROP COLUMN pending;
