-- name: put_external_session
-- tree: session 1
INSERT INTO external_session (session_id, external_id, sent, body) VALUES ($1, $2, $3, $4)
ON CONFLICT (session_id) DO UPDATE SET external_id = excluded.external_id, sent = excluded.sent, body = excluded.body;

-- name: external_session
-- tree: session 1
SELECT body FROM external_session WHERE session_id = $1;

-- name: delete_external_sessions
-- tree: session 1
DELETE FROM external_session WHERE session_id = $1;

-- name: asked_calls
-- Calls of a session that asked a person.
-- tree: session 1
SELECT body, version FROM call WHERE session_id = $1 AND ask_id IS NOT NULL ORDER BY id;
