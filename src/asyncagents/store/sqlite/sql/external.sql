-- name: put_external_session
INSERT INTO external_session (session_id, external_id, sent, body) VALUES (?, ?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET external_id = excluded.external_id, sent = excluded.sent, body = excluded.body;

-- name: external_session
SELECT body FROM external_session WHERE session_id = ?;

-- name: delete_external_sessions
DELETE FROM external_session WHERE session_id = ?;

-- name: asked_calls
-- Calls of a session that asked a person.
SELECT body, version FROM call WHERE session_id = ? AND ask_id IS NOT NULL ORDER BY id;
