-- name: idempotency
SELECT hash FROM idempotency WHERE session_id = ? AND kind = ? AND key = ?;

-- name: keep_idempotency
INSERT INTO idempotency (session_id, kind, key, hash) VALUES (?, ?, ?, ?)
ON CONFLICT (session_id, kind, key) DO UPDATE SET hash = excluded.hash;

-- name: delete_idempotency
DELETE FROM idempotency WHERE session_id = ?;

-- name: try_write
-- Larger than a page, so that it fails on a full disk. Deleted again in the same transaction.
INSERT INTO idempotency (session_id, kind, key, hash) VALUES ('', 'try', ?, ?);

-- name: end_try
DELETE FROM idempotency WHERE session_id = '' AND kind = 'try' AND key = ?;
