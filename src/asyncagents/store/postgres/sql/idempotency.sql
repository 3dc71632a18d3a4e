-- name: idempotency
-- tree: session 1
SELECT hash FROM idempotency WHERE session_id = $1 AND kind = $2 AND key = $3;

-- name: keep_idempotency
-- tree: session 1
INSERT INTO idempotency (session_id, kind, key, hash) VALUES ($1, $2, $3, $4)
ON CONFLICT (session_id, kind, key) DO UPDATE SET hash = excluded.hash;

-- name: delete_idempotency
-- tree: session 1
DELETE FROM idempotency WHERE session_id = $1;

-- name: try_write
-- Larger than a page, so that it fails on a full disk. Deleted again in the same transaction.
INSERT INTO idempotency (session_id, kind, key, hash) VALUES ('', 'try', $1, $2);

-- name: end_try
DELETE FROM idempotency WHERE session_id = '' AND kind = 'try' AND key = $1;
