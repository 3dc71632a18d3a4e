-- name: begin_arrival
-- Takes over an arrival that another process began.
INSERT INTO arrival (session_id, token, touched, rev) VALUES (?, ?, ?, 0)
ON CONFLICT (session_id) DO UPDATE SET token = excluded.token, touched = excluded.touched, rev = 0;

-- name: touch_arrival
UPDATE arrival SET touched = ? WHERE session_id = ? AND token = ? AND rev = 0;

-- name: take_over_arrival
UPDATE arrival SET token = ?, touched = ? WHERE session_id = ? AND token = ? AND rev = 0 AND touched < ?;

-- name: end_arrival
UPDATE arrival SET rev = ? WHERE session_id = ? AND token = ? AND rev = 0;

-- name: drop_arrival
DELETE FROM arrival WHERE session_id = ? AND token = ? AND rev = 0;

-- name: stale_arrivals
-- Arrivals that no process has written to for some time.
SELECT session_id, token FROM arrival WHERE rev = 0 AND touched < ? ORDER BY session_id LIMIT ?;

-- name: forget_arrivals
DELETE FROM arrival WHERE rev > 0 AND touched < ?;

-- name: changed_arrivals
-- Finished arrivals with the number of their messages.
SELECT session_id, (SELECT COUNT(*) FROM message WHERE message.session_id = arrival.session_id) FROM arrival
WHERE rev > ? AND rev <= ? ORDER BY rev, session_id;

-- name: drop_arrived_parts
-- Deletes the parts of the first messages of a session.
DELETE FROM part WHERE message_id IN (SELECT id FROM message WHERE session_id = ? ORDER BY COALESCE(sort_id, id) LIMIT ?);

-- name: drop_arrived_inputs
DELETE FROM input WHERE message_id IN (SELECT id FROM message WHERE session_id = ? ORDER BY COALESCE(sort_id, id) LIMIT ?);

-- name: drop_arrived_messages
DELETE FROM message WHERE id IN (SELECT id FROM message WHERE session_id = ? ORDER BY COALESCE(sort_id, id) LIMIT ?);

-- name: drop_arrived_calls
DELETE FROM call WHERE id IN (SELECT id FROM call WHERE session_id = ? ORDER BY id LIMIT ?);

-- name: arrived_messages
SELECT rev, session_id, info, version FROM message WHERE session_id = ? ORDER BY COALESCE(sort_id, id);

-- name: arrived_parts
SELECT part.rev, part.session_id, part.body, part.version FROM message JOIN part ON part.message_id = message.id
WHERE message.session_id = ? ORDER BY COALESCE(message.sort_id, message.id), part.id;
