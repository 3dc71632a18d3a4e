-- name: census_sessions
-- Counts all sessions, which SQLite does by pages of its smallest index. The other counts read each entry, up to a limit.
SELECT COUNT(*) FROM session;

-- name: census_active
-- Ready and running sessions, by state; few, so their rows may be read.
SELECT state, COUNT(*) FROM (SELECT state FROM session INDEXED BY session_active WHERE pool = ? AND state <> 'idle' LIMIT ?)
GROUP BY state;

-- name: census_tasks
SELECT COUNT(*) FROM (SELECT 1 FROM task INDEXED BY task_status WHERE status = ? AND kind = 'background' LIMIT ?);

-- name: census_asks
SELECT COUNT(*) FROM (SELECT 1 FROM call INDEXED BY call_asks WHERE state = 'open' AND ask_id IS NOT NULL LIMIT ?);

-- name: census_pending
SELECT COUNT(*) FROM (SELECT 1 FROM call INDEXED BY call_pending WHERE pending IS NOT NULL AND pending = ? LIMIT ?);

-- name: census_deliveries
SELECT COUNT(*) FROM (SELECT 1 FROM delivery INDEXED BY delivery_state WHERE state = ? LIMIT ?);

-- name: census_external_prompts
SELECT COUNT(*) FROM (SELECT 1 FROM external_session WHERE sent IS NOT NULL LIMIT ?) AS under_way;

-- name: census_bytes
-- The size of the database file, without its log.
SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size();
