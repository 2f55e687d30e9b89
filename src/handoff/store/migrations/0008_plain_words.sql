-- Tables, columns and events are called as the commands and the documents call them.
CREATE TABLE pause (
    scope TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    reason TEXT NOT NULL,
    paused_by TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (scope, project, name)
);
INSERT INTO pause (scope, project, name, reason, paused_by, at)
SELECT scope, project, name, reason, stopped_by, at FROM stop;
DROP TABLE stop;

CREATE TABLE requirement (
    task BIGINT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (task, name)
);
INSERT INTO requirement (task, name) SELECT task, name FROM demand;
DROP TABLE demand;

ALTER TABLE incident RENAME COLUMN settled_at TO resolved_at;
ALTER TABLE incident RENAME COLUMN settled TO resolved;

UPDATE event SET kind = 'session.concluded' WHERE kind = 'session.settled';
UPDATE event SET kind = 'session.out_of_scope' WHERE kind = 'session.strayed';
UPDATE event SET kind = 'task.rejected' WHERE kind = 'task.doubted';
UPDATE event SET kind = 'task.waived' WHERE kind = 'task.excused';
