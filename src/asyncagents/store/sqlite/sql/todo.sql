-- name: put_todos
INSERT INTO todo (session_id, body, rev) VALUES (?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET body = excluded.body, rev = excluded.rev;

-- name: todos
SELECT body FROM todo WHERE session_id = ?;

-- name: changed_todos
SELECT rev, session_id, body FROM todo WHERE rev > ? AND rev <= ? ORDER BY rev, session_id;

-- name: delete_todos
DELETE FROM todo WHERE session_id = ?;
