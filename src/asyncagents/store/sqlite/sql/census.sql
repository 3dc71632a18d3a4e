-- name: census_sessions
-- Of all, which SQLite counts by pages of its smallest index. The others look at each entry, and stop at a limit.
SELECT COUNT(*) FROM session;

-- name: census_active
-- Those at work or to be, by state; few, so their rows may be looked at.
SELECT state, COUNT(*) FROM (SELECT state FROM session INDEXED BY session_active WHERE pool = ? AND state <> 'idle' LIMIT ?)
GROUP BY state;

-- name: census_tasks
SELECT COUNT(*) FROM (SELECT 1 FROM task INDEXED BY task_status WHERE status = ? AND kind = 'background' LIMIT ?);

-- name: census_pending
SELECT COUNT(*) FROM (SELECT 1 FROM call INDEXED BY call_pending WHERE pending IS NOT NULL AND pending = ? LIMIT ?);

-- name: census_deliveries
SELECT COUNT(*) FROM (SELECT 1 FROM delivery INDEXED BY delivery_state WHERE state = ? LIMIT ?);

-- name: census_bytes
-- Of the database's file, without its log.
SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size();
