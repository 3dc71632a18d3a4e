-- name: call
-- tree: call 1
SELECT body, version FROM call WHERE id = $1;

-- name: call_by_ask
-- tree: ask 1
SELECT body, version FROM call WHERE ask_id = $1;

-- name: call_by_part
-- tree: part 1
SELECT body, version FROM call WHERE part_id = $1;

-- name: keep_answer
-- tree: session 2
INSERT INTO answered (ask_id, session_id, call_id, reply) VALUES ($1, $2, $3, $4) ON CONFLICT (ask_id) DO NOTHING;

-- name: answered
-- tree: ask 1
SELECT call_id, reply FROM answered WHERE ask_id = $1;

-- name: delete_answers
-- tree: session 1
DELETE FROM answered WHERE session_id = $1;

-- name: unsettled_calls
-- tree: session 1
SELECT body, version FROM call
WHERE session_id = $1 AND state <> 'settled' ORDER BY id;

-- name: open_waits
-- tree: session 1
-- Open calls that may watch a task of the session; a superset, which the caller filters.
SELECT body, version FROM call
WHERE session_id = $1 AND state <> 'settled' AND state = 'open' AND position('"watch":{'::bytea IN body) > 0 ORDER BY id;

-- name: parts_of_unsettled
-- tree: session 1
-- The parts of unsettled calls, whether the calls can be read or not.
SELECT part.body, part.version FROM call JOIN part ON part.id = call.part_id
WHERE call.session_id = $1 AND call.state <> 'settled' ORDER BY call.id;

-- name: open_calls
-- tree: session 1
-- Calls that wait; not running ones, of which there may be hundreds.
SELECT body, version FROM call
WHERE session_id = $1 AND state <> 'settled' AND state = 'open' ORDER BY id;

-- name: tree_asks
-- tree: session 1
-- Calls of a tree of sessions that wait for a person.
SELECT call.body, call.version FROM session
JOIN call ON call.session_id = session.id AND call.state = 'open' AND call.ask_id IS NOT NULL
WHERE session.root_id = $1 ORDER BY call.id;

-- name: asks
-- Calls of all sessions that wait for a person.
SELECT body, version FROM call WHERE state = 'open' AND ask_id IS NOT NULL ORDER BY id;

-- name: last_call
-- tree: session 1
SELECT body, version FROM call WHERE session_id = $1 ORDER BY id DESC LIMIT 1;

-- name: last_call_id
-- tree: session 1
SELECT id FROM call WHERE session_id = $1 ORDER BY id DESC LIMIT 1;

-- name: session_calls
-- tree: session 1
SELECT body, version FROM call WHERE session_id = $1 ORDER BY id;

-- name: shown_calls
-- tree: session 1
-- Calls that a request showed as pending.
SELECT part_id FROM call WHERE session_id = $1 AND shown_pending = 1;

-- name: put_call
-- tree: session 2
-- Writes nothing over a call that a newer program wrote.
INSERT INTO call (id, session_id, part_id, ask_id, tool, state, due, shown_pending, pending, body, version, rev)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (id) DO UPDATE SET ask_id = excluded.ask_id, state = excluded.state, due = excluded.due,
  shown_pending = excluded.shown_pending, pending = excluded.pending, body = excluded.body, version = excluded.version, rev = excluded.rev
WHERE call.version <= excluded.version;

-- name: due_calls
SELECT call_id, call_body, call_version FROM due_calls($1, $2);

-- name: forget_due
-- tree: call 2
-- Clears the due time of a call that cannot be read and so cannot be settled.
UPDATE call SET due = NULL, rev = $1 WHERE id = $2;

-- name: put_off_call
-- tree: call 3
-- Postpones a call whose expiry fails, so that it does not block other due rows.
UPDATE call SET due = $1, rev = $2 WHERE id = $3 AND state = 'open';

-- name: put_off_backoff
UPDATE request SET next_at = $1 WHERE id = $2 AND state = 'backoff';

-- name: next_due
SELECT MIN(due) FROM call WHERE state = 'open' AND due IS NOT NULL;

-- name: open_requests
-- tree: session 1
SELECT id, message_id, tokens FROM request WHERE session_id = $1 AND state = 'open';

-- name: asked_since
-- tree: session 1
SELECT MIN(started) FROM request WHERE session_id = $1 AND state = 'open';

-- name: insert_request
-- tree: session 2
INSERT INTO request (id, session_id, message_id, turn, fence, attempt, state, tokens, estimated, started)
VALUES ($1, $2, $3, $4, $5, $6, 'open', $7, 1, $8);

-- name: end_request
-- Ends a request once: a second end changes nothing. Without a report the estimate stays, marked as one.
UPDATE request SET state = $1, tokens = COALESCE($2::bytea, tokens), estimated = ($2::bytea IS NULL)::int WHERE id = $3 AND state = 'open';

-- name: back_off
-- The request failed; another try is due at `next_at`.
UPDATE request SET state = 'backoff', next_at = $1, failure = $2, estimate = tokens, tokens = $3, estimated = $4
WHERE id = $5 AND state = 'open';

-- name: hold_back
-- Postpones the next try: its provider cools down.
UPDATE request SET next_at = $1, failure = $2 WHERE id = $3 AND state = 'backoff';

-- name: end_backoff
UPDATE request SET state = 'failed' WHERE id = $1 AND state = 'backoff';

-- name: backoff
SELECT id, message_id, attempt, next_at, failure, estimate FROM request WHERE id = $1;

-- name: due_backoffs
SELECT late_session, late_request FROM due_backoffs($1, $2);

-- name: next_backoff
SELECT next_at FROM backed_off ORDER BY next_at LIMIT 1;

-- name: request_tokens
SELECT tokens FROM request WHERE id = $1;

-- name: session_requests
-- tree: session 1
SELECT id, message_id, state, tokens, estimated FROM request WHERE session_id = $1 ORDER BY id;
