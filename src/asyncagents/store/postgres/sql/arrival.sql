-- name: begin_arrival
-- tree: session 1
-- Takes over an arrival that another process began.
INSERT INTO arrival (session_id, token, touched, rev) VALUES ($1, $2, $3, 0)
ON CONFLICT (session_id) DO UPDATE SET token = excluded.token, touched = excluded.touched, rev = 0;

-- name: touch_arrival
-- tree: session 2
UPDATE arrival SET touched = $1 WHERE session_id = $2 AND token = $3 AND rev = 0;

-- name: take_over_arrival
-- tree: session 3
UPDATE arrival SET token = $1, touched = $2 WHERE session_id = $3 AND token = $4 AND rev = 0 AND touched < $5;

-- name: end_arrival
-- tree: session 2
UPDATE arrival SET rev = $1 WHERE session_id = $2 AND token = $3 AND rev = 0;

-- name: drop_arrival
-- tree: session 1
DELETE FROM arrival WHERE session_id = $1 AND token = $2 AND rev = 0;

-- name: stale_arrivals
-- Arrivals that no process has written to for some time.
SELECT session_id, token FROM arrival WHERE rev = 0 AND touched < $1 ORDER BY session_id LIMIT $2;

-- name: forget_arrivals
DELETE FROM arrival WHERE rev > 0 AND touched < $1;

-- name: changed_arrivals
-- Finished arrivals with the number of their messages.
SELECT session_id, (SELECT COUNT(*) FROM message WHERE message.session_id = arrival.session_id) FROM arrival
WHERE rev > $1 AND rev <= $2 ORDER BY rev, session_id;

-- name: drop_arrived_parts
-- tree: session 1
-- Deletes the parts of the first messages of a session.
DELETE FROM part WHERE message_id IN (SELECT id FROM message WHERE session_id = $1 ORDER BY COALESCE(sort_id, id) LIMIT $2);

-- name: drop_arrived_inputs
-- tree: session 1
DELETE FROM input WHERE message_id IN (SELECT id FROM message WHERE session_id = $1 ORDER BY COALESCE(sort_id, id) LIMIT $2);

-- name: drop_arrived_messages
-- tree: session 1
DELETE FROM message WHERE id IN (SELECT id FROM message WHERE session_id = $1 ORDER BY COALESCE(sort_id, id) LIMIT $2);

-- name: drop_arrived_calls
-- tree: session 1
DELETE FROM call WHERE id IN (SELECT id FROM call WHERE session_id = $1 ORDER BY id LIMIT $2);

-- name: arrived_messages
-- tree: session 1
SELECT rev, session_id, info, version FROM message WHERE session_id = $1 ORDER BY COALESCE(sort_id, id);

-- name: arrived_parts
-- tree: session 1
SELECT part.rev, part.session_id, part.body, part.version FROM message JOIN part ON part.message_id = message.id
WHERE message.session_id = $1 ORDER BY COALESCE(message.sort_id, message.id), part.id;
