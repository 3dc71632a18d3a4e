-- name: board_page
-- Newest first: session ids descend in time. The ids come from an index alone, bodies are read for one page.
-- Here and below a kind of NULL matches both kinds.
SELECT body, version FROM task
WHERE id IN (SELECT id FROM task INDEXED BY task_page WHERE kind = 'background' AND COALESCE(?3, 'background') = 'background'
             UNION ALL SELECT id FROM task INDEXED BY task_page WHERE kind = 'sync' AND COALESCE(?3, 'sync') = 'sync'
             ORDER BY id LIMIT ?1 OFFSET ?2) ORDER BY id;

-- name: board_count
SELECT (SELECT COUNT(*) FROM task INDEXED BY task_page WHERE kind = 'background' AND COALESCE(?1, 'background') = 'background')
     + (SELECT COUNT(*) FROM task INDEXED BY task_page WHERE kind = 'sync' AND COALESCE(?1, 'sync') = 'sync');

-- name: board_page_of_status
SELECT body, version FROM task
WHERE id IN (SELECT id FROM task INDEXED BY task_status WHERE status = ?4 AND (?3 IS NULL OR kind = ?3) ORDER BY id LIMIT ?1 OFFSET ?2) ORDER BY id;

-- name: board_count_of_status
SELECT COUNT(*) FROM task INDEXED BY task_status WHERE status = ?2 AND (?1 IS NULL OR kind = ?1);

-- name: board_page_of_agent
-- A status of NULL matches any.
SELECT body, version FROM task
WHERE id IN (SELECT id FROM task INDEXED BY task_agent WHERE agent = ?4 AND (?5 IS NULL OR status = ?5) AND (?3 IS NULL OR kind = ?3)
             ORDER BY id LIMIT ?1 OFFSET ?2) ORDER BY id;

-- name: board_count_of_agent
SELECT COUNT(*) FROM task INDEXED BY task_agent WHERE agent = ?2 AND (?3 IS NULL OR status = ?3) AND (?1 IS NULL OR kind = ?1);

-- name: board_page_of_words
-- Matches a pattern, which is fast, and the full text where it is longer. An agent or status of NULL matches any.
SELECT body, version FROM task
WHERE id IN (SELECT id FROM task INDEXED BY task_words
             WHERE folded GLOB ?6 AND (LENGTH(?7) <= 1000 OR INSTR(folded, ?7)) AND (?4 IS NULL OR agent = ?4) AND (?5 IS NULL OR status = ?5)
               AND (?3 IS NULL OR kind = ?3)
             ORDER BY id LIMIT ?1 OFFSET ?2) ORDER BY id;

-- name: board_count_of_words
SELECT COUNT(*) FROM task INDEXED BY task_words
WHERE folded GLOB ?4 AND (LENGTH(?5) <= 1000 OR INSTR(folded, ?5)) AND (?2 IS NULL OR agent = ?2) AND (?3 IS NULL OR status = ?3)
  AND (?1 IS NULL OR kind = ?1);

-- name: board_state
-- Changes whenever a task is changed or deleted.
SELECT (SELECT MAX(rev) FROM task), (SELECT MAX(rev) FROM tombstone), horizon FROM revision WHERE id = 1;

-- name: board_sums
-- Sums over background tasks; columns in the order of domain/board.py's Sum.
SELECT status, agent, COUNT(*), COUNT(ended), COALESCE(SUM(MAX(0, ended - created)), 0),
       MAX(MAX(0, ended - created)), MIN(MAX(0, ended - created))
FROM task INDEXED BY task_sums WHERE kind = 'background' GROUP BY status, agent;

-- name: board_live
SELECT body, version FROM task INDEXED BY task_live WHERE live = 1 AND (?1 IS NULL OR kind = ?1);

-- name: board_ended
-- The tasks that ended last.
SELECT body, version FROM task
WHERE id IN (SELECT id FROM task INDEXED BY task_ended WHERE ended IS NOT NULL AND (?1 IS NULL OR kind = ?1)
             ORDER BY ended DESC, id DESC LIMIT ?2) ORDER BY ended DESC, id DESC;

-- name: queued_of
-- How many sessions of a tree work, and those that wait for a place, in order.
SELECT id, (SELECT COUNT(*) FROM session INDEXED BY session_working WHERE root_id = ?1 AND state = 'running' AND depth > 0)
FROM session INDEXED BY session_queued WHERE root_id = ?1 AND state = 'ready' AND depth > 0 ORDER BY id DESC;

-- name: crowd_of
SELECT crowd FROM task WHERE id = ?;

-- name: board_reach
-- The revision of the n-th changed task after a revision.
SELECT rev FROM task INDEXED BY task_rev WHERE rev > ?1 AND rev <= ?2 ORDER BY rev LIMIT 1 OFFSET ?3;

-- name: board_reach_removed
SELECT rev FROM tombstone WHERE rev > ?1 AND rev <= ?2 AND kind = 'task' ORDER BY rev LIMIT 1 OFFSET ?3;

-- name: board_changed
SELECT rev, born, done, turned, id, body, version FROM task WHERE rev > ? AND rev <= ? ORDER BY rev, id;

-- name: board_removed
SELECT rev, id FROM tombstone WHERE rev > ? AND rev <= ? AND kind = 'task' ORDER BY rev, id;

-- name: board_moved
-- Live tasks whose session or calls changed, and queued ones: their place changes when sessions before them go.
SELECT body, version FROM task WHERE live = 1 AND id IN (
  SELECT id FROM session INDEXED BY session_rev WHERE rev > ?1 AND rev <= ?2
  UNION SELECT session_id FROM call INDEXED BY call_rev WHERE rev > ?1 AND rev <= ?2
  UNION SELECT id FROM session INDEXED BY session_queued WHERE state = 'ready' AND depth > 0
) ORDER BY id;

-- name: board_moved_since
-- The same, by reading every live task.
SELECT task.body, task.version FROM task INDEXED BY task_live JOIN session ON session.id = task.id
WHERE task.live = 1 AND (session.rev > ?1 OR session.state = 'ready'
  OR EXISTS (SELECT 1 FROM call WHERE call.session_id = task.id AND call.rev > ?1))
ORDER BY task.id;
