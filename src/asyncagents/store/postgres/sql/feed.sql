-- name: revision
-- The revision below all open transactions, so that a reader misses nothing.
SELECT base + durable(), epoch, horizon FROM revision WHERE id = 1;

-- name: next_change
-- The first revision after one.
SELECT MIN(rev) FROM (
  SELECT MIN(rev) AS rev FROM session WHERE rev > $1
  UNION ALL SELECT MIN(rev) FROM message WHERE rev > $1
  UNION ALL SELECT MIN(rev) FROM part WHERE rev > $1
  UNION ALL SELECT MIN(rev) FROM input WHERE rev > $1
  UNION ALL SELECT MIN(rev) FROM call WHERE rev > $1
  UNION ALL SELECT MIN(rev) FROM todo WHERE rev > $1
  UNION ALL SELECT MIN(rev) FROM task WHERE rev > $1
  UNION ALL SELECT MIN(rev) FROM tombstone WHERE rev > $1
  UNION ALL SELECT MIN(rev) FROM delivery WHERE rev > $1
) AS next;

-- name: changed_sessions
-- The last column: whether a cancel covers the turn, or is within the range.
SELECT rev, id, info, version, status, cancel_rev > turn_rev AND (in_turn <> 0 OR cancel_rev > $1)
FROM session WHERE rev > $1 AND rev <= $2 ORDER BY rev, id;

-- name: changed_messages
SELECT rev, session_id, info, version FROM message WHERE rev > $1 AND rev <= $2 AND session_id NOT IN (SELECT session_id FROM arrival WHERE rev = 0) ORDER BY rev, id;

-- name: changed_parts
SELECT rev, session_id, body, version FROM part WHERE rev > $1 AND rev <= $2 AND session_id NOT IN (SELECT session_id FROM arrival WHERE rev = 0) ORDER BY rev, id;

-- name: changed_inputs
-- Answered inputs, and whether their messages still exist.
SELECT session_id, message_id, answer_id, EXISTS (SELECT 1 FROM message WHERE message.id = input.message_id) FROM input
WHERE rev > $1 AND rev <= $2 AND answer_id IS NOT NULL AND session_id NOT IN (SELECT session_id FROM arrival WHERE rev = 0) ORDER BY rev, message_id;

-- name: changed_calls
SELECT rev, session_id, body, version FROM call WHERE rev > $1 AND rev <= $2 ORDER BY rev, id;

-- name: changed_due
-- The earliest time at which one of the changed calls is due, or the server of its task is to be asked.
SELECT MIN(LEAST(CASE WHEN state = 'open' THEN due END, poll_at)) FROM call WHERE rev > $1 AND rev <= $2
HAVING MIN(LEAST(CASE WHEN state = 'open' THEN due END, poll_at)) IS NOT NULL;

-- name: changed_backoffs
-- The earliest backoff among the changed sessions.
SELECT request.next_at FROM session JOIN request ON request.id = session.backoff
WHERE session.rev > $1 AND session.rev <= $2 AND session.backoff IS NOT NULL AND request.state = 'backoff'
ORDER BY request.next_at LIMIT 1;

-- name: changed_deadlines
-- The earliest deadline among the changed tasks.
SELECT due FROM task WHERE rev > $1 AND rev <= $2 AND live = 1 AND due IS NOT NULL ORDER BY due LIMIT 1;

-- name: changed_deliveries
-- The earliest due time among the changed deliveries.
SELECT next_at FROM delivery WHERE rev > $1 AND rev <= $2 AND state = 'owed' ORDER BY next_at LIMIT 1;

-- name: changed_tombstones
SELECT rev, kind, id, body FROM tombstone WHERE rev > $1 AND rev <= $2 ORDER BY rev, kind, id;

-- name: changed_work
-- All that runs depend on, in one statement; each row carries the name of the statement that it belongs to.
WITH reach AS MATERIALIZED (SELECT base + durable() AS upto FROM revision WHERE id = 1)
SELECT 'revision', upto, NULL::text, NULL::text, NULL::text, NULL::bytea, NULL::bigint FROM reach
UNION ALL
SELECT 'changed_inputs', rev, session_id, message_id, answer_id, NULL,
  EXISTS (SELECT 1 FROM message WHERE message.id = input.message_id)::int
FROM input WHERE rev > $1 AND rev <= (SELECT upto FROM reach) AND answer_id IS NOT NULL AND session_id NOT IN (SELECT session_id FROM arrival WHERE rev = 0)
UNION ALL
SELECT 'changed_tombstones', rev, kind, id, NULL, body, NULL
FROM tombstone WHERE rev > $1 AND rev <= (SELECT upto FROM reach)
UNION ALL
SELECT 'changed_sessions', rev, id, NULL, NULL, NULL,
  (cancel_rev > turn_rev AND (in_turn <> 0 OR cancel_rev > $1))::int
FROM session WHERE rev > $1 AND rev <= (SELECT upto FROM reach)
UNION ALL
SELECT 'changed_due', NULL, NULL, NULL, NULL, NULL, MIN(first)
FROM (
  SELECT LEAST(CASE WHEN state = 'open' THEN due END, poll_at) AS first
  FROM call WHERE rev > $1 AND rev <= (SELECT upto FROM reach) OFFSET 0
) AS changed
HAVING MIN(first) IS NOT NULL
UNION ALL
SELECT 'changed_backoffs', NULL, NULL, NULL, NULL, NULL, MIN(next_at)
FROM (SELECT backoff FROM session WHERE rev > $1 AND rev <= (SELECT upto FROM reach) OFFSET 0) AS changed
JOIN request ON request.id = changed.backoff WHERE request.state = 'backoff' HAVING MIN(next_at) IS NOT NULL
UNION ALL
SELECT 'changed_deadlines', NULL, NULL, NULL, NULL, NULL, MIN(due)
FROM (SELECT due, live FROM task WHERE rev > $1 AND rev <= (SELECT upto FROM reach) OFFSET 0) AS changed
WHERE live = 1 HAVING MIN(due) IS NOT NULL
UNION ALL
SELECT 'changed_deliveries', NULL, NULL, NULL, NULL, NULL, MIN(next_at)
FROM (SELECT next_at, state FROM delivery WHERE rev > $1 AND rev <= (SELECT upto FROM reach) OFFSET 0) AS changed
WHERE state = 'owed' HAVING MIN(next_at) IS NOT NULL
ORDER BY 2, 3, 4;

-- name: forget_tombstones
DELETE FROM tombstone WHERE rev <= $1;

-- name: raise_horizon
UPDATE revision SET horizon = GREATEST(horizon, $1) WHERE id = 1;
