-- name: insert_delivery
-- A call is settled once, so it has one delivery.
INSERT INTO delivery (id, call_id, session_id, root_id, url, host, secret, since, state, attempts, next_at, created, error, rev, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'owed', 0, ?, ?, '', ?, ?) ON CONFLICT (call_id) DO NOTHING;

-- name: due_deliveries
-- The first few due deliveries of every host; a host with a hundred thousand is skipped in one step.
WITH RECURSIVE hosts (host) AS (
  SELECT min(host) FROM delivery INDEXED BY delivery_host WHERE state = 'owed'
  UNION ALL
  SELECT (SELECT min(host) FROM delivery INDEXED BY delivery_host WHERE state = 'owed' AND host > hosts.host)
  FROM hosts WHERE hosts.host IS NOT NULL
)
SELECT delivery.id, delivery.host FROM hosts CROSS JOIN delivery
WHERE delivery.id IN (
  SELECT id FROM delivery INDEXED BY delivery_host
  WHERE state = 'owed' AND host = hosts.host AND next_at <= ?1 ORDER BY next_at LIMIT ?2
)
ORDER BY delivery.next_at, delivery.id;

-- name: due_of_tree
-- The same, for one tree of sessions.
WITH RECURSIVE hosts (host) AS (
  SELECT min(host) FROM delivery INDEXED BY delivery_tree WHERE state = 'owed' AND root_id = ?3
  UNION ALL
  SELECT (
    SELECT min(host) FROM delivery INDEXED BY delivery_tree WHERE state = 'owed' AND root_id = ?3 AND host > hosts.host
  )
  FROM hosts WHERE hosts.host IS NOT NULL
)
SELECT delivery.id, delivery.host FROM hosts CROSS JOIN delivery
WHERE delivery.id IN (
  SELECT id FROM delivery INDEXED BY delivery_tree
  WHERE state = 'owed' AND root_id = ?3 AND host = hosts.host AND next_at <= ?1 ORDER BY next_at LIMIT ?2
)
ORDER BY delivery.next_at, delivery.id;

-- name: next_delivery
-- When the next delivery becomes due that is not due now.
SELECT next_at FROM delivery INDEXED BY delivery_owed
WHERE state = 'owed' AND next_at > ? ORDER BY next_at LIMIT 1;

-- name: first_owed
-- When the first delivery is or was due.
SELECT MIN(next_at) FROM delivery INDEXED BY delivery_owed WHERE state = 'owed';

-- name: next_of_tree
SELECT next_at FROM delivery INDEXED BY delivery_tree
WHERE state = 'owed' AND next_at > ? AND root_id = ? ORDER BY next_at LIMIT 1;

-- name: claim_delivery
UPDATE delivery SET attempts = attempts + 1, next_at = ?, rev = ? WHERE id = ? AND state = 'owed' AND next_at <= ?;

-- name: parcel
SELECT id, call_id, url, host, secret, since, attempts, body FROM delivery WHERE id = ?;

-- name: end_attempt
-- Changes nothing if another process has claimed the delivery since.
UPDATE delivery SET state = ?, next_at = ?, ended = ?, error = ?, rev = ?
WHERE id = ? AND state = 'owed' AND attempts = ?;

-- name: give_delivery_back
UPDATE delivery SET attempts = attempts - 1, next_at = ?, rev = ? WHERE id = ? AND state = 'owed' AND attempts = ?;

-- name: owe_again
UPDATE delivery SET state = 'owed', attempts = 0, next_at = ?, ended = NULL, rev = ? WHERE id = ? AND state = 'dead';

-- name: delivery
SELECT id, call_id, session_id, url, state, attempts, next_at, created, ended, error FROM delivery WHERE id = ?;

-- name: deliveries
SELECT id, call_id, session_id, url, state, attempts, next_at, created, ended, error FROM delivery
WHERE id > ? ORDER BY id LIMIT ?;

-- name: deliveries_in_state
SELECT id, call_id, session_id, url, state, attempts, next_at, created, ended, error
FROM delivery INDEXED BY delivery_state WHERE state = ? AND id > ? ORDER BY id LIMIT ?;

-- name: forgettable_deliveries
SELECT id FROM delivery INDEXED BY delivery_ended WHERE state <> 'owed' AND ended <= ? ORDER BY ended LIMIT ?;

-- name: delete_delivery
DELETE FROM delivery WHERE id = ?;
