-- Verbs that Postgres does in one call instead of one journey for each statement. {a_query} stands for a statement of queries.sql, whose
-- :names are the variables here: what is done is written once. Only the plain way is here; 'HA001' leaves all others to the board, step by step.

-- name: begin_at_once
-- the locks of a writer beside others, in their order; behind them the moment
-- takes: numbers INT[], whole BOOLEAN[], shift DOUBLE PRECISION
-- gives: DOUBLE PRECISION
BEGIN
    PERFORM pg_advisory_xact_lock_shared({board}, hashtext('{schema}'));
    FOR place IN 1 .. cardinality(:numbers) LOOP
        IF :whole[place] THEN
            PERFORM pg_advisory_xact_lock({scope}, :numbers[place]);
        ELSE
            PERFORM pg_advisory_xact_lock_shared({scope}, :numbers[place]);
        END IF;
    END LOOP;
    IF (SELECT version FROM schema_version) IS DISTINCT FROM {version} THEN
        RAISE EXCEPTION 'another schema' USING ERRCODE = 'HA001';
    END IF;
    PERFORM pg_advisory_xact_lock_shared(({line}::bigint << 40) + CASE WHEN is_called THEN last_value ELSE 0 END) FROM event_seq_seq;
    RETURN extract(epoch FROM clock_timestamp())::float8 + :shift;
END

-- name: add_at_once
-- a task that comes after nothing and demands no label; what its id names already is told by the board
-- takes: numbers INT[], whole BOOLEAN[], shift DOUBLE PRECISION, project TEXT, scope TEXT, id TEXT, kind TEXT, batch BIGINT, title TEXT, brief TEXT, role TEXT, agent TEXT, workspace TEXT, owns TEXT, check_command TEXT, baseline TEXT, state TEXT, open_needs BIGINT, max_attempts BIGINT, priority BIGINT, not_before DOUBLE PRECISION, estimate_minutes DOUBLE PRECISION, session TEXT, body TEXT
-- gives: SETOF task
DECLARE
    added task;
    v_generation BIGINT;
    v_now DOUBLE PRECISION := begin_at_once_{version}(:numbers, :whole, :shift);
    v_at DOUBLE PRECISION := v_now;
    v_task BIGINT;
    v_task_id TEXT;
    v_fence BIGINT := 0;
BEGIN
    IF EXISTS (SELECT 1 FROM task WHERE project = :project AND id = :id AND ended_at IS NULL) THEN
        RAISE EXCEPTION 'it is live' USING ERRCODE = 'HA001';
    END IF;
    {last_generation} INTO v_generation;
    v_generation := v_generation + 1;
    {add_task} INTO added;
    v_kind := 'task.added';
    v_task := added.key;
    v_task_id := CASE WHEN added.scope = '' THEN added.id ELSE added.scope || '/' || added.id END;
    {add_event};
    RETURN NEXT added;
END

-- name: look_at_once
-- whether there is a next task for a session: a look that takes no turn among the writers
-- takes: numbers INT[], whole BOOLEAN[], shift DOUBLE PRECISION, project TEXT, session TEXT, agent TEXT, host TEXT, role TEXT, max_machine BIGINT, max_project BIGINT, max_agent BIGINT, labels TEXT, tab BIGINT
-- gives: SETOF BIGINT
-- asks: found AS key
DECLARE
    v_now DOUBLE PRECISION := extract(epoch FROM clock_timestamp())::float8 + :shift;
BEGIN
    RETURN QUERY {next_task};
END

-- name: claim_at_once
-- the next task for a session
-- takes: numbers INT[], whole BOOLEAN[], shift DOUBLE PRECISION, project TEXT, session TEXT, agent TEXT, host TEXT, role TEXT, max_machine BIGINT, max_project BIGINT, max_agent BIGINT, labels TEXT, tab BIGINT, lease_seconds DOUBLE PRECISION, kind TEXT, own_project TEXT, workspace TEXT, boot TEXT, pid BIGINT, process_start TEXT, started TEXT, probe_seconds DOUBLE PRECISION
-- gives: TABLE (taken task, began DOUBLE PRECISION)
-- asks: (found.taken).*, found.began
DECLARE
    holder session;
    v_now DOUBLE PRECISION := begin_at_once_{version}(:numbers, :whole, :shift);
    v_lease_now DOUBLE PRECISION := v_now;
    v_at DOUBLE PRECISION := v_now;
    v_until DOUBLE PRECISION := v_now + :probe_seconds;
    v_id TEXT := :session;
    v_fence BIGINT;
    v_task BIGINT;
    v_task_id TEXT := '';
    v_batch BIGINT;
    v_name TEXT;
    v_body TEXT := :started;
BEGIN
    {claim_next_task} INTO taken;
    IF taken.key IS NULL THEN
        RETURN;
    END IF;
    v_project := coalesce(nullif(:own_project, ''), taken.project);
    v_workspace := coalesce(nullif(:workspace, ''), taken.workspace);
    v_task := taken.key;
    v_fence := taken.fence;
    {put_session} INTO holder;
    IF :kind = 'agent' THEN
        v_name := taken.held_agent;
        {probe_hold};
    END IF;
    IF holder.started_at = holder.seen_at THEN
        v_kind := 'session.started';
        v_task := NULL;
        v_fence := 0;
        {add_event};
    END IF;
    v_kind := 'task.claimed';
    v_project := taken.project;
    v_task := taken.key;
    v_task_id := CASE WHEN taken.scope = '' THEN taken.id ELSE taken.scope || '/' || taken.id END;
    v_batch := taken.batch;
    v_fence := taken.fence;
    v_body := '{}';
    {add_event};
    began := holder.started_at;
    RETURN NEXT;
END

-- name: finish_at_once
-- done, by the session that holds the fence, while nobody waits for it
-- takes: numbers INT[], whole BOOLEAN[], shift DOUBLE PRECISION, key BIGINT, fence BIGINT, result TEXT, evidence TEXT, session TEXT, body TEXT
-- gives: SETOF task
DECLARE
    ended task;
    waiting BOOLEAN;
    stranded BOOLEAN;
    whole_batch batch;
    v_now DOUBLE PRECISION := begin_at_once_{version}(:numbers, :whole, :shift);
    v_lease_now DOUBLE PRECISION := v_now;
    v_at DOUBLE PRECISION := v_now;
    v_kind TEXT := 'task.finished';
    v_id TEXT;
    v_task BIGINT := :key;
    v_task_id TEXT;
    v_batch BIGINT;
    v_project TEXT;
BEGIN
    {finish_held_task} INTO ended;
    {list_followers} INTO waiting, stranded;
    IF ended.key IS NULL OR ended.counted <> 0 OR ended.kind IN ('fan-in', 'entrant') OR waiting OR stranded THEN
        RAISE EXCEPTION 'not plain' USING ERRCODE = 'HA001';
    END IF;
    v_id := ended.held_by;
    {free_session};
    v_project := ended.project;
    v_task_id := CASE WHEN ended.scope = '' THEN ended.id ELSE ended.scope || '/' || ended.id END;
    v_batch := ended.batch;
    v_session := coalesce(nullif(:session, ''), ended.held_by);
    {add_event};
    IF ended.batch IS NOT NULL AND ended.kind = 'sub-task' THEN
        {count_out_task};
        v_key := ended.batch;
        {count_out} INTO whole_batch;
        IF whole_batch.remaining <= 0 THEN
            RAISE EXCEPTION 'the batch is whole' USING ERRCODE = 'HA001';
        END IF;
    END IF;
    RETURN NEXT ended;
END

-- name: renew_host_at_once
-- signs of life of several sessions of a host
-- takes: numbers INT[], whole BOOLEAN[], shift DOUBLE PRECISION, host TEXT, beats TEXT
-- gives: SETOF BIGINT
-- asks: found AS key
DECLARE
    v_now DOUBLE PRECISION := begin_at_once_{version}(:numbers, :whole, :shift);
    v_lease_now DOUBLE PRECISION := v_now;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY {renew_leases};
END

-- name: renew_at_once
-- a sign of life; after a crash of the server a lost one is an older lease and nothing worse, so the disk is not waited for
-- takes: numbers INT[], whole BOOLEAN[], shift DOUBLE PRECISION, key BIGINT, fence BIGINT, lease_seconds DOUBLE PRECISION
-- gives: SETOF task
DECLARE
    v_now DOUBLE PRECISION := begin_at_once_{version}(:numbers, :whole, :shift);
    v_lease_now DOUBLE PRECISION := v_now;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY {renew_lease};
END
