-- A workflow that runs: where it stands, with its words as they were when it began. Each phase is one task.
CREATE TABLE flow (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    text TEXT NOT NULL,
    prompts TEXT NOT NULL,
    request TEXT NOT NULL,
    feature TEXT NOT NULL,
    repository TEXT NOT NULL,
    workspace TEXT NOT NULL,
    branch TEXT NOT NULL,
    base TEXT NOT NULL,
    head TEXT NOT NULL,
    phase TEXT NOT NULL,
    cycle BIGINT NOT NULL DEFAULT 1,
    max_cycles BIGINT NOT NULL,
    task BIGINT,
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    agents TEXT NOT NULL,
    gates TEXT NOT NULL,
    pending TEXT NOT NULL DEFAULT '',
    data TEXT NOT NULL DEFAULT '{}',
    version BIGINT NOT NULL DEFAULT 0,
    created_at DOUBLE PRECISION NOT NULL,
    changed_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION
);
CREATE UNIQUE INDEX flow_live ON flow (project, id) WHERE ended_at IS NULL;
CREATE INDEX flow_names ON flow (project, id, key);
CREATE INDEX flow_of_task ON flow (task) WHERE task IS NOT NULL;
