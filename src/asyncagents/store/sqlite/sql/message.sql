-- name: message
SELECT id, session_id, position, turn, hidden, info, version FROM message WHERE id = ?;

-- name: insert_message
INSERT INTO message (id, session_id, position, turn, hidden, info, version, rev, sort_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: save_message
-- Writes nothing over a message that a newer program wrote.
UPDATE message SET hidden = ?, info = ?, version = ?3, rev = ? WHERE id = ? AND version <= ?3;

-- name: place_message
-- Gives a promoted message its position in the order the model reads.
UPDATE message SET position = ?, turn = ?, rev = ? WHERE id = ?;

-- name: last_message
-- The newest message the model would see, with its turn.
SELECT info, version, turn FROM message
WHERE session_id = ? AND position IS NOT NULL AND hidden = 0 ORDER BY position DESC LIMIT 1;

-- name: placed_messages
-- What the model reads from a position on.
SELECT id, position, info, version FROM message
WHERE session_id = ? AND position >= ? AND position < ? AND hidden = 0 ORDER BY position;

-- name: placed_parts
SELECT part.message_id, part.body, part.version FROM message JOIN part ON part.message_id = message.id
WHERE message.session_id = ? AND message.position >= ? AND message.position < ? AND message.hidden = 0
ORDER BY message.position, part.id;

-- name: last_step_position
-- Steps are the messages that answer; only the last one can still change for the model. Ids of requests grow
-- with time, so few are read; where clocks disagreed an earlier step is found, and more is read twice.
SELECT message.position FROM request CROSS JOIN message ON message.id = request.message_id
WHERE request.session_id = ? AND message.hidden = 0 AND message.position IS NOT NULL
ORDER BY request.id DESC LIMIT 1;

-- name: placed_upto
-- The newest message the model would see, up to a position.
SELECT info, version FROM message WHERE session_id = ? AND position <= ? AND hidden = 0 ORDER BY position DESC LIMIT 1;

-- name: step_since
-- Whether a step was finished after a position, or was refused for good.
SELECT 1 FROM request CROSS JOIN message ON message.id = request.message_id
WHERE request.session_id = ? AND request.state IN ('done', 'refused') AND message.hidden = 0 AND message.position > ?
ORDER BY request.id DESC LIMIT 1;

-- name: message_at
-- The message at a position.
SELECT id FROM message WHERE session_id = ? AND position = ?;

-- name: sort_id_of
-- The sort id of a message.
SELECT COALESCE(sort_id, id) FROM message WHERE id = ?;

-- name: place_of
SELECT position FROM message WHERE id = ?;

-- name: placed_before
-- What the model would see before a position, newest first.
SELECT id, position, turn, info, version FROM message
WHERE session_id = ? AND position < ? AND hidden = 0 ORDER BY position DESC LIMIT ?;

-- name: newest_promoted
-- The newest promoted input, which a turn answers; reminders are not inputs.
SELECT message.info, message.version FROM message CROSS JOIN input ON input.message_id = message.id
WHERE message.session_id = ? AND message.position IS NOT NULL ORDER BY message.position DESC LIMIT 1;

-- name: newest_format
-- The newest prompt of a turn that has an output format and no final answer; a step with calls is none.
SELECT message.info, message.version FROM input JOIN message ON message.id = input.message_id
WHERE input.session_id = ? AND input.turn = ? AND input.source = 'person' AND message.position IS NOT NULL
  AND instr(message.info, '"format":')
  AND (input.answer_id IS NULL OR EXISTS (SELECT 1 FROM message AS answer WHERE answer.id = input.answer_id AND instr(answer.info, '"finish":"tool-calls"')))
ORDER BY message.position DESC LIMIT 1;

-- name: positions
-- The positions of a session, for invariant checks.
SELECT position FROM message WHERE session_id = ? AND position IS NOT NULL ORDER BY position;

-- name: messages
-- The newest messages before a sort id, newest first: clients read them in the order of their ids.
SELECT id, info, version, COALESCE(sort_id, id) FROM message
WHERE session_id = ? AND COALESCE(sort_id, id) < ?
ORDER BY COALESCE(sort_id, id) DESC LIMIT ?;

-- name: page_parts
-- The parts of the messages from one sort id to another.
SELECT part.message_id, part.body, part.version FROM message INDEXED BY message_wire
JOIN part ON part.message_id = message.id
WHERE message.session_id = ? AND COALESCE(message.sort_id, message.id) >= ? AND COALESCE(message.sort_id, message.id) <= ?
ORDER BY COALESCE(message.sort_id, message.id), part.id;

-- name: message_parts
SELECT body, version FROM part WHERE message_id = ? ORDER BY id;

-- name: part
SELECT body, version, message_id FROM part WHERE id = ?;

-- name: put_part
-- Writes nothing over a part of another message, or one that a newer program wrote.
INSERT INTO part (id, message_id, session_id, body, version, rev) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET body = excluded.body, version = excluded.version, rev = excluded.rev
WHERE part.message_id = excluded.message_id AND part.version <= excluded.version;

-- name: remove_part
DELETE FROM part WHERE id = ?;

-- name: copied_messages
-- The messages before a sort id that people see, in the order of sort ids, with their positions.
SELECT id, position, info, version, COALESCE(sort_id, id) FROM message
WHERE session_id = ? AND COALESCE(sort_id, id) < ? AND hidden = 0
ORDER BY COALESCE(sort_id, id);

-- name: newest_system
-- The newest prompt of a turn that has a system text and no answer yet.
SELECT message.info, message.version FROM input JOIN message ON message.id = input.message_id
WHERE input.session_id = ? AND input.turn = ? AND input.source = 'person' AND message.position IS NOT NULL
  AND instr(message.info, '"system":')
  AND (input.answer_id IS NULL OR EXISTS (SELECT 1 FROM message AS answer WHERE answer.id = input.answer_id AND instr(answer.info, '"finish":"tool-calls"')))
ORDER BY message.position DESC LIMIT 1;
