-- The clock leases are judged by on SQLite: wall time at one moment of one boot, carried on by the monotonic clock.
CREATE TABLE clock (
    one BIGINT PRIMARY KEY,
    boot TEXT NOT NULL,
    monotonic DOUBLE PRECISION NOT NULL,
    steady DOUBLE PRECISION NOT NULL
);

-- One durable unit of work. `key` never changes; `id` is what people say and may be used again after the end.
CREATE TABLE task (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    scope TEXT NOT NULL,
    id TEXT NOT NULL,
    generation BIGINT NOT NULL,
    kind TEXT NOT NULL,
    batch BIGINT,
    title TEXT NOT NULL,
    brief TEXT NOT NULL,
    role TEXT NOT NULL,
    agent TEXT NOT NULL,
    workspace TEXT NOT NULL,
    owns TEXT NOT NULL,
    check_command TEXT NOT NULL,
    baseline TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    blocked_by BIGINT,
    open_needs BIGINT NOT NULL DEFAULT 0,
    counted BIGINT NOT NULL DEFAULT 0,
    attempt BIGINT NOT NULL DEFAULT 1,
    max_attempts BIGINT NOT NULL,
    priority BIGINT NOT NULL DEFAULT 0,
    not_before DOUBLE PRECISION NOT NULL DEFAULT 0,
    estimate_minutes DOUBLE PRECISION NOT NULL DEFAULT 0,
    result TEXT NOT NULL DEFAULT '',
    evidence TEXT NOT NULL DEFAULT '{}',
    fence BIGINT NOT NULL DEFAULT 0,
    held_by TEXT,
    held_host TEXT NOT NULL DEFAULT '',
    held_agent TEXT NOT NULL DEFAULT '',
    held_since DOUBLE PRECISION,
    lease_seconds DOUBLE PRECISION NOT NULL DEFAULT 0,
    lease_until DOUBLE PRECISION,
    busy_seconds DOUBLE PRECISION NOT NULL DEFAULT 0,
    seen_at DOUBLE PRECISION,
    created_at DOUBLE PRECISION NOT NULL,
    changed_at DOUBLE PRECISION NOT NULL,
    started_at DOUBLE PRECISION,
    ended_at DOUBLE PRECISION
);
CREATE UNIQUE INDEX task_live ON task (project, scope, id) WHERE ended_at IS NULL;
CREATE INDEX task_names ON task (project, id, key);
CREATE INDEX task_ready ON task (priority DESC, key) WHERE state = 'ready';
CREATE INDEX task_running ON task (lease_until) WHERE state = 'running';
CREATE INDEX task_held_on ON task (held_host) WHERE state = 'running';
CREATE INDEX task_freed ON task (key) WHERE state = 'waiting' AND open_needs <= 0;
CREATE INDEX task_fan_ins ON task (changed_at) WHERE state = 'ready' AND kind = 'fan-in';
CREATE INDEX task_of_batch ON task (batch, key) WHERE batch IS NOT NULL;
CREATE INDEX task_victims ON task (blocked_by) WHERE blocked_by IS NOT NULL;

-- Which task waits for which.
CREATE TABLE need (
    task BIGINT NOT NULL,
    needs BIGINT NOT NULL,
    met BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (task, needs)
);
CREATE INDEX need_open ON need (needs) WHERE met = 0;

-- A task split into sub-tasks; `remaining` reaches 0 exactly once, and that opens the fan-in.
CREATE TABLE batch (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    id TEXT NOT NULL,
    workspace TEXT NOT NULL,
    state TEXT NOT NULL,
    total BIGINT NOT NULL,
    remaining BIGINT NOT NULL,
    fan_in BIGINT,
    next_task TEXT NOT NULL,
    rationale TEXT NOT NULL,
    estimated_speedup DOUBLE PRECISION NOT NULL,
    serial_minutes DOUBLE PRECISION NOT NULL,
    manifest TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    due_at DOUBLE PRECISION,
    overdue_at DOUBLE PRECISION,
    joined_at DOUBLE PRECISION,
    ended_at DOUBLE PRECISION
);
CREATE UNIQUE INDEX batch_live ON batch (project, id) WHERE ended_at IS NULL;
CREATE INDEX batch_names ON batch (project, id, key);
CREATE INDEX batch_ready ON batch (key) WHERE state = 'open' AND remaining <= 0;
CREATE INDEX batch_due ON batch (due_at) WHERE state = 'open' AND overdue_at IS NULL;

-- One run of one agent, or one person's tab.
CREATE TABLE session (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    project TEXT NOT NULL,
    agent TEXT NOT NULL,
    workspace TEXT NOT NULL,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid BIGINT NOT NULL,
    process_start TEXT NOT NULL,
    task BIGINT,
    fence BIGINT NOT NULL DEFAULT 0,
    started_at DOUBLE PRECISION NOT NULL,
    seen_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION,
    ending TEXT NOT NULL DEFAULT ''
);
CREATE INDEX session_live ON session (host) WHERE ended_at IS NULL;
CREATE INDEX session_idle ON session (seen_at) WHERE ended_at IS NULL AND task IS NULL;

-- What waits for a person's yes or no.
CREATE TABLE gate (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    task BIGINT NOT NULL,
    question TEXT NOT NULL,
    on_yes TEXT NOT NULL,
    state TEXT NOT NULL,
    opened_at DOUBLE PRECISION NOT NULL,
    due_at DOUBLE PRECISION,
    overdue_at DOUBLE PRECISION,
    answered_at DOUBLE PRECISION,
    answered_by TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX gate_open ON gate (task) WHERE state = 'open';
CREATE INDEX gate_due ON gate (due_at) WHERE state = 'open' AND overdue_at IS NULL;

-- What must not be claimed for now: everything, a project, a batch or a task.
CREATE TABLE stop (
    scope TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    reason TEXT NOT NULL,
    stopped_by TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (scope, project, name)
);

-- The journal: what happened, in the order it was committed. Only added to.
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    project TEXT NOT NULL,
    task BIGINT,
    task_id TEXT NOT NULL,
    batch BIGINT,
    session TEXT NOT NULL,
    fence BIGINT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX event_of_task ON event (task, seq) WHERE task IS NOT NULL;

-- Messages for a supervisor that may not be running.
CREATE TABLE inbox (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    project TEXT NOT NULL,
    task BIGINT,
    body TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    taken_at DOUBLE PRECISION,
    taken_by TEXT NOT NULL DEFAULT ''
);
CREATE INDEX inbox_open ON inbox (key) WHERE taken_at IS NULL;

-- What a finished batch took: one row a batch, so a repeated report changes nothing.
CREATE TABLE measure (
    batch BIGINT PRIMARY KEY,
    project TEXT NOT NULL,
    sub_tasks BIGINT NOT NULL,
    estimated_minutes DOUBLE PRECISION NOT NULL,
    session_minutes DOUBLE PRECISION NOT NULL,
    wall_minutes DOUBLE PRECISION NOT NULL,
    estimated_speedup DOUBLE PRECISION NOT NULL,
    speedup DOUBLE PRECISION NOT NULL,
    serial_share DOUBLE PRECISION,
    summary TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL
);
CREATE INDEX measure_recent ON measure (project, at);
