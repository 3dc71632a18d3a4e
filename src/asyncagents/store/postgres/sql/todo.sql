-- name: put_todos
-- tree: session 1
INSERT INTO todo (session_id, body, rev) VALUES ($1, $2, $3)
ON CONFLICT (session_id) DO UPDATE SET body = excluded.body, rev = excluded.rev;

-- name: todos
-- tree: session 1
SELECT body FROM todo WHERE session_id = $1;

-- name: changed_todos
SELECT rev, session_id, body FROM todo WHERE rev > $1 AND rev <= $2 ORDER BY rev, session_id;

-- name: delete_todos
-- tree: session 1
DELETE FROM todo WHERE session_id = $1;
