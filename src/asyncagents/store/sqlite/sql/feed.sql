-- name: revision
SELECT rev, epoch, horizon FROM revision WHERE id = 1;

-- name: next_change
-- The first revision after one.
SELECT MIN(rev) FROM (
  SELECT MIN(rev) AS rev FROM session WHERE rev > ?1
  UNION ALL SELECT MIN(rev) FROM message WHERE rev > ?1
  UNION ALL SELECT MIN(rev) FROM part WHERE rev > ?1
  UNION ALL SELECT MIN(rev) FROM input WHERE rev > ?1
  UNION ALL SELECT MIN(rev) FROM call WHERE rev > ?1
  UNION ALL SELECT MIN(rev) FROM todo WHERE rev > ?1
  UNION ALL SELECT MIN(rev) FROM task WHERE rev > ?1
  UNION ALL SELECT MIN(rev) FROM tombstone WHERE rev > ?1
  UNION ALL SELECT MIN(rev) FROM delivery WHERE rev > ?1
);

-- name: changed_sessions
-- The last column: whether a cancel covers the turn, or is within the range.
SELECT rev, id, info, version, status, cancel_rev > turn_rev AND (in_turn OR cancel_rev > ?1)
FROM session WHERE rev > ?1 AND rev <= ?2 ORDER BY rev, id;

-- name: changed_messages
SELECT rev, session_id, info, version FROM message WHERE rev > ? AND rev <= ? AND session_id NOT IN (SELECT session_id FROM arrival WHERE rev = 0) ORDER BY rev, id;

-- name: changed_parts
SELECT rev, session_id, body, version FROM part WHERE rev > ? AND rev <= ? AND session_id NOT IN (SELECT session_id FROM arrival WHERE rev = 0) ORDER BY rev, id;

-- name: changed_inputs
-- Answered inputs, and whether their messages still exist.
SELECT session_id, message_id, answer_id, EXISTS (SELECT 1 FROM message WHERE message.id = input.message_id) FROM input
WHERE rev > ? AND rev <= ? AND answer_id IS NOT NULL AND session_id NOT IN (SELECT session_id FROM arrival WHERE rev = 0) ORDER BY rev, message_id;

-- name: changed_calls
SELECT rev, session_id, body, version FROM call WHERE rev > ? AND rev <= ? ORDER BY rev, id;

-- name: changed_due
-- The earliest time at which one of the changed calls is due, or the server of its task is to be asked.
SELECT MIN(COALESCE(MIN(due_at, poll_at), due_at, poll_at)) FROM (
  SELECT CASE WHEN state = 'open' THEN due END AS due_at, poll_at FROM call WHERE rev > ? AND rev <= ?
) WHERE due_at IS NOT NULL OR poll_at IS NOT NULL HAVING COUNT(*) > 0;

-- name: changed_backoffs
-- The earliest backoff among the changed sessions.
SELECT request.next_at FROM session JOIN request ON request.id = session.backoff
WHERE session.rev > ? AND session.rev <= ? AND session.backoff IS NOT NULL AND request.state = 'backoff'
ORDER BY request.next_at LIMIT 1;

-- name: changed_deadlines
-- The earliest deadline among the changed tasks.
SELECT due FROM task WHERE rev > ? AND rev <= ? AND live = 1 AND due IS NOT NULL ORDER BY due LIMIT 1;

-- name: changed_deliveries
-- The earliest due time among the changed deliveries.
SELECT next_at FROM delivery INDEXED BY delivery_rev WHERE rev > ? AND rev <= ? AND state = 'owed' ORDER BY next_at LIMIT 1;

-- name: changed_tombstones
SELECT rev, kind, id, body FROM tombstone WHERE rev > ? AND rev <= ? ORDER BY rev, kind, id;

-- name: forget_tombstones
DELETE FROM tombstone WHERE rev <= ?;

-- name: raise_horizon
UPDATE revision SET horizon = MAX(horizon, ?) WHERE id = 1;
