-- name: insert_delivery
-- A call is settled once, so it is owed once.
INSERT INTO delivery (id, call_id, session_id, url, secret, body, state, attempts, next_at, created, error, rev)
VALUES (?, ?, ?, ?, ?, ?, 'owed', 0, ?, ?, '', ?) ON CONFLICT (call_id) DO NOTHING;
