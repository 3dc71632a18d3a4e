-- name: put_task
-- tree: session 2
-- Writes nothing over a task that a newer program wrote.
INSERT INTO task (id, parent_id, batch, live, crowd, due, status, agent, folded, created, ended, kind, body, version, rev, born, done, turned)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, $15, $15)
ON CONFLICT (id) DO UPDATE SET live = excluded.live, due = excluded.due, status = excluded.status, ended = excluded.ended, kind = excluded.kind,
  done = CASE WHEN task.live = 1 AND excluded.live = 0 THEN excluded.rev ELSE task.done END,
  turned = CASE WHEN task.kind <> excluded.kind THEN excluded.rev ELSE task.turned END,
  body = excluded.body,
  version = excluded.version, rev = excluded.rev
WHERE task.version <= excluded.version;

-- name: task
-- tree: session 1
SELECT body, version FROM task WHERE id = $1;

-- name: parent_of_task
-- tree: session 1
SELECT parent_id FROM task WHERE id = $1;

-- name: tasks_of
-- tree: session 1
-- Tasks of one parent, oldest first: session ids descend in time.
SELECT body, version FROM task WHERE parent_id = $1 ORDER BY id DESC;

-- name: live_tasks_of
-- tree: session 1
SELECT body, version FROM task WHERE parent_id = $1 AND live = 1 ORDER BY id DESC;

-- name: is_child_at_work
-- tree: session 1
-- Whether a session has a live task that is not parked.
SELECT 1 FROM task JOIN session ON session.id = task.id
WHERE task.parent_id = $1 AND task.live = 1 AND session.state <> 'idle' LIMIT 1;

-- name: live_tasks
SELECT body, version FROM task WHERE live = 1 ORDER BY id DESC;

-- name: tasks_of_tree
-- tree: session 1
-- Tasks of the parents in a tree: a task row stays when its own session is deleted.
SELECT task.body, task.version FROM session JOIN task ON task.parent_id = session.id
WHERE session.root_id = $1 ORDER BY task.id DESC;

-- name: tasks_page
-- Newest first.
SELECT body, version FROM task WHERE id > $1 ORDER BY id LIMIT $2;

-- name: tasks_of_batch
SELECT body, version FROM task WHERE batch = $1 ORDER BY id DESC;

-- name: task_ids
-- tree: session 1
-- Ids of one parent's tasks with a prefix.
SELECT id FROM task WHERE parent_id = $1 AND id >= $2 AND id < $3 ORDER BY id LIMIT $4;

-- name: most_launched
-- tree: session 1
-- A cheap upper bound of the launches of a session: its children and its tasks.
SELECT (SELECT COUNT(*) FROM session WHERE parent_id = $1) + (SELECT COUNT(*) FROM task WHERE parent_id = $1);

-- name: launched
-- tree: session 1
-- All launches of a session, also those whose task was cleared or session deleted.
SELECT COUNT(*) FROM (SELECT id FROM session WHERE parent_id = $1 UNION SELECT id FROM task WHERE parent_id = $1) AS launched;

-- name: count_live
-- tree: session 1
SELECT COUNT(*) FROM task WHERE parent_id = $1 AND live = 1;

-- name: count_live_background
-- tree: session 1
SELECT COUNT(*) FROM task WHERE parent_id = $1 AND live = 1 AND kind = 'background';

-- name: count_batch
-- How many background tasks of a batch have ended, and how many there are.
SELECT COUNT(*) FILTER (WHERE live = 0), COUNT(*) FROM task WHERE batch = $1 AND kind = 'background';

-- name: unfinished
-- tree: session 1
-- Whether a session has open calls, live tasks, or something to read.
SELECT EXISTS (SELECT 1 FROM call WHERE session_id = $1 AND state <> 'settled')
    OR EXISTS (SELECT 1 FROM task WHERE parent_id = $1 AND live = 1)
    OR EXISTS (SELECT 1 FROM input
               WHERE session_id = $1 AND state <> 'promoted' AND state = 'queued')
    OR EXISTS (SELECT 1 FROM notice WHERE session_id = $1 AND open = 1 AND state = 'due');

-- name: unconcluded
-- Live tasks whose child rests with nothing left to do, or is gone.
SELECT task.id FROM task LEFT JOIN session ON session.id = task.id
WHERE task.live = 1 AND (session.id IS NULL OR (
  session.state = 'idle' AND session.in_turn = 0 AND session.backoff IS NULL
  AND NOT EXISTS (SELECT 1 FROM call
                  WHERE session_id = task.id AND state <> 'settled')
  AND NOT EXISTS (SELECT 1 FROM task AS below WHERE below.parent_id = task.id AND below.live = 1)
  AND NOT EXISTS (SELECT 1 FROM input
                  WHERE session_id = task.id AND state <> 'promoted' AND state = 'queued')
  AND NOT EXISTS (SELECT 1 FROM notice
                  WHERE session_id = task.id AND open = 1 AND state = 'due')))
ORDER BY task.id DESC LIMIT $1;

-- name: due_tasks
SELECT due_tasks($1, $2);

-- name: forget_deadline
-- tree: session 2
UPDATE task SET due = NULL, rev = $1 WHERE id = $2;

-- name: put_off_task
-- tree: session 3
UPDATE task SET due = $1, rev = $2 WHERE id = $3 AND live = 1;

-- name: give_up_task
-- tree: session 2
-- Ends a task whose row cannot be read.
UPDATE task SET live = 0, due = NULL, status = '', rev = $1 WHERE id = $2;

-- name: next_deadline
SELECT MIN(due) FROM task WHERE live = 1 AND due IS NOT NULL;

-- name: changed_tasks
SELECT rev, body, version FROM task WHERE rev > $1 AND rev <= $2 ORDER BY rev, id;

-- name: keep_crowd
-- tree: session 1
-- Copies the crowd limit of a task to its session, before the task is cleared.
UPDATE session SET crowd = (SELECT crowd FROM task WHERE task.id = $1) WHERE id = $1;

-- name: delete_task
-- tree: session 1
DELETE FROM task WHERE id = $1;

-- name: insert_notice
-- tree: session 3
-- One notice per ended run.
INSERT INTO notice (task_id, run, session_id, seq, state, open, message_id, body) VALUES ($1, $2, $3, $4, $5, $6, NULL, $7);

-- name: open_notices
-- tree: session 1
SELECT task_id, run, state, body FROM notice WHERE session_id = $1 AND open = 1
ORDER BY seq, task_id, run;

-- name: count_due
-- tree: session 1
SELECT COUNT(*) FROM notice WHERE session_id = $1 AND open = 1 AND state = 'due';

-- name: tell_notices
-- tree: session 2
UPDATE notice SET state = 'told', open = 0, message_id = $1 WHERE session_id = $2 AND open = 1;

-- name: consume_notices
-- tree: session 1
-- Consumes the notice of one run: a call has returned its result.
UPDATE notice SET state = 'consumed', open = 0 WHERE task_id = $1 AND run = $2 AND open = 1;

-- name: hush_notices
-- tree: session 1
-- Makes notices quiet on an abort: they wake no session any more.
UPDATE notice SET state = 'quiet' WHERE session_id = $1 AND open = 1 AND state = 'due';

-- name: delete_notices
-- tree: session 1
DELETE FROM notice WHERE session_id = $1;

-- name: delete_task_notices
-- tree: session 1
DELETE FROM notice WHERE task_id = $1;

-- name: queue
-- tree: session 1
-- How many sessions of a tree may work at once, how many do, and how many older ones wait for a place. The limit is that of
-- the task or, after it was cleared, of the session; a session that was not launched has none and does not wait.
SELECT COALESCE((SELECT crowd FROM task WHERE id = $2), (SELECT crowd FROM session WHERE id = $2)),
       (SELECT COUNT(*) FROM session WHERE root_id = $1 AND state = 'running' AND depth > 0),
       (SELECT COUNT(*) FROM session
        WHERE root_id = $1 AND state = 'ready' AND depth > 0 AND id > $2);

-- name: is_anyone_queued
-- tree: session 1
SELECT 1 FROM session WHERE root_id = $1 AND state = 'ready' AND depth > 0 LIMIT 1;

-- name: next_in_queue
-- tree: session 1
-- The session that may go after one of its tree stopped working: the first behind those that may go anyway. The limit is that
-- of the first waiting session that has one.
SELECT id FROM session WHERE root_id = $1 AND state = 'ready' AND depth > 0
ORDER BY id DESC LIMIT 1 OFFSET GREATEST(0, COALESCE((
  SELECT crowd FROM (
    SELECT waiting.id, COALESCE(task.crowd, waiting.crowd) AS crowd
    FROM session AS waiting LEFT JOIN task ON task.id = waiting.id
    WHERE waiting.root_id = $1 AND waiting.state = 'ready' AND waiting.depth > 0
  ) AS limits WHERE crowd IS NOT NULL ORDER BY id DESC LIMIT 1), 1) - 1 - (
  SELECT COUNT(*) FROM session WHERE root_id = $1 AND state = 'running' AND depth > 0));

-- name: may_go
-- tree: session 1
-- As many waiting sessions as there are places, by the limit of the first that has one; all, if none has.
SELECT id FROM session WHERE root_id = $1 AND state = 'ready' AND depth > 0
ORDER BY id DESC LIMIT (SELECT CASE WHEN crowd IS NULL THEN NULL ELSE GREATEST(0, crowd - (
  SELECT COUNT(*) FROM session WHERE root_id = $1 AND state = 'running' AND depth > 0)) END
  FROM (SELECT (
  SELECT crowd FROM (
    SELECT waiting.id, COALESCE(task.crowd, waiting.crowd) AS crowd
    FROM session AS waiting LEFT JOIN task ON task.id = waiting.id
    WHERE waiting.root_id = $1 AND waiting.state = 'ready' AND waiting.depth > 0
  ) AS limits WHERE crowd IS NOT NULL ORDER BY id DESC LIMIT 1) AS crowd) AS places);

-- name: tools_used
-- tree: session 1
-- Tools of calls in the order of the calls; older rows have no column for it.
SELECT CASE tool WHEN '' THEN readable(body) ->> 'tool' ELSE tool END FROM call WHERE session_id = $1 ORDER BY id;

-- name: last_calls
-- tree: session 1
-- Calls of a session, newest first.
SELECT body, version FROM call WHERE session_id = $1 ORDER BY id DESC LIMIT $2;

-- name: is_asked
-- tree: session 1
-- Whether a request to a model is open.
SELECT 1 FROM request WHERE session_id = $1 AND state = 'open' LIMIT 1;
