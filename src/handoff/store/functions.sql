-- Verbs that Postgres does in one call instead of one journey for each statement. {a_query} stands for a statement of queries.sql, whose
-- :names are the variables here: what is done is written once. Only the plain way is here; 'HA001' leaves all others to the board, step by step.

-- name: declare_beside_others
-- what a writer beside others begins with
    v_fits BOOLEAN;
    v_now DOUBLE PRECISION;
    v_lease_now DOUBLE PRECISION;
    v_at DOUBLE PRECISION

-- name: begin_beside_others
-- the locks of a writer beside others, in their order; behind them the moment. Assigned: what is not asked of a table needs no executor
    v_fits := pg_advisory_xact_lock_shared({board}, hashtext('{schema}')) IS NOT NULL;
    FOR place IN 1 .. cardinality(:numbers) LOOP
        IF :whole[place] THEN
            v_fits := pg_advisory_xact_lock({scope}, :numbers[place]) IS NOT NULL;
        ELSE
            v_fits := pg_advisory_xact_lock_shared({scope}, :numbers[place]) IS NOT NULL;
        END IF;
    END LOOP;
    SELECT version = {version} AND pg_advisory_xact_lock_shared(({line}::bigint << 40)
        + CASE WHEN is_called THEN last_value ELSE 0 END) IS NOT NULL FROM schema_version, event_seq_seq INTO v_fits;
    IF v_fits IS NOT TRUE THEN
        RAISE EXCEPTION 'another schema' USING ERRCODE = 'HA001';
    END IF;
    v_now := extract(epoch FROM clock_timestamp())::float8 + :shift;
    v_lease_now := v_now;
    v_at := v_now

-- name: nothing_rare
-- whether a pick may leave out what stands between `rare` in ready_tasks: to begin a plan with all of it takes longer than to find the task
:max_project = 0 AND :max_agent = 0 AND NOT EXISTS (SELECT 1 FROM pause) AND NOT EXISTS (SELECT 1 FROM hold WHERE hold.host IN (:host, ''))
        AND NOT EXISTS (SELECT 1 FROM session WHERE session.id = :session AND session.task IS NOT NULL)

-- name: add_at_once
-- a task that comes after nothing and demands no label; what its id names already is told by the board
-- takes: numbers INT[], whole BOOLEAN[], shift DOUBLE PRECISION, project TEXT, scope TEXT, id TEXT, kind TEXT, batch BIGINT, title TEXT, brief TEXT, role TEXT, agent TEXT, workspace TEXT, owns TEXT, check_command TEXT, baseline TEXT, state TEXT, open_needs BIGINT, max_attempts BIGINT, priority BIGINT, not_before DOUBLE PRECISION, estimate_minutes DOUBLE PRECISION, session TEXT, body TEXT
-- gives: SETOF task
DECLARE
    added task;
    v_generation BIGINT;
    {declare_beside_others};
    v_task BIGINT;
    v_task_id TEXT;
    v_fence BIGINT := 0;
BEGIN
    {begin_beside_others};
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
    IF {nothing_rare} THEN
        RETURN QUERY {next_task plain};
    ELSE
        RETURN QUERY {next_task};
    END IF;
END

-- name: claim_at_once
-- the next task for a session
-- takes: numbers INT[], whole BOOLEAN[], shift DOUBLE PRECISION, project TEXT, session TEXT, agent TEXT, host TEXT, role TEXT, max_machine BIGINT, max_project BIGINT, max_agent BIGINT, labels TEXT, tab BIGINT, lease_seconds DOUBLE PRECISION, kind TEXT, own_project TEXT, workspace TEXT, boot TEXT, pid BIGINT, process_start TEXT, started TEXT, probe_seconds DOUBLE PRECISION
-- gives: TABLE (taken task, began DOUBLE PRECISION)
-- asks: (found.taken).*, found.began
DECLARE
    holder session;
    {declare_beside_others};
    v_until DOUBLE PRECISION;
    v_id TEXT := :session;
    v_fence BIGINT;
    v_task BIGINT;
    v_task_id TEXT;
    v_batch BIGINT;
    v_name TEXT;
    v_body TEXT := :started;
BEGIN
    {begin_beside_others};
    IF {nothing_rare} THEN
        {claim_next_task plain} INTO taken;
    ELSE
        {claim_next_task} INTO taken;
    END IF;
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
        v_until := v_now + :probe_seconds;
        {probe_hold};
    END IF;
    v_task_id := CASE WHEN taken.scope = '' THEN taken.id ELSE taken.scope || '/' || taken.id END;
    IF holder.started_at = holder.seen_at THEN -- two lines in one statement
        v_kind := 'session.started';
        v_task := NULL;
        v_name := v_task_id;
        v_task_id := '';
        v_fence := 0;
        {add_event}, (v_at, 'task.claimed', taken.project, taken.key, v_name, taken.batch, :session, taken.fence, '{}');
    ELSE
        v_kind := 'task.claimed';
        v_project := taken.project;
        v_batch := taken.batch;
        v_body := '{}';
        {add_event};
    END IF;
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
    {declare_beside_others};
    v_kind TEXT := 'task.finished';
    v_id TEXT;
    v_task BIGINT := :key;
    v_task_id TEXT;
    v_batch BIGINT;
    v_project TEXT;
BEGIN
    {begin_beside_others};
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
    {declare_beside_others};
BEGIN
    {begin_beside_others};
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY {renew_leases};
END

-- name: renew_at_once
-- a sign of life; after a crash of the server a lost one is an older lease and nothing worse, so the disk is not waited for
-- takes: numbers INT[], whole BOOLEAN[], shift DOUBLE PRECISION, key BIGINT, fence BIGINT, lease_seconds DOUBLE PRECISION
-- gives: SETOF task
DECLARE
    {declare_beside_others};
BEGIN
    {begin_beside_others};
    PERFORM set_config('synchronous_commit', 'off', true);
    RETURN QUERY {renew_lease};
END
