-- name: message
-- tree: message 1
SELECT id, session_id, position, turn, hidden, info, version FROM message WHERE id = $1;

-- name: insert_message
-- tree: session 2
INSERT INTO message (id, session_id, position, turn, hidden, info, version, rev, sort_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (id) DO NOTHING;

-- name: save_message
-- tree: message 5
-- Writes nothing over a message that a newer program wrote.
UPDATE message SET hidden = $1, info = $2, version = $3, rev = $4 WHERE id = $5 AND version <= $3;

-- name: place_message
-- tree: message 4
-- Gives a promoted message its position in the order the model reads.
UPDATE message SET position = $1, turn = $2, rev = $3 WHERE id = $4;

-- name: last_message
-- tree: session 1
-- The newest message the model would see, with its turn.
SELECT info, version, turn FROM message
WHERE session_id = $1 AND position IS NOT NULL AND hidden = 0 ORDER BY position DESC LIMIT 1;

-- name: placed_messages
-- tree: session 1
-- What the model reads from a position on.
SELECT id, position, info, version FROM message
WHERE session_id = $1 AND position >= $2 AND position < $3 AND hidden = 0 ORDER BY position;

-- name: placed_parts
-- tree: session 1
SELECT part.message_id, part.body, part.version FROM message JOIN part ON part.message_id = message.id
WHERE message.session_id = $1 AND message.position >= $2 AND message.position < $3 AND message.hidden = 0
ORDER BY message.position, part.id;

-- name: last_step_position
-- tree: session 1
-- Steps are the messages that answer; only the last one can still change for the model. Ids of requests grow
-- with time, so few are read; where clocks disagreed an earlier step is found, and more is read twice.
SELECT message.position FROM request JOIN message ON message.id = request.message_id
WHERE request.session_id = $1 AND message.hidden = 0 AND message.position IS NOT NULL
ORDER BY request.id DESC LIMIT 1;

-- name: placed_upto
-- tree: session 1
-- The newest message the model would see, up to a position.
SELECT info, version FROM message WHERE session_id = $1 AND position <= $2 AND hidden = 0 ORDER BY position DESC LIMIT 1;

-- name: step_since
-- tree: session 1
-- Whether a step was finished after a position, or was refused for good.
SELECT 1 FROM request JOIN message ON message.id = request.message_id
WHERE request.session_id = $1 AND request.state IN ('done', 'refused') AND message.hidden = 0 AND message.position > $2
ORDER BY request.id DESC LIMIT 1;

-- name: message_at
-- tree: session 1
-- The message at a position.
SELECT id FROM message WHERE session_id = $1 AND position = $2;

-- name: sort_id_of
-- tree: message 1
-- The sort id of a message.
SELECT COALESCE(sort_id, id) FROM message WHERE id = $1;

-- name: place_of
-- tree: message 1
SELECT position FROM message WHERE id = $1;

-- name: placed_before
-- tree: session 1
-- What the model would see before a position, newest first.
SELECT id, position, turn, info, version FROM message
WHERE session_id = $1 AND position < $2 AND hidden = 0 ORDER BY position DESC LIMIT $3;

-- name: newest_promoted
-- tree: session 1
-- The newest promoted input, which a turn answers; reminders are not inputs.
SELECT message.info, message.version FROM message JOIN input ON input.message_id = message.id
WHERE message.session_id = $1 AND message.position IS NOT NULL ORDER BY message.position DESC LIMIT 1;

-- name: newest_format
-- tree: session 1
-- The newest prompt of a turn that has an output format and no final answer; a step with calls is none.
SELECT message.info, message.version FROM input JOIN message ON message.id = input.message_id
WHERE input.session_id = $1 AND input.turn = $2 AND input.source = 'person' AND message.position IS NOT NULL
  AND position('"format":'::bytea in message.info) > 0
  AND (input.answer_id IS NULL OR EXISTS (SELECT 1 FROM message AS answer WHERE answer.id = input.answer_id AND position('"finish":"tool-calls"'::bytea in answer.info) > 0))
ORDER BY message.position DESC LIMIT 1;

-- name: positions
-- tree: session 1
-- The positions of a session, for invariant checks.
SELECT position FROM message WHERE session_id = $1 AND position IS NOT NULL ORDER BY position;

-- name: messages
-- tree: session 1
-- The newest messages before a sort id, newest first: clients read them in the order of their ids.
SELECT id, info, version, COALESCE(sort_id, id) FROM message
WHERE session_id = $1 AND COALESCE(sort_id, id) < $2
ORDER BY COALESCE(sort_id, id) DESC LIMIT NULLIF($3::bigint, -1);

-- name: page_parts
-- tree: session 1
-- The parts of the messages from one sort id to another.
SELECT part.message_id, part.body, part.version FROM message
JOIN part ON part.message_id = message.id
WHERE message.session_id = $1 AND COALESCE(message.sort_id, message.id) >= $2 AND COALESCE(message.sort_id, message.id) <= $3
ORDER BY COALESCE(message.sort_id, message.id), part.id;

-- name: message_parts
-- tree: message 1
SELECT body, version FROM part WHERE message_id = $1 ORDER BY id;

-- name: part
-- tree: part 1
SELECT body, version, message_id FROM part WHERE id = $1;

-- name: put_part
-- tree: session 3
-- Writes nothing over a part of another message, or one that a newer program wrote.
INSERT INTO part (id, message_id, session_id, body, version, rev) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (id) DO UPDATE SET body = excluded.body, version = excluded.version, rev = excluded.rev
WHERE part.message_id = excluded.message_id AND part.version <= excluded.version;

-- name: remove_part
-- tree: part 1
DELETE FROM part WHERE id = $1;

-- name: copied_messages
-- tree: session 1
-- The messages before a sort id that people see, in the order of sort ids, with their positions.
SELECT id, position, info, version, COALESCE(sort_id, id) FROM message
WHERE session_id = $1 AND COALESCE(sort_id, id) < $2 AND hidden = 0
ORDER BY COALESCE(sort_id, id);

-- name: newest_system
-- tree: session 1
-- The newest prompt of a turn that has a system text and no answer yet.
SELECT message.info, message.version FROM input JOIN message ON message.id = input.message_id
WHERE input.session_id = $1 AND input.turn = $2 AND input.source = 'person' AND message.position IS NOT NULL
  AND position('"system":'::bytea in message.info) > 0
  AND (input.answer_id IS NULL OR EXISTS (SELECT 1 FROM message AS answer WHERE answer.id = input.answer_id AND position('"finish":"tool-calls"'::bytea in answer.info) > 0))
ORDER BY message.position DESC LIMIT 1;
