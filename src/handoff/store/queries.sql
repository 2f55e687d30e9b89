-- Every statement the board runs, for both databases. One name, one line of meaning, one statement.
-- {another_query} stands for its text; what follows "postgres:" in a comment is for Postgres alone, whose writers work side by side.

-- name: read_clock
-- the anchor of the clock leases are judged by (SQLite)
SELECT boot, monotonic, steady FROM clock WHERE one = 1

-- name: set_clock
-- anchor it anew: the machine has been started again
INSERT INTO clock (one, boot, monotonic, steady) VALUES (1, :boot, :monotonic, :steady)
ON CONFLICT (one) DO UPDATE SET boot = excluded.boot, monotonic = excluded.monotonic, steady = excluded.steady

-- name: add_task
-- a new task
INSERT INTO task (project, scope, id, generation, kind, batch, title, brief, role, agent, workspace, owns,
                  check_command, baseline, state, open_needs, max_attempts, priority, not_before, estimate_minutes,
                  created_at, changed_at)
VALUES (:project, :scope, :id, :generation, :kind, :batch, :title, :brief, :role, :agent, :workspace, :owns,
        :check_command, :baseline, :state, :open_needs, :max_attempts, :priority, :not_before, :estimate_minutes,
        :now, :now)
RETURNING *

-- name: add_tasks
-- the same, for many at once
INSERT INTO task (project, scope, id, generation, kind, batch, title, brief, role, agent, workspace, owns,
                  check_command, baseline, state, open_needs, max_attempts, priority, not_before, estimate_minutes,
                  created_at, changed_at)
VALUES (:project, :scope, :id, :generation, :kind, :batch, :title, :brief, :role, :agent, :workspace, :owns,
        :check_command, :baseline, :state, :open_needs, :max_attempts, :priority, :not_before, :estimate_minutes,
        :now, :now)

-- name: get_task
-- one task by its key
SELECT * FROM task WHERE key = :key

-- name: find_task
-- the newest tasks of that id, whatever batch they are in
SELECT * FROM task WHERE project = :project AND id = :id ORDER BY key DESC LIMIT 50

-- name: last_generation
-- how often an id has been used
SELECT coalesce(max(generation), 0) AS generation FROM task
WHERE project = :project AND scope = :scope AND id = :id

-- name: list_live_tasks
-- tasks that have not ended
SELECT * FROM task WHERE ended_at IS NULL AND (:project = '' OR project = :project) ORDER BY key LIMIT :limit

-- name: list_tasks
-- tasks of any state, newest first
SELECT * FROM task WHERE (:project = '' OR project = :project) ORDER BY key DESC LIMIT :limit

-- name: list_tasks_in_state
-- tasks of one state, newest first
SELECT * FROM task WHERE state = :state AND (:project = '' OR project = :project) ORDER BY key DESC LIMIT :limit

-- name: list_running_on
-- the running tasks of a host, newest first
SELECT * FROM task WHERE state = 'running' AND held_host = :host AND (:project = '' OR project = :project) ORDER BY key DESC

-- name: list_batch_tasks
-- the sub-tasks and the fan-in of a batch
SELECT * FROM task WHERE batch = :batch ORDER BY key

-- name: find_moving
-- a task of a batch that runs or may be started
SELECT key FROM task WHERE batch = :batch AND state IN ('ready', 'running') LIMIT 1

-- name: list_batch_keys
-- what key each task of a batch was given
SELECT key, id, scope FROM task WHERE batch = :batch

-- name: list_cards
-- what a board shows of each task between two keys: the live ones, and those that ended since a moment; of one state or of all
SELECT task.key, task.project, task.scope, task.id, task.kind, task.batch, task.state,
       CASE WHEN task.title <> '' THEN task.title ELSE substr(task.brief, 1, 200) END AS title,
       substr(task.reason, 1, 2000) AS reason, task.attempt, task.max_attempts, task.priority, task.not_before, task.agent,
       task.held_by, task.held_agent, task.lease_seconds, task.seen_at, task.changed_at, task.ended_at,
       CASE WHEN task.state <> 'done' THEN ''
            WHEN task.kind = 'entrant' THEN 'done'
            WHEN task.evidence LIKE '%"landing_undone"%' THEN 'undone'
            WHEN EXISTS (SELECT 1 FROM request WHERE request.task = task.key AND request.ended_at IS NULL) THEN 'requested'
            WHEN task.evidence LIKE '%"landed"%' OR EXISTS (SELECT 1 FROM batch JOIN task joiner ON joiner.key = batch.fan_in
                 WHERE batch.key = task.batch AND joiner.state = 'done' AND joiner.evidence LIKE '%"landed"%') THEN 'landed'
            WHEN EXISTS (SELECT 1 FROM batch JOIN task joiner ON joiner.key = batch.fan_in
                 WHERE batch.key = task.batch AND joiner.evidence LIKE '%"landed"%') THEN 'reopened'
            WHEN task.kind = 'phase' THEN 'verified'
            WHEN task.evidence LIKE '%"commit"%' THEN 'green'
            ELSE 'done' END AS outcome,
       coalesce(expense.money, 0) AS money
FROM task LEFT JOIN expense ON expense.session = task.held_by
WHERE task.key BETWEEN :first AND :last AND (task.ended_at IS NULL OR task.ended_at >= :since)
  AND (:project = '' OR task.project = :project) AND (:state = '' OR task.state = :state)
ORDER BY task.key LIMIT :limit

-- name: list_project_names
-- projects that have tasks, by their names alone: one step in an index for each of them
WITH RECURSIVE found (project) AS (
    SELECT min(project) FROM task
    UNION ALL
    SELECT (SELECT min(task.project) FROM task WHERE task.project > found.project) FROM found WHERE found.project IS NOT NULL)
SELECT project FROM found WHERE project IS NOT NULL

-- name: list_projects
-- projects that have tasks
SELECT project, count(*) AS tasks, sum(CASE WHEN ended_at IS NULL THEN 1 ELSE 0 END) AS live
FROM task GROUP BY project ORDER BY project

-- name: list_workspaces
-- the folders that tasks of a project were written in
SELECT DISTINCT workspace FROM task WHERE project = :project

-- name: move_tasks_of_project
-- the checkout of live tasks has moved
UPDATE task SET workspace = :new WHERE project = :project AND workspace = :old AND ended_at IS NULL RETURNING *

-- name: move_batches_of_project
-- the checkout of live batches has moved
UPDATE batch SET workspace = :new WHERE project = :project AND workspace = :old AND ended_at IS NULL

-- name: move_flows_of_project
-- the repository of live flows has moved
UPDATE flow SET repository = :new WHERE project = :project AND repository = :old AND ended_at IS NULL

-- name: rename_project_in_task
-- a project goes by another name
UPDATE task SET project = :new WHERE project = :old

-- name: rename_project_in_batch
-- a project goes by another name
UPDATE batch SET project = :new WHERE project = :old

-- name: rename_project_in_session
-- a project goes by another name
UPDATE session SET project = :new WHERE project = :old

-- name: rename_project_in_pause
-- a project goes by another name
UPDATE pause SET project = :new WHERE project = :old

-- name: rename_project_in_inbox
-- a project goes by another name
UPDATE inbox SET project = :new WHERE project = :old

-- name: rename_project_in_measure
-- a project goes by another name
UPDATE measure SET project = :new WHERE project = :old

-- name: rename_project_in_flow
-- a project goes by another name
UPDATE flow SET project = :new WHERE project = :old

-- name: rename_project_in_decision
-- a project goes by another name
UPDATE decision SET project = :new WHERE project = :old

-- name: rename_project_in_incident
-- a project goes by another name
UPDATE incident SET project = :new WHERE project = :old

-- name: rename_project_in_expense
-- a project goes by another name
UPDATE expense SET project = :new WHERE project = :old

-- name: rename_project_in_token
-- a project goes by another name
UPDATE token SET project = :new WHERE project = :old

-- name: rename_project_in_transcript
-- a project goes by another name
UPDATE transcript SET project = :new WHERE project = :old

-- name: edit_task
-- change what a task asks for while nobody works on it
UPDATE task SET title = :title, brief = :brief, priority = :priority, not_before = :not_before, agent = :agent, owns = :owns,
                check_command = :check_command, baseline = :baseline, changed_at = :now
WHERE key = :key AND state IN ('waiting', 'ready', 'blocked') RETURNING *

-- name: place_task
-- the holder of the fence works on in another folder
UPDATE task SET workspace = :workspace, baseline = :baseline, changed_at = :now
WHERE key = :key AND fence = :fence AND state = 'running' RETURNING *

-- name: widen_task
-- a running task owns more from now on
UPDATE task SET owns = :owns, changed_at = :now WHERE key = :key AND fence = :fence AND state = 'running' RETURNING *

-- name: note_claim
-- what the holder of the fence found when it began
UPDATE task SET baseline = :baseline WHERE key = :key AND fence = :fence AND state = 'running' RETURNING *

-- name: list_ended_since
-- tasks of a project that ended after a moment
SELECT * FROM task WHERE project = :project AND ended_at >= :since ORDER BY key

-- name: move_task
-- a change of state that concerns no session
UPDATE task SET state = :state, reason = :reason, blocked_by = :blocked_by, held_by = NULL, lease_until = NULL,
                changed_at = :now, ended_at = :ended_at, result = :result
WHERE key = :key AND state = :seen AND fence = :fence RETURNING *

-- name: finish_held_task
-- done, by the session that holds the task's fence
UPDATE task SET state = 'done', result = :result, evidence = :evidence, reason = '', blocked_by = NULL,
                lease_until = NULL, changed_at = :now, ended_at = :now,
                busy_seconds = busy_seconds + CASE WHEN state = 'running' THEN :lease_now - held_since ELSE 0 END
WHERE key = :key AND fence = :fence AND held_by IS NOT NULL AND state IN ('running', 'ready', 'blocked') RETURNING *

-- name: finish_free_task
-- done, by a person, while nobody works on it
UPDATE task SET state = 'done', result = :result, evidence = :evidence, reason = '', blocked_by = NULL,
                held_by = NULL, changed_at = :now, ended_at = :now
WHERE key = :key AND state IN ('waiting', 'ready', 'blocked', 'gated') RETURNING *

-- name: let_go_task
-- the session that holds the fence gives the task up: blocked, ready again, or behind a gate
UPDATE task SET state = :state, reason = :reason, held_by = NULL, lease_until = NULL, changed_at = :now,
                busy_seconds = busy_seconds + CASE WHEN state = 'running' THEN :lease_now - held_since ELSE 0 END
WHERE key = :key AND fence = :fence AND held_by IS NOT NULL AND state IN ('running', 'ready') RETURNING *

-- name: claim_task
-- hand a ready task to a session: the fence grows
UPDATE task SET state = 'running', fence = fence + 1, held_by = :session, held_host = :host, held_agent = :agent,
                held_since = :lease_now, lease_seconds = :lease_seconds,
                lease_until = :lease_now + CAST(:lease_seconds AS DOUBLE PRECISION),
                seen_at = :now, changed_at = :now, started_at = coalesce(started_at, :now), reason = ''
WHERE key = :key AND state = 'ready' RETURNING *

-- name: ready_tasks
-- ready tasks that may run now, in their order: not stopped, within every limit, their session holding nothing
SELECT task.key FROM task
WHERE task.state = 'ready' AND task.not_before <= :now
  AND (:project = '' OR task.project = :project)
  AND (:agent = '' OR task.agent = '' OR task.agent = :agent)
  AND (:role = '' OR task.role = '' OR task.role = :role)
  AND (:tab = 0 OR task.kind IN ('task', 'sub-task', 'fan-in', 'entrant'))
  AND NOT EXISTS (SELECT 1 FROM requirement WHERE requirement.task = task.key AND :labels NOT LIKE '%,' || requirement.name || ',%')
  /* rare */ AND NOT EXISTS (SELECT 1 FROM pause WHERE
      scope = 'all'
      OR (scope = 'project' AND pause.project = task.project)
      OR (scope = 'task' AND pause.project = task.project AND name IN (task.id, task.scope || '/' || task.id))
      OR (scope = 'batch' AND pause.project = task.project
          AND name = (SELECT batch.id FROM batch WHERE batch.key = task.batch))) /* rare ends */
  AND (:max_machine = 0 OR (SELECT count(*) FROM task busy LEFT JOIN session ON session.id = busy.held_by
       WHERE busy.state = 'running' AND busy.held_host = :host
         AND (:tab = 1 OR coalesce(session.kind, '') <> 'tab')) < :max_machine)
  /* rare */ AND (:max_project = 0 OR task.project NOT IN (SELECT busy.project FROM task busy
       WHERE busy.state = 'running' GROUP BY busy.project HAVING count(*) >= :max_project))
  AND (:max_agent = 0 OR CASE WHEN task.agent = '' THEN :agent ELSE task.agent END NOT IN (SELECT busy.held_agent FROM task busy
       WHERE busy.state = 'running' GROUP BY busy.held_agent HAVING count(*) >= :max_agent))
  AND NOT EXISTS (SELECT 1 FROM hold WHERE :tab = 0 AND hold.kind = 'task' AND hold.name = CAST(task.key AS TEXT)
       AND hold.host IN (:host, '') AND hold.until > :now)
  AND NOT EXISTS (SELECT 1 FROM hold WHERE :tab = 0 AND hold.kind = 'agent'
       AND hold.name = CASE WHEN :agent = '' THEN task.agent ELSE :agent END AND hold.host = :host AND hold.until > :now)
  AND NOT EXISTS (SELECT 1 FROM session JOIN task held ON held.key = session.task
       WHERE session.id = :session AND held.state = 'running' AND held.held_by = session.id AND held.fence = session.fence) /* rare ends */
ORDER BY task.priority DESC, task.attempt, task.key

-- name: next_task
-- the one that comes next
{ready_tasks} LIMIT 1

-- name: claim_next_task
-- hand that task to a session: the fence grows; who claims at the same time takes the one after it
UPDATE task SET state = 'running', fence = fence + 1, held_by = :session, held_host = :host,
                held_agent = CASE WHEN :tab = 1 OR agent = '' THEN :agent ELSE agent END,
                held_since = :lease_now, lease_seconds = :lease_seconds,
                lease_until = :lease_now + CAST(:lease_seconds AS DOUBLE PRECISION),
                seen_at = :now, changed_at = :now, started_at = coalesce(started_at, :now), reason = ''
WHERE key = ({next_task} /* postgres: FOR UPDATE OF task SKIP LOCKED */) RETURNING *

-- name: claim_next_tasks
-- hand the next ones to as many new sessions, whose names stand in one text; picked once, or the planner may pick again and take more
WITH picked AS MATERIALIZED ({ready_tasks} LIMIT :most /* postgres: FOR UPDATE OF task SKIP LOCKED */),
     placed AS (SELECT key, row_number() OVER (ORDER BY key) - 1 AS place FROM picked)
UPDATE task SET state = 'running', fence = fence + 1, held_host = :host,
                held_by = (SELECT substr(:names, CAST(place * :width + 1 AS INTEGER), CAST(:width AS INTEGER))
                           FROM placed WHERE placed.key = task.key),
                held_agent = CASE WHEN agent = '' THEN :agent ELSE agent END,
                held_since = :lease_now, lease_seconds = :lease_seconds,
                lease_until = :lease_now + CAST(:lease_seconds AS DOUBLE PRECISION),
                seen_at = :now, changed_at = :now, started_at = coalesce(started_at, :now), reason = ''
WHERE key IN (SELECT key FROM picked) RETURNING *

-- name: count_running
-- how many tasks run on this host, in this project, with this agent; a person's tab is none of a supervisor's sessions
SELECT coalesce(sum(CASE WHEN held_host = :host AND (:tab = 1 OR coalesce(session.kind, '') <> 'tab') THEN 1 ELSE 0 END), 0) AS machine,
       coalesce(sum(CASE WHEN task.project = :project THEN 1 ELSE 0 END), 0) AS project,
       coalesce(sum(CASE WHEN held_agent = :agent THEN 1 ELSE 0 END), 0) AS agent
FROM task LEFT JOIN session ON session.id = task.held_by WHERE state = 'running'

-- name: count_ready
-- how many tasks wait for a session, and how many of them may start now
SELECT count(*) AS ready, coalesce(sum(CASE WHEN not_before <= :now THEN 1 ELSE 0 END), 0) AS due
FROM task WHERE state = 'ready' AND (:project = '' OR project = :project)

-- name: count_tasks
-- how many tasks a list would have
SELECT count(*) AS count FROM task
WHERE (:project = '' OR project = :project) AND (:state = '' OR state = :state) AND (:ended = 1 OR ended_at IS NULL)

-- name: count_project
-- how much of everything a project has under way: tasks by state, and what waits for a person
SELECT state AS what, count(*) AS count FROM task WHERE project = :project AND ended_at IS NULL GROUP BY state
UNION ALL
SELECT 'gates', count(*) FROM gate JOIN task ON task.key = gate.task WHERE gate.state = 'open' AND task.project = :project
UNION ALL
SELECT 'flows', count(*) FROM flow WHERE project = :project AND ended_at IS NULL
UNION ALL
SELECT 'batches', count(*) FROM batch WHERE project = :project AND ended_at IS NULL
UNION ALL
SELECT 'incidents', count(*) FROM incident WHERE project = :project AND resolved_at IS NULL
UNION ALL
SELECT 'stops', count(*) FROM pause WHERE scope = 'all' OR project = :project
UNION ALL
SELECT 'held', count(*) FROM hold WHERE until > :now AND (kind = 'agent' OR EXISTS (
    SELECT 1 FROM task WHERE task.state = 'ready' AND task.project = :project AND CAST(task.key AS TEXT) = hold.name))

-- name: list_open_batches
-- the names of the batches a project has under way
SELECT id FROM batch WHERE project = :project AND ended_at IS NULL ORDER BY key

-- name: renew_lease
-- a sign of life from the session that holds the fence
UPDATE task SET lease_until = :lease_now + CASE WHEN :lease_seconds > 0 THEN :lease_seconds ELSE lease_seconds END,
                lease_seconds = CASE WHEN :lease_seconds > 0 THEN :lease_seconds ELSE lease_seconds END, seen_at = :now
WHERE key = :key AND fence = :fence AND state = 'running' RETURNING *

-- name: renew_leases
-- signs of life of sessions of one host, each by its task and fence; in one order, so that nobody waits in a circle
WITH beat AS MATERIALIZED (
    SELECT key FROM task WHERE state = 'running' AND held_host = :host
      AND :beats LIKE '%,' || CAST(key AS TEXT) || ':' || CAST(fence AS TEXT) || ',%'
    ORDER BY key /* postgres: FOR NO KEY UPDATE */)
UPDATE task SET lease_until = :lease_now + lease_seconds, seen_at = :now WHERE key IN (SELECT key FROM beat) RETURNING key

-- name: list_holdings
-- who holds which running task of this host
SELECT key, fence, held_by, state FROM task WHERE state = 'running' AND held_host = :host

-- name: revive_task
-- a session thought dead is alive, and nobody has taken its task: the attempt that was counted was none
UPDATE task SET state = 'running', held_since = :lease_now,
                lease_until = :lease_now + CASE WHEN :lease_seconds > 0 THEN :lease_seconds ELSE lease_seconds END,
                lease_seconds = CASE WHEN :lease_seconds > 0 THEN :lease_seconds ELSE lease_seconds END,
                attempt = CASE WHEN attempt > 1 THEN attempt - 1 ELSE attempt END,
                seen_at = :now, changed_at = :now, reason = ''
WHERE key = :key AND fence = :fence AND held_by IS NOT NULL AND state = 'ready' RETURNING *

-- name: list_expired
-- running tasks whose session has been silent too long
SELECT * FROM task WHERE state = 'running' AND lease_until < :lease_now
  AND NOT EXISTS (SELECT 1 FROM decision WHERE decision.task = task.key AND decision.state = 'open')
ORDER BY lease_until LIMIT :limit

-- name: list_held_on
-- running tasks of sessions on this host that named their process
SELECT task.*, session.pid AS pid, session.process_start AS process_start, session.boot AS boot
FROM task JOIN session ON session.id = task.held_by
WHERE task.state = 'running' AND task.held_host = :host AND session.pid > 0
  AND NOT EXISTS (SELECT 1 FROM decision WHERE decision.task = task.key AND decision.state = 'open')

-- name: free_expired_task
-- the session is gone: the task is ready for another attempt, the fence stays until somebody takes it
UPDATE task SET state = 'ready', attempt = attempt + :charged, reason = :reason, lease_until = NULL, changed_at = :now,
                busy_seconds = busy_seconds + :lease_now - held_since
WHERE key = :key AND fence = :fence AND state = 'running' AND lease_until = :lease_until
  AND NOT EXISTS (SELECT 1 FROM decision WHERE decision.task = :key AND decision.state = 'open')
  AND (attempt < max_attempts OR :charged = 0) RETURNING *

-- name: block_expired_task
-- the session is gone and the attempts are used up
UPDATE task SET state = 'blocked', reason = :reason, lease_until = NULL, changed_at = :now,
                busy_seconds = busy_seconds + :lease_now - held_since
WHERE key = :key AND fence = :fence AND state = 'running' AND lease_until = :lease_until
  AND NOT EXISTS (SELECT 1 FROM decision WHERE decision.task = :key AND decision.state = 'open')
  AND attempt >= max_attempts RETURNING *

-- name: pass_on_task
-- another agent goes on with the task
UPDATE task SET state = 'ready', agent = :agent, attempt = :attempt, baseline = :baseline, lease_until = NULL, changed_at = :now,
                busy_seconds = busy_seconds + CASE WHEN state = 'running' THEN :lease_now - held_since ELSE 0 END
WHERE key = :key AND fence = :fence AND state = :seen AND agent = :before AND coalesce(lease_until, 0) = :lease_until
  AND NOT EXISTS (SELECT 1 FROM decision WHERE decision.task = :key AND decision.state = 'open') RETURNING *

-- name: retry_task
-- a person lets a blocked task try again
UPDATE task SET state = CASE WHEN open_needs > 0 THEN 'waiting' ELSE 'ready' END, reason = '', blocked_by = NULL,
                held_by = NULL, attempt = 1, agent = :agent, baseline = :baseline, counted = :counted, changed_at = :now
WHERE key = :key AND state = 'blocked' RETURNING *

-- name: put_evidence
-- what is known of a finished task has changed
UPDATE task SET evidence = :evidence, changed_at = :now WHERE key = :key AND state = 'done' RETURNING *

-- name: send_back_task
-- a finished part, or a task whose landing was taken back, is to be done again, with the reason
UPDATE task SET state = CASE WHEN open_needs > 0 THEN 'waiting' ELSE 'ready' END, reason = :reason, blocked_by = NULL,
                held_by = NULL, lease_until = NULL, attempt = 1,
                counted = :counted, ended_at = NULL, changed_at = :now
WHERE key = :key AND state = 'done' AND kind IN ('task', 'sub-task', 'entrant') RETURNING *

-- name: drop_check
-- a check that says nothing about the task judges it no more
UPDATE task SET check_command = '' WHERE key = :key AND fence = :fence AND state = 'running' RETURNING *

-- name: race_part
-- the part that an entrant runs for
SELECT task.* FROM need JOIN task ON task.key = need.task WHERE need.needs = :key AND task.kind = 'sub-task'

-- name: race_entrants
-- who runs for a part
SELECT task.* FROM need JOIN task ON task.key = need.needs WHERE need.task = :key AND task.kind = 'entrant' ORDER BY task.key

-- name: hold_race
-- nobody else decides this race now
UPDATE task SET changed_at = :now WHERE key = :key AND state = 'waiting' RETURNING *

-- name: gate_race
-- a part whose race has no winner asks a person
UPDATE task SET state = 'gated', changed_at = :now WHERE key = :key AND state = 'waiting' RETURNING *

-- name: take_race
-- the part has the time and the agent of who won it
UPDATE task SET busy_seconds = :busy_seconds, started_at = :started_at, held_agent = :agent WHERE key = :key RETURNING *

-- name: count_out_task
-- a sub-task leaves its batch's count, once
UPDATE task SET counted = 1 WHERE key = :key AND counted = 0 AND batch IS NOT NULL AND kind = 'sub-task'

-- name: add_need
-- one task waits for another
INSERT INTO need (task, needs, met) VALUES (:task, :needs, :met) ON CONFLICT (task, needs) DO NOTHING

-- name: list_needs
-- what a task waits for
SELECT task.key, task.id, task.scope, task.state, need.met FROM need JOIN task ON task.key = need.needs
WHERE need.task = :task ORDER BY task.key

-- name: list_dependents
-- tasks that wait for this one
SELECT task.key, task.id, task.state, task.fence FROM need JOIN task ON task.key = need.task
WHERE need.needs = :needs AND need.met = 0 ORDER BY task.key

-- name: find_needing
-- a live task that comes after this one, whether or not that is done
SELECT task.key FROM need JOIN task ON task.key = need.task WHERE need.needs = :key AND task.ended_at IS NULL LIMIT 1

-- name: lock_dependents
-- the same, kept from other writers until the end, in the order of their keys: two that end at once do not wait crosswise
SELECT task.key FROM task
WHERE task.key IN (SELECT need.task FROM need WHERE need.needs = :needs AND need.met = 0)
ORDER BY task.key /* postgres: FOR NO KEY UPDATE OF task */

-- name: lock_need
-- a task that another is to come after, kept as it is until the end: whoever finishes it meanwhile finds the newcomer
SELECT state FROM task WHERE key = :key /* postgres: FOR SHARE */

-- name: list_followers
-- whether a task that has just ended concerns others: who waits for it, and who is blocked because of it
SELECT EXISTS (SELECT 1 FROM need WHERE needs = :key AND met = 0) AS waiting,
       EXISTS (SELECT 1 FROM task WHERE blocked_by = :key AND state = 'blocked') AS stranded

-- name: lower_open_needs
-- everybody who waits for this task has one need less
UPDATE task SET open_needs = open_needs - 1
WHERE key IN (SELECT task FROM need WHERE needs = :needs AND met = 0)

-- name: meet_needs
-- and will not be counted again
UPDATE need SET met = 1 WHERE needs = :needs AND met = 0

-- name: wake_dependents
-- those without open needs are ready
UPDATE task SET state = 'ready', changed_at = :now
WHERE state = 'waiting' AND open_needs <= 0 AND key IN (SELECT task FROM need WHERE needs = :needs) RETURNING *

-- name: wake_freed
-- a waiting task without open needs is ready (repair)
UPDATE task SET state = 'ready', changed_at = :now WHERE state = 'waiting' AND open_needs <= 0 RETURNING *

-- name: block_victim
-- a task whose need cannot be met is blocked too
UPDATE task SET state = 'blocked', reason = :reason, blocked_by = :blocked_by, changed_at = :now
WHERE key = :key AND state = 'waiting' RETURNING *

-- name: list_victims
-- tasks that are blocked because this one was
SELECT * FROM task WHERE blocked_by = :blocked_by AND state = 'blocked' ORDER BY key

-- name: waive_need
-- one need counts as met
UPDATE need SET met = 1 WHERE task = :task AND needs = :needs AND met = 0

-- name: lower_one_need
-- and the task has one less
UPDATE task SET open_needs = open_needs - 1 WHERE key = :key

-- name: add_batch
-- a new batch
INSERT INTO batch (project, id, workspace, state, total, remaining, next_task, rationale, estimated_speedup,
                   serial_minutes, manifest, created_at, due_at)
VALUES (:project, :id, :workspace, 'open', :total, :total, :next_task, :rationale, :estimated_speedup,
        :serial_minutes, :manifest, :now, :due_at)
RETURNING *

-- name: add_ended_batch
-- a batch that another tool has brought to its end; it stands for its figures
INSERT INTO batch (project, id, workspace, state, total, remaining, next_task, rationale, estimated_speedup,
                   serial_minutes, manifest, created_at, joined_at, ended_at)
VALUES (:project, :id, '', 'done', :total, 0, '', '', 0, 0, '{}', :at, :at, :at)
RETURNING *

-- name: set_fan_in
-- which task brings the batch together
UPDATE batch SET fan_in = :fan_in WHERE key = :key RETURNING *

-- name: get_batch
-- one batch by its key
SELECT * FROM batch WHERE key = :key

-- name: find_batch
-- the newest batch of that id
SELECT * FROM batch WHERE project = :project AND id = :id ORDER BY key DESC LIMIT 1

-- name: list_batches
-- batches, newest first
SELECT * FROM batch WHERE (:project = '' OR project = :project) AND (:live = 0 OR ended_at IS NULL)
ORDER BY key DESC LIMIT :limit

-- name: count_batch_parts
-- how many parts of the open batches are done, and how many are blocked
SELECT task.batch AS batch, sum(CASE WHEN task.state = 'done' THEN 1 ELSE 0 END) AS done,
       sum(CASE WHEN task.state = 'blocked' THEN 1 ELSE 0 END) AS blocked
FROM task JOIN batch ON batch.key = task.batch
WHERE task.kind = 'sub-task' AND batch.ended_at IS NULL GROUP BY task.batch

-- name: count_batch_states
-- how many parts of each open batch are in which state
SELECT batch.key AS batch, batch.project AS project, batch.id AS id, task.state AS state, count(*) AS count
FROM batch JOIN task ON task.batch = batch.key AND task.kind = 'sub-task'
WHERE batch.ended_at IS NULL AND (:project = '' OR batch.project = :project)
GROUP BY batch.key, batch.project, batch.id, task.state ORDER BY batch.key

-- name: count_out
-- one sub-task less; who brings it to 0 opens the fan-in
UPDATE batch SET remaining = remaining - 1 WHERE key = :key RETURNING *

-- name: count_in
-- a sub-task that was counted out is to be done after all: the batch is open again, even if it was over
UPDATE batch SET remaining = remaining + 1, state = 'open', joined_at = NULL, ended_at = NULL
WHERE key = :key AND state <> 'cancelled' RETURNING *

-- name: close_fan_in
-- the fan-in waits for its parts again; a blocked one stays blocked, and a running one is not taken from its session
UPDATE task SET state = CASE WHEN state IN ('ready', 'gated', 'done') THEN 'waiting' ELSE state END, open_needs = 1,
                ended_at = NULL, held_by = NULL, changed_at = :now
WHERE key = :key AND state NOT IN ('running', 'cancelled') RETURNING *

-- name: gate_fan_in
-- a fan-in that could begin asks a person first, because parts are missing
UPDATE task SET state = 'gated', changed_at = :now WHERE key = :key AND state = 'ready' RETURNING *

-- name: list_missing
-- the parts of a batch that are blocked: not done, and nobody has agreed to go without them
SELECT id, reason FROM task WHERE batch = :batch AND kind = 'sub-task' AND state = 'blocked' ORDER BY key

-- name: join_batch
-- the batch is whole: open its fan-in, once
UPDATE batch SET state = 'joining', joined_at = :now WHERE key = :key AND state = 'open' AND remaining <= 0 RETURNING *

-- name: open_fan_in
-- the fan-in waits for nothing any more; a blocked one stays blocked until somebody retries it
UPDATE task SET state = CASE WHEN state = 'waiting' THEN 'ready' ELSE state END, open_needs = 0, changed_at = :now
WHERE key = :key AND ended_at IS NULL RETURNING *

-- name: end_batch
-- the batch is over
UPDATE batch SET state = :state, ended_at = :now WHERE key = :key AND ended_at IS NULL RETURNING *

-- name: list_joinable_batches
-- batches whose fan-in is due and was not opened (repair)
SELECT key FROM batch WHERE state = 'open' AND remaining <= 0 LIMIT :limit

-- name: recount_batches
-- open batches whose counter disagrees with their rows (deep repair)
SELECT batch.key, count(task.key) AS uncounted FROM batch
LEFT JOIN task ON task.batch = batch.key AND task.kind = 'sub-task' AND task.counted = 0
WHERE batch.state = 'open' GROUP BY batch.key, batch.remaining HAVING count(task.key) <> batch.remaining

-- name: set_remaining
-- put a counter right
UPDATE batch SET remaining = :remaining WHERE key = :key AND state = 'open'

-- name: mark_overdue_batches
-- batches that have passed their time; each is told once
UPDATE batch SET overdue_at = :now WHERE state = 'open' AND overdue_at IS NULL AND due_at < :now RETURNING *

-- name: count_overdue_batches
-- whether there is such a batch
SELECT count(*) AS count FROM batch WHERE state = 'open' AND overdue_at IS NULL AND due_at < :now

-- name: list_idle_fan_ins
-- fan-ins that have been ready for long and nobody takes
SELECT * FROM task WHERE state = 'ready' AND kind = 'fan-in' AND changed_at < :before ORDER BY changed_at LIMIT :limit

-- name: count_freed
-- waiting tasks without open needs
SELECT count(*) AS count FROM task WHERE state = 'waiting' AND open_needs <= 0

-- name: put_session
-- a session says who it is; a known one is brought up to date
INSERT INTO session (id, kind, project, agent, workspace, host, boot, pid, process_start, task, fence,
                     started_at, seen_at)
VALUES (:id, :kind, :project, :agent, :workspace, :host, :boot, :pid, :process_start, :task, :fence, :now, :now)
ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, project = excluded.project, agent = excluded.agent,
    workspace = excluded.workspace, host = excluded.host, boot = excluded.boot, pid = excluded.pid,
    process_start = excluded.process_start, seen_at = excluded.seen_at, ended_at = NULL, ending = '',
    task = coalesce(excluded.task, session.task),
    fence = CASE WHEN excluded.task IS NULL THEN session.fence ELSE excluded.fence END
RETURNING *

-- name: get_session
-- one session with its last sign of life, also one for its task
SELECT session.id, session.kind, session.project, session.agent, session.workspace, session.host, session.boot, session.pid,
       session.process_start, session.task, session.fence, session.started_at,
       CASE WHEN task.seen_at > session.seen_at THEN task.seen_at ELSE session.seen_at END AS seen_at,
       session.ended_at, session.ending
FROM session LEFT JOIN task ON task.key = session.task WHERE session.id = :id

-- name: list_live_sessions
-- sessions that have not ended
SELECT * FROM session WHERE ended_at IS NULL ORDER BY started_at LIMIT :limit

-- name: list_sessions_at_work
-- sessions that hold a task or were started by us, each with its last sign of life, also one for its task
SELECT session.id, session.kind, session.project, session.agent, session.workspace, session.host, session.boot, session.pid,
       session.process_start, session.task, session.fence, session.started_at,
       CASE WHEN task.seen_at > session.seen_at THEN task.seen_at ELSE session.seen_at END AS seen_at,
       session.ended_at, session.ending
FROM session LEFT JOIN task ON task.key = session.task
WHERE session.ended_at IS NULL AND (session.task IS NOT NULL OR session.kind NOT IN ('tab', 'person'))
  AND (:project = '' OR session.project = :project)
ORDER BY session.started_at LIMIT :limit

-- name: give_session_task
-- the session holds this task now
UPDATE session SET task = :task, fence = :fence, seen_at = :now, ended_at = NULL, ending = '' WHERE id = :id

-- name: free_session
-- the session has let its task go
UPDATE session SET task = NULL, seen_at = :now WHERE id = :id AND task = :task AND fence = :fence

-- name: end_session
-- the session is over
UPDATE session SET ended_at = :now, ending = :ending, task = NULL WHERE id = :id AND ended_at IS NULL RETURNING *

-- name: list_idle_sessions
-- sessions that hold nothing and have been silent for long
SELECT * FROM session WHERE ended_at IS NULL AND task IS NULL AND seen_at < :before ORDER BY seen_at LIMIT :limit

-- name: add_gate
-- ask a person
INSERT INTO gate (task, question, on_yes, state, opened_at, due_at, fallback, subject, code, choices, cap)
VALUES (:task, :question, :on_yes, 'open', :now, :due_at, :fallback, :subject, :code, :choices, :cap) RETURNING *

-- name: list_caps
-- what people were asked about one cap on money, the latest first: of one task, of one batch, or of all
SELECT gate.* FROM gate JOIN task ON task.key = gate.task
WHERE gate.cap = :cap AND gate.cap <> '' AND (:task = 0 OR gate.task = :task) AND (:batch = 0 OR task.batch = :batch)
ORDER BY gate.key DESC

-- name: open_gate_of
-- the gate a task waits at
SELECT * FROM gate WHERE task = :task AND state = 'open'

-- name: last_gate_of
-- the latest gate of a task, open or answered
SELECT * FROM gate WHERE task = :task ORDER BY key DESC LIMIT 1

-- name: list_gates
-- gates with the names of their tasks, the oldest first
SELECT gate.*, task.project AS project, task.id AS task_id, task.scope AS scope
FROM gate JOIN task ON task.key = gate.task
WHERE (:state = '' OR gate.state = :state) AND (:project = '' OR task.project = :project)
ORDER BY gate.key LIMIT :limit

-- name: gate_by_code
-- the gate a one-time code answers
SELECT * FROM gate WHERE code = :code AND code <> '' AND state = 'open'

-- name: used_code
-- the gate such a code has answered already
SELECT * FROM gate WHERE code = :code AND code <> '' ORDER BY key DESC LIMIT 1

-- name: list_answers
-- what people said to a task's gates, the latest first
SELECT question, state, answered_by, reason, answer, choices FROM gate
WHERE task = :task AND state IN ('approved', 'rejected') AND cap = '' ORDER BY key DESC LIMIT :limit

-- name: answer_gate
-- yes or no, once
UPDATE gate SET state = :state, answered_at = :now, answered_by = :answered_by, reason = :reason, answer = :answer
WHERE key = :key AND state = 'open' RETURNING *

-- name: withdraw_gate
-- the task went on or ended without an answer
UPDATE gate SET state = 'withdrawn', answered_at = :now WHERE task = :task AND state = 'open'

-- name: mark_overdue_gates
-- gates nobody answered in time; each is told once
UPDATE gate SET overdue_at = :now WHERE state = 'open' AND overdue_at IS NULL AND due_at < :now RETURNING *

-- name: count_overdue_gates
-- whether there is such a gate
SELECT count(*) AS count FROM gate WHERE state = 'open' AND overdue_at IS NULL AND due_at < :now

-- name: put_pause
-- nothing in this scope is claimed for now
INSERT INTO pause (scope, project, name, reason, paused_by, at)
VALUES (:scope, :project, :name, :reason, :paused_by, :now)
ON CONFLICT (scope, project, name) DO NOTHING

-- name: drop_pause
-- claims may go on
DELETE FROM pause WHERE scope = :scope AND project = :project AND name = :name

-- name: list_pauses
-- what is paused
SELECT * FROM pause ORDER BY at

-- name: add_event
-- one line of the journal
INSERT INTO event (at, kind, project, task, task_id, batch, session, fence, body)
VALUES (:at, :kind, :project, :task, :task_id, :batch, :session, :fence, :body)

-- name: read_events
-- the journal after a line
SELECT * FROM event WHERE seq > :since AND seq <= :settled ORDER BY seq LIMIT :limit

-- name: read_project_events
-- the journal of a project after a line
SELECT * FROM event WHERE project = :project AND seq > :since AND seq <= :settled ORDER BY seq LIMIT :limit

-- name: read_last_events
-- the journal before a line, newest first
SELECT * FROM event WHERE seq < :before ORDER BY seq DESC LIMIT :limit

-- name: read_last_project_events
-- the journal of a project before a line, newest first
SELECT * FROM event WHERE project = :project AND seq < :before ORDER BY seq DESC LIMIT :limit

-- name: last_event
-- how far the journal goes
SELECT seq FROM event ORDER BY seq DESC LIMIT 1

-- name: read_task_events
-- the journal of one task
SELECT * FROM event WHERE task = :task AND seq > :since ORDER BY seq LIMIT :limit

-- name: read_conflicts_of_running
-- what was said to tasks that run about files git cannot join
SELECT event.* FROM task JOIN event ON event.task = task.key
WHERE task.state = 'running' AND event.kind IN ('conflict.seen', 'conflict.gone')
ORDER BY event.seq

-- name: read_client_events
-- what was said to a session of a client that holds no task
SELECT * FROM event WHERE project = :project AND task IS NULL AND session = :session
  AND kind IN ('person.said', 'session.heard', 'session.saw')
ORDER BY seq

-- name: read_batch_events
-- the end of the journal of one batch and its parts, newest first
SELECT * FROM event WHERE batch = :batch AND seq > :since ORDER BY seq DESC LIMIT :limit

-- name: post_inbox
-- a message for the supervisor
INSERT INTO inbox (kind, project, task, body, created_at) VALUES (:kind, :project, :task, :body, :now) RETURNING *

-- name: read_inbox
-- messages nobody has taken
SELECT * FROM inbox WHERE taken_at IS NULL ORDER BY key LIMIT :limit

-- name: take_inbox
-- take one message, once
UPDATE inbox SET taken_at = :now, taken_by = :taken_by WHERE key = :key AND taken_at IS NULL RETURNING *

-- name: add_measure
-- what a batch took; a repeated report changes nothing
INSERT INTO measure (batch, project, sub_tasks, estimated_minutes, session_minutes, wall_minutes, estimated_speedup,
                     speedup, serial_share, summary, at)
VALUES (:batch, :project, :sub_tasks, :estimated_minutes, :session_minutes, :wall_minutes, :estimated_speedup,
        :speedup, :serial_share, :summary, :now)
ON CONFLICT (batch) DO NOTHING

-- name: list_measures
-- the latest figures of a project
SELECT * FROM measure WHERE (:project = '' OR project = :project) ORDER BY at DESC, batch DESC LIMIT :limit

-- name: sum_batch_work
-- estimates and session times of a batch's sub-tasks
SELECT count(*) AS sub_tasks, coalesce(sum(estimate_minutes), 0) AS estimated_minutes,
       coalesce(sum(busy_seconds), 0) AS busy_seconds, min(started_at) AS started_at, max(ended_at) AS ended_at
FROM task WHERE batch = :batch AND kind = 'sub-task'

-- name: list_prunable
-- ended tasks older than a moment
SELECT * FROM task WHERE ended_at < :before AND (:project = '' OR project = :project)
  AND NOT EXISTS (SELECT 1 FROM batch WHERE batch.key = task.batch AND batch.ended_at IS NULL)
ORDER BY key LIMIT :limit

-- name: prune_needs
-- forget the edges of a task
DELETE FROM need WHERE task = :key OR needs = :key

-- name: prune_requirements
-- forget what a task required of its host
DELETE FROM requirement WHERE task = :key

-- name: prune_gates
-- forget the gates of a task
DELETE FROM gate WHERE task = :key

-- name: prune_decisions
-- forget what was decided and carried out long ago
DELETE FROM decision WHERE key IN (SELECT key FROM decision WHERE ended_at < :before AND (:project = '' OR project = :project) LIMIT :limit)

-- name: prune_task
-- forget an ended task; its journal stays
DELETE FROM task WHERE key = :key AND ended_at IS NOT NULL

-- name: prune_batches
-- forget ended batches without tasks; their figures stay
DELETE FROM batch WHERE key IN (SELECT key FROM batch WHERE ended_at < :before AND (:project = '' OR project = :project) AND NOT EXISTS (SELECT 1 FROM task WHERE task.batch = batch.key) LIMIT :limit)

-- name: prune_sessions
-- forget sessions that ended before a moment
DELETE FROM session WHERE id IN (SELECT id FROM session WHERE ended_at < :before AND (:project = '' OR project = :project) LIMIT :limit)

-- name: prune_inbox
-- forget messages taken before a moment
DELETE FROM inbox WHERE key IN (SELECT key FROM inbox WHERE taken_at < :before AND (:project = '' OR project = :project) LIMIT :limit)

-- name: list_without_tab
-- ready tasks of which no tab was opened since they became ready, and that no supervisor of this host will take
SELECT task.* FROM task WHERE state = 'ready' AND kind IN ('task', 'sub-task', 'fan-in', 'entrant') AND not_before <= :now
  AND NOT EXISTS (SELECT 1 FROM tab WHERE tab.task = task.key AND tab.fence = task.fence)
  AND NOT EXISTS (SELECT 1 FROM executor WHERE executor.host = :host AND executor.state = 'alive' AND executor.lease_until > :lease_now
    AND (NOT EXISTS (SELECT 1 FROM offer WHERE offer.executor = executor.id AND offer.kind = 'project')
      OR EXISTS (SELECT 1 FROM offer WHERE offer.executor = executor.id AND offer.kind = 'project' AND offer.name = task.project)))
ORDER BY priority DESC, key LIMIT :limit

-- name: count_tabs
-- tabs of a host whose task waits to be taken there, or is held
SELECT count(*) AS count FROM tab JOIN task ON task.key = tab.task
WHERE tab.host = :host AND (task.state = 'running' OR (task.state = 'ready' AND tab.fence = task.fence))

-- name: add_tab
-- a tab is about to be opened; who comes second opens none
INSERT INTO tab (task, fence, host, at) VALUES (:task, :fence, :host, :now) ON CONFLICT (task, fence) DO NOTHING

-- name: prune_tabs
-- forget the tabs of tasks that are forgotten
DELETE FROM tab WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.key = tab.task)

-- name: put_executor
-- a supervisor begins
INSERT INTO executor (id, host, boot, pid, process_start, state, lease_until, started_at, seen_at)
VALUES (:id, :host, :boot, :pid, :process_start, 'alive', :lease_now + CAST(:lease_seconds AS DOUBLE PRECISION), :now, :now) RETURNING *

-- name: renew_executor
-- a supervisor lives; one that was given up cannot come back, one that nobody missed can
UPDATE executor SET lease_until = :lease_now + CAST(:lease_seconds AS DOUBLE PRECISION), seen_at = :now
WHERE id = :id AND state = 'alive' RETURNING *

-- name: list_leavings
-- supervisors of this host whose work is not yet in other hands, and those of others that are lost and not yet given up
SELECT executor.*, lease_until - :lease_now AS lease_left FROM executor
WHERE state <> 'recovered' AND (host = :host OR (state = 'alive' AND lease_until <= :lease_now)) ORDER BY started_at, id

-- name: list_executors
-- supervisors whose work is not yet in other hands
SELECT executor.*, lease_until - :lease_now AS lease_left FROM executor
WHERE state <> 'recovered' AND (:host = '' OR host = :host) ORDER BY started_at, id

-- name: move_executor
-- alive, dead, recovered: each step once
UPDATE executor SET state = :state WHERE id = :id AND state = :seen RETURNING *

-- name: prune_executors
-- forget supervisors that were recovered before a moment
DELETE FROM executor WHERE state = 'recovered' AND seen_at < :before

-- name: prune_offers
-- forget what they offered
DELETE FROM offer WHERE NOT EXISTS (SELECT 1 FROM executor WHERE executor.id = offer.executor)

-- name: ask_run
-- a run of a phase is wanted, once
INSERT INTO run (id, queue, version, name, inputs) VALUES (:id, :queue, :version, :name, :inputs) ON CONFLICT (id) DO NOTHING

-- name: find_waiting_run
-- whether anything waits to be begun
SELECT id FROM run WHERE queue = :queue AND version = :version AND state = 'waiting' AND ended_at IS NULL LIMIT 1

-- name: take_runs
-- what waits goes to an executor; with what it has already
UPDATE run SET state = 'running', executor = :executor
WHERE queue = :queue AND version = :version AND ended_at IS NULL AND (state = 'waiting' OR executor = :executor) RETURNING *

-- name: keep_step
-- a step of a run is done, if the run is still its executor's
UPDATE run SET outputs = :outputs WHERE id = :id AND executor = :executor AND ended_at IS NULL

-- name: end_run
-- a run is over, if it is still its executor's
UPDATE run SET state = :state, ended_at = :now WHERE id = :id AND executor = :executor AND ended_at IS NULL

-- name: free_runs
-- what a lost executor had waits for another
UPDATE run SET state = 'waiting', executor = '' WHERE executor = :executor AND ended_at IS NULL

-- name: list_runs
-- runs that are not over, or all: of one executor or of everybody
SELECT * FROM run WHERE (:executor = '' OR executor = :executor) AND (:live = 0 OR ended_at IS NULL) ORDER BY id

-- name: prune_runs
-- forget what ended before a moment
DELETE FROM run WHERE ended_at < :before

-- name: add_requirement
-- a task wants a host with this label
INSERT INTO requirement (task, name) VALUES (:task, :name) ON CONFLICT (task, name) DO NOTHING

-- name: list_requirements
-- what one task requires of its host
SELECT name FROM requirement WHERE task = :task ORDER BY name

-- name: list_live_requirements
-- the requirements of tasks that have not ended
SELECT requirement.task, requirement.name FROM requirement JOIN task ON task.key = requirement.task
WHERE task.ended_at IS NULL AND (:project = '' OR task.project = :project) ORDER BY requirement.task, requirement.name

-- name: list_lacking
-- labels that ready tasks require and this host does not have
SELECT DISTINCT requirement.name FROM requirement JOIN task ON task.key = requirement.task
WHERE task.state = 'ready' AND task.not_before <= :now AND (:project = '' OR task.project = :project)
  AND :labels NOT LIKE '%,' || requirement.name || ',%' ORDER BY requirement.name

-- name: put_offer
-- a supervisor's host has this agent or label
INSERT INTO offer (executor, kind, name) VALUES (:executor, :kind, :name) ON CONFLICT (executor, kind, name) DO NOTHING

-- name: list_offers
-- what the supervisors' hosts have
SELECT executor, kind, name FROM offer ORDER BY executor, kind, name

-- name: list_unserved
-- ready tasks that no supervisor alive has both the agent and every label for
SELECT task.key, task.project, task.scope, task.id, task.agent FROM task
WHERE task.state = 'ready' AND task.not_before <= :now AND (:project = '' OR task.project = :project)
  AND (task.agent <> '' OR EXISTS (SELECT 1 FROM requirement WHERE requirement.task = task.key))
  AND EXISTS (SELECT 1 FROM executor WHERE executor.state = 'alive' AND executor.lease_until > :lease_now)
  AND NOT EXISTS (
      SELECT 1 FROM executor WHERE executor.state = 'alive' AND executor.lease_until > :lease_now
        AND (task.agent = '' OR EXISTS (SELECT 1 FROM offer
             WHERE offer.executor = executor.id AND offer.kind = 'agent' AND offer.name = task.agent))
        AND NOT EXISTS (SELECT 1 FROM requirement WHERE requirement.task = task.key AND NOT EXISTS (SELECT 1 FROM offer
             WHERE offer.executor = executor.id AND offer.kind = 'label' AND offer.name = requirement.name)))
ORDER BY task.priority DESC, task.key LIMIT :limit

-- name: add_flow
-- a workflow begins
INSERT INTO flow (project, id, workflow, text, prompts, request, feature, repository, workspace, branch, base, head,
                  phase, max_cycles, state, agents, gates, data, created_at, changed_at)
VALUES (:project, :id, :workflow, :text, :prompts, :request, :feature, :repository, :workspace, :branch, :base, :head,
        :phase, :max_cycles, :state, :agents, :gates, :data, :now, :now)
RETURNING *

-- name: get_flow
-- one flow by its key
SELECT * FROM flow WHERE key = :key

-- name: find_flow
-- the newest flows of that id
SELECT * FROM flow WHERE project = :project AND id = :id ORDER BY key DESC LIMIT 20

-- name: flow_of_task
-- the flow whose present phase is that task
SELECT * FROM flow WHERE task = :task ORDER BY key DESC LIMIT 1

-- name: list_flows
-- flows, newest first; live ones alone unless asked for all
SELECT * FROM flow WHERE (:project = '' OR project = :project) AND (:include_ended = 1 OR ended_at IS NULL)
ORDER BY key DESC LIMIT :limit

-- name: list_idle_flows
-- flows whose next move is the orchestrator's own
SELECT * FROM flow WHERE state = 'running' AND ended_at IS NULL AND (task IS NULL
  OR EXISTS (SELECT 1 FROM task WHERE task.key = flow.task AND task.state = 'done')) ORDER BY key

-- name: move_flow
-- where a flow stands now; nothing happens when somebody else has moved it since it was read
UPDATE flow SET head = :head, phase = :phase, cycle = :cycle, max_cycles = :max_cycles, task = :task, state = :state,
                reason = :reason, data = :data, agents = :agents, version = version + 1,
                changed_at = :now, ended_at = :ended_at
WHERE key = :key AND version = :version RETURNING *

-- name: read_flow_events
-- what happened to a flow and to its tasks, in order
SELECT * FROM event WHERE project = :project
  AND (task_id LIKE :below OR (kind LIKE 'flow.%' AND body LIKE :named)) ORDER BY seq LIMIT :limit

-- name: get_channel
-- how far a channel has come
SELECT * FROM channel WHERE name = :name

-- name: list_channels
-- all channels
SELECT * FROM channel ORDER BY name

-- name: seq_before
-- the last line of the journal before a moment
SELECT coalesce(max(seq), 0) AS seq FROM event WHERE at < :moment

-- name: add_channel
-- a channel begins
INSERT INTO channel (name, place, seq) VALUES (:name, :place, :seq) ON CONFLICT (name) DO NOTHING

-- name: renew_channel
-- a channel leads elsewhere now: old troubles do not count
UPDATE channel SET place = :place, state = 'on', next_at = 0, tries = 0, trouble = '' WHERE name = :name

-- name: take_channel
-- one deliverer at a time, and none before it is due
UPDATE channel SET busy_until = :until
WHERE name = :name AND busy_until <= :now AND (:force = 1 OR (state = 'on' AND next_at <= :now)) RETURNING *

-- name: keep_channel
-- how far the deliverer got, if it still is the one
UPDATE channel SET seq = :seq, state = :state, next_at = :next_at, tries = :tries, sent = :sent, dropped = :dropped,
                   sent_at = CAST(:sent_at AS DOUBLE PRECISION), trouble = :trouble, busy_until = :until
WHERE name = :name AND busy_until = :mark RETURNING *

-- name: add_incident
-- an incident, told once
INSERT INTO incident (id, at, kind, project, session, place, body)
VALUES (:id, :at, :kind, :project, :session, :place, :body)
ON CONFLICT (id) DO NOTHING

-- name: list_incidents
-- incidents, newest first
SELECT * FROM incident
WHERE (:project = '' OR project = :project) AND (:session = '' OR session = :session)
  AND (:include_ended = 1 OR resolved_at IS NULL)
ORDER BY at DESC, id LIMIT :limit

-- name: list_place_incidents
-- the open incidents of one place
SELECT * FROM incident WHERE place = :place AND resolved_at IS NULL ORDER BY at

-- name: find_incidents
-- incidents whose id begins so
SELECT * FROM incident WHERE id LIKE :start ORDER BY id LIMIT 2

-- name: count_incidents
-- how many incidents nobody has resolved
SELECT count(*) AS open FROM incident WHERE (:project = '' OR project = :project) AND resolved_at IS NULL

-- name: resolve_incident
-- an incident is fixed or seen
UPDATE incident SET resolved_at = :now, resolved = :how WHERE id = :id AND resolved_at IS NULL RETURNING *

-- name: prune_incidents
-- forget incidents resolved before a moment
DELETE FROM incident WHERE id IN (SELECT id FROM incident WHERE resolved_at < :before AND (:project = '' OR project = :project) LIMIT :limit)

-- name: get_watched
-- what the watcher saw last at a place
SELECT version, facts FROM watched WHERE place = :place

-- name: add_watched
-- the first look at a place
INSERT INTO watched (place, version, facts) VALUES (:place, 1, :facts) ON CONFLICT (place) DO NOTHING

-- name: set_watched
-- a later look, if nobody else has looked since
UPDATE watched SET version = version + 1, facts = :facts WHERE place = :place AND version = :version

-- name: put_expense
-- what a session has used and cost so far
INSERT INTO expense (session, project, agent, task, money, basis, models, input, cached, output, reasoning, at)
VALUES (:session, :project, :agent, :task, :money, :basis, :models, :input, :cached, :output, :reasoning, :now)
ON CONFLICT (session) DO UPDATE SET money = excluded.money, basis = excluded.basis, models = excluded.models, input = excluded.input,
    cached = excluded.cached, output = excluded.output, reasoning = excluded.reasoning, at = excluded.at

-- name: sum_expenses
-- what sessions used and cost, by agent: since a moment, of one project, of one task or of one batch
SELECT agent, count(*) AS sessions, sum(CASE WHEN basis = 'unknown' THEN 1 ELSE 0 END) AS unknown, sum(money) AS money,
       sum(input) AS input, sum(cached) AS cached, sum(output) AS output, sum(reasoning) AS reasoning
FROM expense
WHERE at >= :since AND (:project = '' OR project = :project) AND (:task = 0 OR task = :task)
  AND (:batch = 0 OR task IN (SELECT key FROM task WHERE task.batch = :batch))
GROUP BY agent ORDER BY agent

-- name: prune_expenses
-- forget what was spent long ago
DELETE FROM expense WHERE at < :before

-- name: prune_flows
-- forget flows that ended long ago
DELETE FROM flow WHERE key IN (SELECT key FROM flow WHERE ended_at < :before AND (:project = '' OR project = :project) LIMIT :limit)

-- name: get_hold
-- why one agent or task is not started on a host
SELECT * FROM hold WHERE kind = :kind AND name = :name AND host = :host

-- name: put_hold
-- it is not started until then
INSERT INTO hold (kind, name, host, reason, fix, session, tries, at, until)
VALUES (:kind, :name, :host, :reason, :fix, :session, :tries, :now, :until)
ON CONFLICT (kind, name, host) DO UPDATE SET reason = excluded.reason, fix = excluded.fix, session = excluded.session,
    tries = excluded.tries, at = excluded.at, until = excluded.until

-- name: move_hold
-- the same, until another moment
UPDATE hold SET until = :until WHERE kind = :kind AND name = :name AND (:host = '' OR host = :host) AND at < :since

-- name: probe_hold
-- its time is over: whoever is claimed now tries for all others
UPDATE hold SET until = :until, session = :session WHERE kind = :kind AND name = :name AND host = :host AND until <= :now

-- name: drop_hold
-- it may be started again
DELETE FROM hold WHERE kind = :kind AND name = :name AND (:host = '' OR host = :host) AND at < :since

-- name: list_holds
-- what is held now, the newest last
SELECT * FROM hold WHERE until > :now ORDER BY at

-- name: prune_holds
-- a task that has ended is not held
DELETE FROM hold WHERE kind = 'task' AND NOT EXISTS (
    SELECT 1 FROM task WHERE CAST(task.key AS TEXT) = hold.name AND task.ended_at IS NULL)

-- name: get_search_mark
-- how far the index of words has come
SELECT seq FROM search_mark WHERE name = :name

-- name: add_search_mark
-- the index of words begins
INSERT INTO search_mark (name, seq) VALUES (:name, 0) ON CONFLICT (name) DO NOTHING

-- name: move_search_mark
-- the index of words has come further, unless somebody else brought it there
UPDATE search_mark SET seq = :seq WHERE name = :name AND seq = :before

-- name: get_newer_brief
-- a later line that tells of the brief of a task
SELECT seq FROM event WHERE task = :task AND seq > :seq AND kind IN ('task.added', 'task.edited') LIMIT 1

-- name: count_unread_events
-- how many lines of the journal the index of words does not know
SELECT count(*) AS count FROM event WHERE seq > :since

-- name: list_unread_sessions
-- ended sessions of agents on a host whose words are not in the index, the newest first
SELECT * FROM session WHERE host = :host AND ended_at IS NOT NULL AND kind = 'agent'
AND NOT EXISTS (SELECT 1 FROM transcript WHERE transcript.session = session.id)
ORDER BY ended_at DESC LIMIT :limit

-- name: add_transcript
-- one piece of what a session said is known
INSERT INTO transcript (session, part, project, task, agent, host, at, seq)
VALUES (:session, :part, :project, :task, :agent, :host, :at, :seq) ON CONFLICT (session, part) DO NOTHING RETURNING *

-- name: prune_transcripts
-- forget what sessions that ended before a moment said
DELETE FROM transcript WHERE key IN (SELECT key FROM transcript WHERE at < :before AND (:project = '' OR project = :project) LIMIT :limit)

-- name: add_token
-- a token of somebody who calls over HTTP
INSERT INTO token (id, name, scope, project, hash, made_at, made_by, until)
VALUES (:id, :name, :scope, :project, :hash, :now, :by, :until) RETURNING *

-- name: list_tokens
-- all there ever were, in order
SELECT * FROM token ORDER BY made_at, id

-- name: get_token
-- the token of an id
SELECT * FROM token WHERE id = :id

-- name: use_token
-- when it was shown last
UPDATE token SET used_at = :now WHERE id = :id

-- name: withdraw_token
-- it opens nothing any more
UPDATE token SET withdrawn_at = :now, withdrawn_by = :by WHERE id = :id RETURNING *

-- name: page_of_tasks
-- tasks after a key
SELECT * FROM task WHERE key > :after AND (:project = '' OR project = :project) AND (:state = '' OR state = :state)
AND (:id = '' OR id = :id) AND (:ended = 1 OR ended_at IS NULL) ORDER BY key LIMIT :limit

-- name: page_of_batches
-- batches after a key
SELECT * FROM batch WHERE key > :after AND (:project = '' OR project = :project)
AND (:ended = 1 OR ended_at IS NULL) ORDER BY key LIMIT :limit

-- name: page_of_flows
-- flows after a key
SELECT * FROM flow WHERE key > :after AND (:project = '' OR project = :project)
AND (:ended = 1 OR ended_at IS NULL) ORDER BY key LIMIT :limit

-- name: page_of_gates
-- gates after a key, with the names of their tasks
SELECT gate.*, task.id AS task_id, task.scope, task.project FROM gate JOIN task ON task.key = gate.task
WHERE gate.key > :after AND (:project = '' OR task.project = :project) AND (:ended = 1 OR gate.state = 'open')
ORDER BY gate.key LIMIT :limit

-- name: get_gate
-- one gate, with the name of its task
SELECT gate.*, task.id AS task_id, task.scope, task.project FROM gate JOIN task ON task.key = gate.task
WHERE gate.key = :key

-- name: page_of_sessions
-- sessions after an id
SELECT * FROM session WHERE id > :after AND (:project = '' OR project = :project)
AND (:ended = 1 OR ended_at IS NULL) ORDER BY id LIMIT :limit

-- name: count_states
-- how many tasks of each project are in each state, since when the oldest may be taken, and how many leases are over
SELECT project, state, count(*) AS count, min(CASE WHEN not_before <= :now THEN changed_at END) AS oldest,
       sum(CASE WHEN state = 'running' AND lease_until < :lease_now THEN 1 ELSE 0 END) AS overdue
FROM task WHERE ended_at IS NULL AND (:project = '' OR project = :project) GROUP BY project, state ORDER BY project, state

-- name: add_to_tally
-- count some more
INSERT INTO tally (project, name, label, number, total) VALUES (:project, :name, :label, :number, :total)
ON CONFLICT (project, name, label) DO UPDATE SET number = tally.number + excluded.number, total = tally.total + excluded.total

-- name: list_tally
-- all that is counted
SELECT * FROM tally WHERE (:project = '' OR project = :project) ORDER BY project, name, label

-- name: ready_before
-- when a task last became ready before a line of the journal
SELECT max(at) AS at FROM event WHERE task = :task AND seq < :seq AND kind IN ('task.added', 'task.readied', 'task.retried',
  'task.released', 'task.expired', 'task.revived', 'task.sent_back', 'gate.approved', 'gate.rejected')

-- name: claim_of_session
-- when a session took a task
SELECT max(at) AS at FROM event WHERE task = :task AND kind = 'task.claimed' AND session = :session HAVING max(at) IS NOT NULL

-- name: get_expense
-- what a session has used and cost
SELECT agent, money, basis, input, cached, output FROM expense WHERE session = :session

-- name: count_open_incidents
-- what nobody has resolved yet, by project
SELECT project, count(*) AS count FROM incident WHERE resolved_at IS NULL AND (:project = '' OR project = :project)
GROUP BY project ORDER BY project

-- name: ended_tasks_since
-- what ended since a moment, in that order
SELECT ended_at, state, attempt, created_at, started_at FROM task
WHERE ended_at >= :since AND (:project = '' OR project = :project) ORDER BY ended_at DESC LIMIT :limit

-- name: answered_gates_since
-- how long people took to answer since a moment
SELECT gate.opened_at, gate.answered_at FROM gate JOIN task ON task.key = gate.task
WHERE gate.answered_at >= :since AND (:project = '' OR task.project = :project) ORDER BY gate.answered_at DESC LIMIT :limit

-- name: session_endings_since
-- how sessions ended since a moment
SELECT ending, count(*) AS number FROM session
WHERE ended_at >= :since AND (:project = '' OR project = :project) GROUP BY ending ORDER BY number DESC

-- name: expenses_since
-- what sessions have cost since a moment
SELECT at, agent, money, basis FROM expense WHERE at >= :since AND (:project = '' OR project = :project) ORDER BY at DESC LIMIT :limit

-- name: list_archivable
-- lines of the journal that no row needs any more: not the last one of a project, by which views see whether they are new
SELECT * FROM event WHERE seq > :after AND seq <= :mark AND at < :before AND (:project = '' OR project = :project)
  AND (task IS NULL OR NOT EXISTS (SELECT 1 FROM task WHERE task.key = event.task))
  AND (batch IS NULL OR NOT EXISTS (SELECT 1 FROM batch WHERE batch.key = event.batch))
  AND NOT EXISTS (SELECT 1 FROM flow WHERE flow.project = event.project AND flow.created_at <= event.at AND event.kind LIKE 'flow.%')
  AND EXISTS (SELECT 1 FROM event AS later WHERE later.project = event.project AND later.seq > event.seq)
ORDER BY seq LIMIT :limit

-- name: count_archivable
-- how many there are
SELECT count(*) AS count FROM ({list_archivable}) AS found

-- name: forget_event
-- it is in a file; SQLite's index cannot let go of the words of a single line, and what it has left leads nowhere
/* postgres: WITH words AS (DELETE FROM event_words WHERE seq = :seq) */ DELETE FROM event WHERE seq = :seq

-- name: add_decision
-- what becomes of finished work, by whoever holds its task or, with fence 0, by a person while nobody does
INSERT INTO decision (project, task, fence, session, host, state, body, made_at)
SELECT :project, :task, :fence, :session, :host, 'open', :body, :now
WHERE EXISTS (SELECT 1 FROM task WHERE key = :task
  AND ((:fence = 0 AND state <> 'running') OR (fence = :fence AND held_by = :session AND state = 'running')))
RETURNING *

-- name: add_phase_decision
-- what becomes of the phase a flow stands in, by whoever has read the flow as it is
INSERT INTO decision (project, task, flow, fence, session, host, state, body, made_at)
SELECT project, task, key, :fence, :session, :host, 'open', :body, :now FROM flow
WHERE key = :flow AND version = :version AND NOT EXISTS (SELECT 1 FROM decision WHERE flow = :flow AND ended_at IS NULL)
RETURNING *

-- name: live_decision
-- what was decided about a task and is not over
SELECT * FROM decision WHERE task = :task AND ended_at IS NULL

-- name: live_phase_decision
-- what was decided about a flow's phase and is not over
SELECT * FROM decision WHERE flow = :flow AND ended_at IS NULL

-- name: list_open_decisions
-- what somebody on this host has decided and not carried out yet, or somebody of whom an older handoff has not kept the host
SELECT * FROM decision WHERE state = 'open' AND host IN (:host, '') ORDER BY key LIMIT :limit

-- name: list_waiting_decisions
-- what waits for a person's word at a gate
SELECT * FROM decision WHERE state = 'waiting' AND ended_at IS NULL AND (:project = '' OR project = :project) ORDER BY key LIMIT :limit

-- name: put_decision
-- a decision goes on, unless somebody else has moved it
UPDATE decision SET state = :state, body = :body, ended_at = :ended_at
WHERE key = :key AND state = :seen AND ended_at IS NULL RETURNING *

-- name: withdraw_decision
-- nothing more is done about it
UPDATE decision SET state = 'withdrawn', ended_at = :now WHERE task = :task AND ended_at IS NULL

-- name: withdraw_phase_decision
-- the same, where the flow is taken back
UPDATE decision SET state = 'withdrawn', ended_at = :now WHERE flow = :flow AND ended_at IS NULL

-- name: lost_decision
-- whether one was made whose host has been silent for two leases; the clone of a flow is there alone, so its phase waits for that host
SELECT decision.key FROM decision JOIN task ON task.key = decision.task
WHERE decision.state = 'open' AND decision.flow IS NULL AND task.state = 'running'
  AND task.lease_until + task.lease_seconds < :lease_now LIMIT 1

-- name: withdraw_lost_decisions
-- nobody carries them out any more: their tasks are given to others
UPDATE decision SET state = 'withdrawn', ended_at = :now WHERE state = 'open' AND flow IS NULL AND EXISTS (
    SELECT 1 FROM task WHERE task.key = decision.task AND task.state = 'running' AND task.lease_until + task.lease_seconds < :lease_now)

-- name: add_schedule
-- work that recurs
INSERT INTO schedule (project, name, cron, timezone, body, overlap, keep, state, next_at, made_by, made_at)
VALUES (:project, :name, :cron, :timezone, :body, :overlap, :keep, :state, :next_at, :by, :now)
RETURNING *

-- name: get_schedule
-- one schedule by its name
SELECT * FROM schedule WHERE project = :project AND name = :name

-- name: list_schedules
-- schedules by when they are due
SELECT * FROM schedule WHERE (:project = '' OR project = :project) ORDER BY next_at, key

-- name: list_due_schedules
-- schedules whose time has come and that nobody prepares
SELECT * FROM schedule WHERE state = 'on' AND next_at <= :now AND busy_until <= :now AND (:project = '' OR project = :project)
ORDER BY next_at, key

-- name: prepare_schedule
-- say that this host prepares what is due
UPDATE schedule SET busy_until = :until WHERE key = :key AND next_at = :due AND state = 'on' AND busy_until <= :now

-- name: move_schedule
-- this time is done: only who sees the time that is due moves it on
UPDATE schedule SET next_at = :next_at, busy_until = 0, trouble = :trouble WHERE key = :key AND next_at = :due AND state = 'on'

-- name: switch_schedule
-- pause a schedule, or let it go on
UPDATE schedule SET state = :state, next_at = :next_at, busy_until = 0 WHERE key = :key RETURNING *

-- name: drop_schedule
-- forget a schedule
DELETE FROM schedule WHERE key = :key

-- name: add_schedule_run
-- what was made for a moment
INSERT INTO schedule_run (schedule, due, kind, work, id, host, at) VALUES (:schedule, :due, :kind, :work, :id, :host, :now)

-- name: list_schedule_runs
-- what was made of a schedule, newest first, and how it stands
SELECT schedule_run.*, coalesce(task.ended_at, batch.ended_at, flow.ended_at) AS ended_at,
       coalesce(task.state, batch.state, flow.state, '') AS state
FROM schedule_run
LEFT JOIN task ON schedule_run.kind = 'task' AND task.key = schedule_run.work
LEFT JOIN batch ON schedule_run.kind = 'batch' AND batch.key = schedule_run.work
LEFT JOIN flow ON schedule_run.kind = 'flow' AND flow.key = schedule_run.work
WHERE schedule = :schedule ORDER BY due DESC LIMIT :limit

-- name: drop_schedule_run
-- forget one time of a schedule
DELETE FROM schedule_run WHERE schedule = :schedule AND due = :due

-- name: drop_schedule_runs
-- forget all times of a schedule
DELETE FROM schedule_run WHERE schedule = :schedule

-- name: get_asked_once
-- what was answered to a key
SELECT * FROM asked_once WHERE caller = :caller AND name = :name

-- name: add_asked_once
-- a key and its answer, unless it is there
INSERT INTO asked_once (caller, name, hash, answer, at) VALUES (:caller, :name, :hash, :answer, :now)
ON CONFLICT (caller, name) DO NOTHING

-- name: prune_asked_once
-- forget keys of long ago
DELETE FROM asked_once WHERE at < :before

-- name: add_issue
-- a task was made from an issue; nothing where one lives already
INSERT INTO issue (task, project, host, folder, number, url, state, at)
VALUES (:task, :project, :host, :folder, :number, :url, 'open', :now) ON CONFLICT DO NOTHING RETURNING *

-- name: issue_of_task
-- the issue a task was made from
SELECT * FROM issue WHERE task = :task

-- name: find_issue
-- the newest task that was made from an issue
SELECT * FROM issue WHERE project = :project AND url = :url ORDER BY task DESC LIMIT 1

-- name: list_issues
-- the issues of a host whose tasks are not over
SELECT * FROM issue WHERE host = :host AND state = 'open' ORDER BY task

-- name: put_issue
-- how far we have read it, and whether it is over
UPDATE issue SET state = :state, seen = :seen WHERE task = :task

-- name: add_request
-- a branch that asks to be taken in
INSERT INTO request (project, host, folder, task, branch, base, head, state, body, made_at)
VALUES (:project, :host, :folder, :task, :branch, :base, :head, :state, :body, :now) RETURNING *

-- name: put_request
-- a request as it is known now
UPDATE request SET task = :task, base = :base, head = :head, number = :number, url = :url, state = :state, checks = :checks,
                   review = :review, body = :body, ended_at = :ended_at
WHERE key = :key RETURNING *

-- name: get_request
-- one request
SELECT * FROM request WHERE key = :key

-- name: drop_request
-- what could not be opened is no request
DELETE FROM request WHERE key = :key

-- name: list_live_requests
-- requests that are not over: of a host, a project, or all
SELECT * FROM request
WHERE ended_at IS NULL AND (:host = '' OR host = :host) AND (:project = '' OR project = :project) ORDER BY key

-- name: last_request_of
-- the newest request that a task mends
SELECT * FROM request WHERE task = :task ORDER BY key DESC LIMIT 1

-- name: add_remark
-- what is to be written on a forge, once
INSERT INTO remark (marker, host, folder, verb, number, thread, text, state, at)
VALUES (:marker, :host, :folder, :verb, :number, :thread, :text, 'open', :now) ON CONFLICT DO NOTHING

-- name: list_remarks
-- what is not written yet
SELECT * FROM remark WHERE host = :host AND state <> 'done' ORDER BY key

-- name: put_remark
-- tried, or done
UPDATE remark SET state = :state WHERE marker = :marker
