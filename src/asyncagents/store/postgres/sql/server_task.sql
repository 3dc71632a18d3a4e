-- name: set_poll
-- tree: call 2
-- When the server of a call's task is asked next.
UPDATE call SET poll_at = $1 WHERE id = $2;

-- name: keep_call
-- tree: call 4
-- Stores what was learned of a task of a server; the part that people see does not change.
UPDATE call SET body = $1, version = $2, rev = $3 WHERE id = $4 AND version <= $5;

-- name: claim_poll
-- tree: call 2
UPDATE call SET poll_at = $1 WHERE id = $2 AND poll_at <= $3;

-- name: due_polls
SELECT call.id FROM call JOIN session ON session.id = call.session_id
WHERE call.poll_at <= $1 AND session.pool = $2 ORDER BY call.poll_at, call.id LIMIT $3;

-- name: due_polls_of_tree
SELECT call.id FROM call JOIN session ON session.id = call.session_id
WHERE call.poll_at <= $1 AND session.root_id = $2 ORDER BY call.poll_at, call.id LIMIT $3;

-- name: next_poll
-- When the next server must be asked that need not be asked now.
SELECT call.poll_at FROM call JOIN session ON session.id = call.session_id
WHERE call.poll_at > $1 AND session.pool = $2 ORDER BY call.poll_at LIMIT 1;

-- name: next_poll_of_tree
SELECT call.poll_at FROM call JOIN session ON session.id = call.session_id
WHERE call.poll_at > $1 AND session.root_id = $2 ORDER BY call.poll_at LIMIT 1;

-- name: first_poll
-- When the first server is to be asked; not for calls that wait for a person.
SELECT MIN(poll_at) FROM call WHERE poll_at IS NOT NULL
  AND (readable(body) -> 'state' -> 'question') IS NULL;
