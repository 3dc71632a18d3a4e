-- name: pending_calls
SELECT id, body, version FROM call INDEXED BY call_pending WHERE pending = ? AND id > ? ORDER BY id LIMIT ?;

-- name: pending_of_session
SELECT id, body, version FROM call INDEXED BY call_pending_session
WHERE session_id = ? AND pending = ? AND id > ? ORDER BY id LIMIT ?;

-- name: forgettable_calls
SELECT id FROM call INDEXED BY call_kept
WHERE state = 'settled' AND pending IS NOT NULL AND due <= ? ORDER BY due LIMIT ?;

-- name: unlist_call
UPDATE call SET pending = NULL, rev = ? WHERE id = ?;

-- name: delete_call
DELETE FROM call WHERE id = ?;

-- name: call_secret
SELECT secret FROM call_secret WHERE call_id = ? AND direction = ?;

-- name: put_call_secret
INSERT INTO call_secret (call_id, direction, session_id, secret) VALUES (?, ?, ?, ?)
ON CONFLICT (call_id, direction) DO UPDATE SET secret = excluded.secret;

-- name: delete_call_secrets
DELETE FROM call_secret WHERE session_id = ?;

-- name: secret_keys
-- Secret keys, newest first.
SELECT key FROM secret_key ORDER BY id DESC;

-- name: secret_keys_since
-- Secret keys, the one in use at a time first; if there was none yet, the next one.
SELECT key FROM secret_key ORDER BY created > ?1, CASE WHEN created > ?1 THEN id ELSE -id END;

-- name: insert_secret_key
INSERT INTO secret_key (key, created) VALUES (?, ?);

-- name: delete_call_secret
DELETE FROM call_secret WHERE call_id = ?;
