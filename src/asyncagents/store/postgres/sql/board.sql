-- name: board_page
-- Newest first: session ids descend in time. The ids come from an index alone, bodies are read for one page.
-- Here and below a kind of NULL matches both kinds.
SELECT body, version FROM task
WHERE id IN (SELECT id FROM task WHERE ($3::text IS NULL OR kind = $3) ORDER BY id LIMIT $1 OFFSET $2) ORDER BY id;

-- name: board_count
SELECT COUNT(*) FROM task WHERE $1::text IS NULL OR kind = $1;

-- name: board_page_of_status
SELECT body, version FROM task
WHERE id IN (SELECT id FROM task WHERE status = $4 AND ($3::text IS NULL OR kind = $3) ORDER BY id LIMIT $1 OFFSET $2) ORDER BY id;

-- name: board_count_of_status
SELECT COUNT(*) FROM task WHERE status = $2 AND ($1::text IS NULL OR kind = $1);

-- name: board_page_of_agent
-- A status of NULL matches any.
SELECT body, version FROM task
WHERE id IN (SELECT id FROM task WHERE agent = $4 AND ($5::text IS NULL OR status = $5) AND ($3::text IS NULL OR kind = $3)
             ORDER BY id LIMIT $1 OFFSET $2) ORDER BY id;

-- name: board_count_of_agent
SELECT COUNT(*) FROM task WHERE agent = $2 AND ($3::text IS NULL OR status = $3) AND ($1::text IS NULL OR kind = $1);

-- name: board_page_of_words
-- Matches the text itself, not the pattern. An agent or status of NULL matches any.
SELECT body, version FROM task
WHERE id IN (SELECT id FROM task
             WHERE $6::text IS NOT NULL AND position($7 in folded) > 0 AND ($4::text IS NULL OR agent = $4) AND ($5::text IS NULL OR status = $5)
               AND ($3::text IS NULL OR kind = $3)
             ORDER BY id LIMIT $1 OFFSET $2) ORDER BY id;

-- name: board_count_of_words
SELECT COUNT(*) FROM task
WHERE $4::text IS NOT NULL AND position($5 in folded) > 0 AND ($2::text IS NULL OR agent = $2) AND ($3::text IS NULL OR status = $3)
  AND ($1::text IS NULL OR kind = $1);

-- name: board_state
-- Changes whenever a task is changed or deleted. The newest revision alone is not enough: an older one may commit later.
SELECT newest, gone, CASE WHEN GREATEST(newest, gone) > base + durable()
                          THEN pg_current_snapshot()::text ELSE horizon::text END
FROM revision, (SELECT (SELECT MAX(rev) FROM task) AS newest, (SELECT MAX(rev) FROM tombstone) AS gone) AS last WHERE id = 1;

-- name: board_sums
-- Sums over background tasks; columns in the order of domain/board.py's Sum.
SELECT status, agent, COUNT(*), COUNT(ended), COALESCE(SUM(GREATEST(0, ended - created)) FILTER (WHERE ended IS NOT NULL), 0)::bigint,
       MAX(GREATEST(0, ended - created)) FILTER (WHERE ended IS NOT NULL), MIN(GREATEST(0, ended - created)) FILTER (WHERE ended IS NOT NULL)
FROM task WHERE kind = 'background' GROUP BY status, agent;

-- name: board_live
SELECT body, version FROM task WHERE live = 1 AND ($1::text IS NULL OR kind = $1);

-- name: board_ended
-- The tasks that ended last.
SELECT body, version FROM task WHERE ended IS NOT NULL AND ($1::text IS NULL OR kind = $1)
ORDER BY ended DESC, id DESC LIMIT $2;

-- name: queued_of
-- How many sessions of a tree work, and those that wait for a place, in order.
SELECT id, (SELECT COUNT(*) FROM session WHERE root_id = $1 AND state = 'running' AND depth > 0)
FROM session WHERE root_id = $1 AND state = 'ready' AND depth > 0 ORDER BY id DESC;

-- name: crowd_of
SELECT crowd FROM task WHERE id = $1;

-- name: board_reach
-- The revision of the n-th changed task after a revision.
SELECT rev FROM task WHERE rev > $1 AND rev <= $2 ORDER BY rev LIMIT 1 OFFSET $3;

-- name: board_reach_removed
SELECT rev FROM tombstone WHERE rev > $1 AND rev <= $2 AND kind = 'task' ORDER BY rev LIMIT 1 OFFSET $3;

-- name: board_changed
SELECT rev, born, done, turned, id, body, version FROM task WHERE rev > $1 AND rev <= $2 ORDER BY rev, id;

-- name: board_removed
SELECT rev, id FROM tombstone WHERE rev > $1 AND rev <= $2 AND kind = 'task' ORDER BY rev, id;

-- name: board_moved
-- Live tasks whose session or calls changed, and queued ones: their place changes when sessions before them go.
SELECT body, version FROM task WHERE live = 1 AND id IN (
  SELECT id FROM session WHERE rev > $1 AND rev <= $2
  UNION SELECT session_id FROM call WHERE rev > $1 AND rev <= $2
  UNION SELECT id FROM session WHERE state = 'ready' AND depth > 0
) ORDER BY id;

-- name: board_moved_since
-- The same, by reading every live task.
SELECT task.body, task.version FROM task JOIN session ON session.id = task.id
WHERE task.live = 1 AND (session.rev > $1 OR session.state = 'ready'
  OR EXISTS (SELECT 1 FROM call WHERE call.session_id = task.id AND call.rev > $1))
ORDER BY task.id;
