-- name: call
SELECT body, version FROM call WHERE id = ?;

-- name: call_by_ask
SELECT body, version FROM call WHERE ask_id = ?;

-- name: call_by_part
SELECT body, version FROM call WHERE part_id = ?;

-- name: keep_answer
INSERT INTO answered (ask_id, session_id, call_id, reply) VALUES (?, ?, ?, ?) ON CONFLICT (ask_id) DO NOTHING;

-- name: answered
SELECT call_id, reply FROM answered WHERE ask_id = ?;

-- name: delete_answers
DELETE FROM answered WHERE session_id = ?;

-- name: unsettled_calls
SELECT body, version FROM call INDEXED BY call_unsettled
WHERE session_id = ? AND state <> 'settled' ORDER BY id;

-- name: open_waits
-- Open calls that may watch a task of the session; a superset, which the caller filters.
SELECT body, version FROM call INDEXED BY call_unsettled
WHERE session_id = ? AND state <> 'settled' AND state = 'open' AND instr(body, CAST('"watch":{' AS BLOB)) ORDER BY id;

-- name: parts_of_unsettled
-- The parts of unsettled calls, whether the calls can be read or not.
SELECT part.body, part.version FROM call INDEXED BY call_unsettled JOIN part ON part.id = call.part_id
WHERE call.session_id = ? AND call.state <> 'settled' ORDER BY call.id;

-- name: open_calls
-- Calls that wait; not running ones, of which there may be hundreds.
SELECT body, version FROM call INDEXED BY call_unsettled
WHERE session_id = ? AND state <> 'settled' AND state = 'open' ORDER BY id;

-- name: tree_asks
-- Calls of a tree of sessions that wait for a person.
SELECT call.body, call.version FROM session
JOIN call INDEXED BY call_asks ON call.session_id = session.id AND call.state = 'open' AND call.ask_id IS NOT NULL
WHERE session.root_id = ? ORDER BY call.id;

-- name: asks
-- Calls of all sessions that wait for a person.
SELECT body, version FROM call INDEXED BY call_asks WHERE state = 'open' AND ask_id IS NOT NULL ORDER BY id;

-- name: last_call
SELECT body, version FROM call WHERE session_id = ? ORDER BY id DESC LIMIT 1;

-- name: last_call_id
SELECT id FROM call WHERE session_id = ? ORDER BY id DESC LIMIT 1;

-- name: session_calls
SELECT body, version FROM call WHERE session_id = ? ORDER BY id;

-- name: shown_calls
-- Calls that a request showed as pending.
SELECT part_id FROM call INDEXED BY call_shown WHERE session_id = ? AND shown_pending = 1;

-- name: put_call
-- Writes nothing over a call that a newer program wrote.
INSERT INTO call (id, session_id, part_id, ask_id, tool, state, due, shown_pending, pending, body, version, rev)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET ask_id = excluded.ask_id, state = excluded.state, due = excluded.due,
  shown_pending = excluded.shown_pending, pending = excluded.pending, body = excluded.body, version = excluded.version, rev = excluded.rev
WHERE call.version <= excluded.version;

-- name: due_calls
SELECT id, body, version FROM call WHERE state = 'open' AND due IS NOT NULL AND due <= ? ORDER BY due, id LIMIT ?;

-- name: forget_due
-- Clears the due time of a call that cannot be read and so cannot be settled.
UPDATE call SET due = NULL, rev = ? WHERE id = ?;

-- name: put_off_call
-- Postpones a call whose expiry fails, so that it does not block other due rows.
UPDATE call SET due = ?, rev = ? WHERE id = ? AND state = 'open';

-- name: put_off_backoff
UPDATE request SET next_at = ? WHERE id = ? AND state = 'backoff';

-- name: next_due
SELECT MIN(due) FROM call WHERE state = 'open' AND due IS NOT NULL;

-- name: open_requests
SELECT id, message_id, tokens FROM request WHERE session_id = ? AND state = 'open';

-- name: asked_since
SELECT MIN(started) FROM request WHERE session_id = ? AND state = 'open';

-- name: insert_request
INSERT INTO request (id, session_id, message_id, turn, fence, attempt, state, tokens, estimated, started)
VALUES (?, ?, ?, ?, ?, ?, 'open', ?, 1, ?);

-- name: end_request
-- Ends a request once: a second end changes nothing. Without a report the estimate stays, marked as one.
UPDATE request SET state = ?1, tokens = COALESCE(?2, tokens), estimated = ?2 IS NULL WHERE id = ?3 AND state = 'open';

-- name: back_off
-- The request failed; another try is due at `next_at`.
UPDATE request SET state = 'backoff', next_at = ?, failure = ?, estimate = tokens, tokens = ?, estimated = ?
WHERE id = ? AND state = 'open';

-- name: hold_back
-- Postpones the next try: its provider cools down.
UPDATE request SET next_at = ?, failure = ? WHERE id = ? AND state = 'backoff';

-- name: end_backoff
UPDATE request SET state = 'failed' WHERE id = ? AND state = 'backoff';

-- name: backoff
SELECT id, message_id, attempt, next_at, failure, estimate FROM request WHERE id = ?;

-- name: due_backoffs
-- Due backoffs of idle sessions: a run handles its own. A session that is held by a call is woken when that call ends: an earlier
-- run could only stop again, and be woken again.
SELECT session.id, request.id FROM request
JOIN session ON session.id = request.session_id AND session.backoff = request.id
WHERE request.state = 'backoff' AND request.next_at <= ? AND session.state = 'idle' AND NOT EXISTS (
  SELECT 1 FROM call WHERE call.session_id = session.id AND call.state = 'open' AND json_valid(CAST(call.body AS TEXT))
    AND (CAST(call.body AS TEXT) ->> '$.state.kind' IN ('ask', 'question')
      OR (CAST(call.body AS TEXT) ->> '$.state.kind' = 'task' AND NOT COALESCE(CAST(call.body AS TEXT) ->> '$.state.child_waits', 0))))
ORDER BY request.next_at, session.id LIMIT ?;

-- name: next_backoff
SELECT request.next_at FROM request JOIN session ON session.id = request.session_id AND session.backoff = request.id
WHERE request.state = 'backoff' AND session.state = 'idle' AND NOT EXISTS (
  SELECT 1 FROM call WHERE call.session_id = session.id AND call.state = 'open' AND json_valid(CAST(call.body AS TEXT))
    AND (CAST(call.body AS TEXT) ->> '$.state.kind' IN ('ask', 'question')
      OR (CAST(call.body AS TEXT) ->> '$.state.kind' = 'task' AND NOT COALESCE(CAST(call.body AS TEXT) ->> '$.state.child_waits', 0))))
ORDER BY request.next_at LIMIT 1;

-- name: request_tokens
SELECT tokens FROM request WHERE id = ?;

-- name: session_requests
SELECT id, message_id, state, tokens, estimated FROM request WHERE session_id = ? ORDER BY id;
