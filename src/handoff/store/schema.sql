-- The database as it is today. The numbered files in migrations/ are the way here; a test proves that both agree.

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
CREATE INDEX task_ready ON task (priority DESC, attempt, key) WHERE state = 'ready';
CREATE INDEX task_running ON task (lease_until) WHERE state = 'running';
/* postgres: DROP INDEX task_running */; -- there a sign of life must change no index
/* postgres: ALTER TABLE task SET (fillfactor = 70) */;
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
CREATE INDEX session_ended ON session (host, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX session_idle ON session (seen_at) WHERE ended_at IS NULL AND task IS NULL;

-- What waits for a person's answer; `choices` is a JSON list where any text answers, and empty where only yes and no do.
-- `cap` names the setting where it asks for money; its `answer` is then by how much that was raised.
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
    reason TEXT NOT NULL DEFAULT '',
    fallback TEXT NOT NULL DEFAULT '',
    subject TEXT NOT NULL DEFAULT '',
    answer TEXT NOT NULL DEFAULT '',
    code TEXT NOT NULL DEFAULT '',
    choices TEXT NOT NULL DEFAULT '',
    cap TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX gate_open ON gate (task) WHERE state = 'open';
CREATE INDEX gate_due ON gate (due_at) WHERE state = 'open' AND overdue_at IS NULL;
CREATE INDEX gate_of_task ON gate (task, key);
CREATE INDEX gate_cap ON gate (cap, key) WHERE cap <> '';
CREATE INDEX gate_by_code ON gate (code) WHERE state = 'open';

-- What must not be claimed for now: everything, a project, a batch or a task.
CREATE TABLE pause (
    scope TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    reason TEXT NOT NULL,
    paused_by TEXT NOT NULL,
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
CREATE INDEX event_of_project ON event (project, seq);

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

-- Supervisors: who runs phases, and until when each is believed alive.
CREATE TABLE executor (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid BIGINT NOT NULL,
    process_start TEXT NOT NULL,
    state TEXT NOT NULL,
    lease_until DOUBLE PRECISION NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    seen_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX executor_open ON executor (host) WHERE state <> 'recovered';

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

-- What a task requires of the host that runs it: each label is one row.
CREATE TABLE requirement (
    task BIGINT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (task, name)
);

-- What a supervisor's host has: its agents and its labels.
CREATE TABLE offer (
    executor TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (executor, kind, name)
);

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
    data TEXT NOT NULL DEFAULT '{}',
    version BIGINT NOT NULL DEFAULT 0,
    created_at DOUBLE PRECISION NOT NULL,
    changed_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION
);
CREATE UNIQUE INDEX flow_live ON flow (project, id) WHERE ended_at IS NULL;
CREATE INDEX flow_names ON flow (project, id, key);
CREATE INDEX flow_of_task ON flow (task) WHERE task IS NOT NULL;

-- What a guard refused or the watcher noticed. `id` is made of what happened, so that nothing is told twice.
CREATE TABLE incident (
    id TEXT PRIMARY KEY,
    at DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    project TEXT NOT NULL,
    session TEXT NOT NULL,
    place TEXT NOT NULL,
    body TEXT NOT NULL,
    resolved_at DOUBLE PRECISION,
    resolved TEXT NOT NULL DEFAULT ''
);
CREATE INDEX incident_open ON incident (project, at) WHERE resolved_at IS NULL;

-- What the watcher saw last, for each place it watches. `version` decides which of two looks at once counts.
CREATE TABLE watched (
    place TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    facts TEXT NOT NULL
);

-- What sessions have used and cost so far: tokens as their clients told them, money as far as it is known.
-- `basis` says whence: from the client itself (said), by a price (listed), or not for all of it (unknown).
CREATE TABLE expense (
    session TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    agent TEXT NOT NULL,
    money DOUBLE PRECISION NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    task BIGINT,
    models TEXT NOT NULL DEFAULT '',
    input BIGINT NOT NULL DEFAULT 0,
    cached BIGINT NOT NULL DEFAULT 0,
    output BIGINT NOT NULL DEFAULT 0,
    reasoning BIGINT NOT NULL DEFAULT 0,
    basis TEXT NOT NULL DEFAULT 'said'
);
CREATE INDEX expense_at ON expense (at);
CREATE INDEX expense_of_task ON expense (task) WHERE task IS NOT NULL;

-- Which tasks had a tab opened by itself: once for each time a task became ready.
CREATE TABLE tab (
    task BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    host TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (task, fence)
);

-- What is not started for a while for no fault of an agent: an agent its provider refuses, or a task its ground is not ready for.
CREATE TABLE hold (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    reason TEXT NOT NULL,
    fix TEXT NOT NULL,
    session TEXT NOT NULL,
    tries BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    until DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (kind, name, host)
);

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

-- What happened so far, counted: it follows the journal, so that a figure never falls when old lines are put away.
CREATE TABLE tally (
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    number BIGINT NOT NULL,
    total DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (project, name, label)
);

-- What was decided about finished work, before anything is done about it: whoever finds it open carries it out.
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

-- Work that recurs. Whoever moves `next_at` on makes it, in the same transaction; `busy_until` keeps others from preparing the same.
CREATE TABLE schedule (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    body TEXT NOT NULL,
    overlap TEXT NOT NULL,
    keep BIGINT NOT NULL,
    state TEXT NOT NULL,
    next_at DOUBLE PRECISION NOT NULL,
    busy_until DOUBLE PRECISION NOT NULL DEFAULT 0,
    trouble TEXT NOT NULL DEFAULT '',
    made_by TEXT NOT NULL,
    made_at DOUBLE PRECISION NOT NULL
);
CREATE UNIQUE INDEX schedule_names ON schedule (project, name);
CREATE INDEX schedule_due ON schedule (next_at) WHERE state = 'on';

-- What was made of a schedule, and for which moment: once for each.
CREATE TABLE schedule_run (
    schedule BIGINT NOT NULL,
    due DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    work BIGINT NOT NULL,
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (schedule, due)
);

-- What a program asked for under a key of its own, or a forge delivered: the same again is answered with the same.
CREATE TABLE asked_once (
    caller TEXT NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    answer TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (caller, name)
);

-- A task that a forge's issue asked for; `seen` are comments that were looked at.
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

-- A request to take a branch in, until it is merged or closed; `task` mends it, `body` is what else is known, as JSON.
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

-- What we write on a forge, before it is written there: `marker` stands in it, so that it is found and not written twice.
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

-- How far the run of each phase got, where the database is a file: who has it, and as JSON what each of its steps gave.
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    version TEXT NOT NULL,
    name TEXT NOT NULL,
    inputs TEXT NOT NULL,
    outputs TEXT NOT NULL DEFAULT '{}',
    state TEXT NOT NULL DEFAULT 'waiting',
    executor TEXT NOT NULL DEFAULT '',
    ended_at DOUBLE PRECISION
);
CREATE INDEX run_open ON run (queue) WHERE ended_at IS NULL;

-- On Postgres the few tables that change with every claim and sign of life are cleared early, not after a fifth of them is dead.
/* postgres: ALTER TABLE task SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_analyze_scale_factor = 0.05) */;
/* postgres: ALTER TABLE session SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500) */;
/* postgres: ALTER TABLE batch SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200) */;
/* postgres: ALTER TABLE executor SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200) */;
/* postgres: ALTER TABLE channel SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200) */;
/* postgres: ALTER TABLE search_mark SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200) */;
/* postgres: ALTER TABLE tally SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500) */;
