-- name: insert_delivery
-- tree: session 3
-- A call is settled once, so it has one delivery.
INSERT INTO delivery (id, call_id, session_id, root_id, url, host, secret, since, state, attempts, next_at, created, error, rev, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'owed', 0, $9, $10, '', $11, $12) ON CONFLICT (call_id) DO NOTHING;

-- name: due_deliveries
-- The first few due deliveries of every host; a host with a hundred thousand is skipped in one step.
WITH RECURSIVE hosts (host) AS (
  SELECT min(host) FROM delivery WHERE state = 'owed'
  UNION ALL
  SELECT (SELECT min(host) FROM delivery WHERE state = 'owed' AND host > hosts.host)
  FROM hosts WHERE hosts.host IS NOT NULL
)
SELECT delivery.id, delivery.host FROM hosts CROSS JOIN delivery
WHERE delivery.id IN (
  SELECT id FROM delivery
  WHERE state = 'owed' AND host = hosts.host AND next_at <= $1 ORDER BY next_at LIMIT $2
)
ORDER BY delivery.next_at, delivery.id;

-- name: due_of_tree
-- tree: session 3
-- The same, for one tree of sessions.
WITH RECURSIVE hosts (host) AS (
  SELECT min(host) FROM delivery WHERE state = 'owed' AND root_id = $3
  UNION ALL
  SELECT (
    SELECT min(host) FROM delivery WHERE state = 'owed' AND root_id = $3 AND host > hosts.host
  )
  FROM hosts WHERE hosts.host IS NOT NULL
)
SELECT delivery.id, delivery.host FROM hosts CROSS JOIN delivery
WHERE delivery.id IN (
  SELECT id FROM delivery
  WHERE state = 'owed' AND root_id = $3 AND host = hosts.host AND next_at <= $1 ORDER BY next_at LIMIT $2
)
ORDER BY delivery.next_at, delivery.id;

-- name: next_delivery
-- When the next delivery becomes due that is not due now.
SELECT next_at FROM delivery
WHERE state = 'owed' AND next_at > $1 ORDER BY next_at LIMIT 1;

-- name: first_owed
-- When the first delivery is or was due.
SELECT MIN(next_at) FROM delivery WHERE state = 'owed';

-- name: next_of_tree
-- tree: session 2
SELECT next_at FROM delivery
WHERE state = 'owed' AND next_at > $1 AND root_id = $2 ORDER BY next_at LIMIT 1;

-- name: claim_delivery
UPDATE delivery SET attempts = attempts + 1, next_at = $1, rev = $2 WHERE id = $3 AND state = 'owed' AND next_at <= $4;

-- name: parcel
SELECT id, call_id, url, host, secret, since, attempts, body FROM delivery WHERE id = $1;

-- name: end_attempt
-- Changes nothing if another process has claimed the delivery since.
UPDATE delivery SET state = $1, next_at = $2, ended = $3, error = $4, rev = $5
WHERE id = $6 AND state = 'owed' AND attempts = $7;

-- name: give_delivery_back
UPDATE delivery SET attempts = attempts - 1, next_at = $1, rev = $2 WHERE id = $3 AND state = 'owed' AND attempts = $4;

-- name: owe_again
UPDATE delivery SET state = 'owed', attempts = 0, next_at = $1, ended = NULL, rev = $2 WHERE id = $3 AND state = 'dead';

-- name: delivery
SELECT id, call_id, session_id, url, state, attempts, next_at, created, ended, error FROM delivery WHERE id = $1;

-- name: deliveries
SELECT id, call_id, session_id, url, state, attempts, next_at, created, ended, error FROM delivery
WHERE id > $1 ORDER BY id LIMIT $2;

-- name: deliveries_in_state
SELECT id, call_id, session_id, url, state, attempts, next_at, created, ended, error
FROM delivery WHERE state = $1 AND id > $2 ORDER BY id LIMIT $3;

-- name: forgettable_deliveries
SELECT id FROM delivery WHERE state <> 'owed' AND ended <= $1 ORDER BY ended LIMIT $2;

-- name: delete_delivery
DELETE FROM delivery WHERE id = $1;
