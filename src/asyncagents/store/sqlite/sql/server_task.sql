-- name: set_poll
-- When the server of a call's task is asked next.
UPDATE call SET poll_at = ? WHERE id = ?;

-- name: keep_call
-- Stores what was learned of a task of a server; the part that people see does not change.
UPDATE call SET body = ?, version = ?, rev = ? WHERE id = ? AND version <= ?;

-- name: claim_poll
UPDATE call SET poll_at = ? WHERE id = ? AND poll_at <= ?;

-- name: due_polls
SELECT call.id FROM call INDEXED BY call_poll JOIN session ON session.id = call.session_id
WHERE call.poll_at <= ? AND session.pool = ? ORDER BY call.poll_at, call.id LIMIT ?;

-- name: due_polls_of_tree
SELECT call.id FROM call INDEXED BY call_poll JOIN session ON session.id = call.session_id
WHERE call.poll_at <= ? AND session.root_id = ? ORDER BY call.poll_at, call.id LIMIT ?;

-- name: next_poll
-- When the next server must be asked that need not be asked now.
SELECT call.poll_at FROM call INDEXED BY call_poll JOIN session ON session.id = call.session_id
WHERE call.poll_at > ? AND session.pool = ? ORDER BY call.poll_at LIMIT 1;

-- name: next_poll_of_tree
SELECT call.poll_at FROM call INDEXED BY call_poll JOIN session ON session.id = call.session_id
WHERE call.poll_at > ? AND session.root_id = ? ORDER BY call.poll_at LIMIT 1;

-- name: first_poll
-- When the first server is to be asked; not for calls that wait for a person.
SELECT MIN(poll_at) FROM call INDEXED BY call_poll WHERE poll_at IS NOT NULL
  AND json_valid(CAST(body AS TEXT)) AND CAST(body AS TEXT) ->> '$.state.question' IS NULL;
