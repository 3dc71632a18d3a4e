-- name: insert_delivery
-- A call is settled once, so it is owed once.
INSERT INTO delivery (id, call_id, session_id, root_id, url, host, secret, since, state, attempts, next_at, created, error, rev, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'owed', 0, ?, ?, '', ?, ?) ON CONFLICT (call_id) DO NOTHING;

-- name: due_deliveries
-- What is owed by now, of one tree or (NULL) of all; not to hosts that are busy with others.
SELECT id, host FROM delivery INDEXED BY delivery_owed
WHERE state = 'owed' AND next_at <= ?1 AND (?2 IS NULL OR root_id = ?2)
  AND host NOT IN (SELECT value FROM json_each(?3))
ORDER BY next_at LIMIT ?4;

-- name: next_delivery
-- When there is more to do than now.
SELECT next_at FROM delivery INDEXED BY delivery_owed
WHERE state = 'owed' AND next_at > ?1 AND (?2 IS NULL OR root_id = ?2) ORDER BY next_at LIMIT 1;

-- name: claim_delivery
UPDATE delivery SET attempts = attempts + 1, next_at = ?, rev = ? WHERE id = ? AND state = 'owed' AND next_at <= ?;

-- name: parcel
SELECT id, call_id, url, host, secret, since, attempts, body FROM delivery WHERE id = ?;

-- name: end_attempt
-- Unless it is somebody else's by now.
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
