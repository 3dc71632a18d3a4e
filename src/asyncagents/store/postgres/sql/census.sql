-- name: census_sessions
-- The estimate of the last ANALYZE, which is enough for a metric; counted while there are few. The other counts stop at a limit.
SELECT CASE WHEN reltuples < 100000 THEN (SELECT COUNT(*) FROM session) ELSE reltuples::bigint END
FROM pg_class WHERE oid = 'session'::regclass;

-- name: census_active
-- Ready and running sessions, by state; few, so their rows may be read.
SELECT state, COUNT(*) FROM (SELECT state FROM session WHERE pool = $1 AND state <> 'idle' LIMIT $2) AS active
GROUP BY state;

-- name: census_tasks
SELECT COUNT(*) FROM (SELECT 1 FROM task WHERE status = $1 AND kind = 'background' LIMIT $2) AS counted;

-- name: census_asks
SELECT COUNT(*) FROM (SELECT 1 FROM call WHERE state = 'open' AND ask_id IS NOT NULL LIMIT $1) AS counted;

-- name: census_pending
SELECT COUNT(*) FROM (SELECT 1 FROM call WHERE pending IS NOT NULL AND pending = $1 LIMIT $2) AS counted;

-- name: census_deliveries
SELECT COUNT(*) FROM (SELECT 1 FROM delivery WHERE state = $1 LIMIT $2) AS counted;

-- name: census_external_prompts
SELECT COUNT(*) FROM (SELECT 1 FROM external_session WHERE sent IS NOT NULL LIMIT $1) AS under_way;

-- name: census_bytes
-- The size of the whole database.
SELECT pg_database_size(current_database());
