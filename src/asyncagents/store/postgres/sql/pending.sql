-- name: pending_calls
SELECT id, body, version FROM call WHERE pending = $1 AND id > $2 ORDER BY id LIMIT $3;

-- name: pending_of_session
-- tree: session 1
SELECT id, body, version FROM call
WHERE session_id = $1 AND pending = $2 AND id > $3 ORDER BY id LIMIT $4;

-- name: forgettable_calls
SELECT kept_calls($1, $2);

-- name: unlist_call
-- tree: call 2
UPDATE call SET pending = NULL, rev = $1 WHERE id = $2;

-- name: delete_call
-- tree: call 1
DELETE FROM call WHERE id = $1;

-- name: call_secret
-- tree: call 1
SELECT secret FROM call_secret WHERE call_id = $1 AND direction = $2;

-- name: put_call_secret
-- tree: session 3
INSERT INTO call_secret (call_id, direction, session_id, secret) VALUES ($1, $2, $3, $4)
ON CONFLICT (call_id, direction) DO UPDATE SET secret = excluded.secret;

-- name: delete_call_secrets
-- tree: session 1
DELETE FROM call_secret WHERE session_id = $1;

-- name: secret_keys
-- lock: secret keys
-- Secret keys, newest first. Writers lock each other, so that of two first keys one is stored.
SELECT key FROM secret_key ORDER BY id DESC;

-- name: secret_keys_since
-- Secret keys, the one in use at a time first; if there was none yet, the next one.
SELECT key FROM secret_key ORDER BY created > $1, CASE WHEN created > $1 THEN id ELSE -id END;

-- name: insert_secret_key
INSERT INTO secret_key (key, created) VALUES ($1, $2);

-- name: delete_call_secret
-- tree: call 1
DELETE FROM call_secret WHERE call_id = $1;
