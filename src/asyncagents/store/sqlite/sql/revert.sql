-- name: messages_between
-- From one id to another, both included.
SELECT id FROM message WHERE session_id = ? AND id >= ? AND id <= ? ORDER BY id;

-- name: last_message_id
SELECT id FROM message WHERE session_id = ? ORDER BY id DESC LIMIT 1;

-- name: last_user_id
-- What was said to the model last, up to a message.
SELECT id FROM message INDEXED BY message_wire
WHERE session_id = ? AND id <= ? AND instr(info, '"role":"user"') ORDER BY id DESC LIMIT 1;

-- name: part_ids
SELECT id FROM part WHERE message_id = ? ORDER BY id;

-- name: patches
-- What steps changed, from a message on.
SELECT part.body, part.version FROM message INDEXED BY message_wire JOIN part ON part.message_id = message.id
WHERE message.session_id = ? AND message.id >= ? AND instr(part.body, '"type":"patch"') ORDER BY message.id, part.id;

-- name: first_snapshot
-- Of the steps from one message to another.
SELECT part.body, part.version FROM message INDEXED BY message_wire JOIN part ON part.message_id = message.id
WHERE message.session_id = ? AND message.id >= ? AND message.id <= ?
  AND instr(part.body, '"type":"step-start"') AND instr(part.body, '"snapshot":') ORDER BY message.id, part.id LIMIT 1;

-- name: last_snapshot
SELECT part.body, part.version FROM message INDEXED BY message_wire JOIN part ON part.message_id = message.id
WHERE message.session_id = ? AND message.id >= ? AND message.id <= ?
  AND instr(part.body, '"type":"step-finish"') AND instr(part.body, '"snapshot":') ORDER BY message.id DESC, part.id DESC LIMIT 1;

-- name: undo_message
DELETE FROM message WHERE id = ?;

-- name: undo_parts
DELETE FROM part WHERE message_id = ? AND id >= ?;

-- name: undo_input
-- Its key stays known: sent again, it is not said again.
UPDATE input SET state = 'promoted', rev = ? WHERE message_id = ?;

-- name: last_summary
-- The newest one that is written, up to a place, and the message that asked for it.
SELECT position, info, version FROM message
WHERE session_id = ? AND position < ? AND hidden = 0 AND instr(info, '"summary":true') ORDER BY position DESC LIMIT 1;

-- name: hush_task
-- Nobody is told of its ends any more.
UPDATE notice SET state = 'consumed', open = 0 WHERE task_id = ? AND open = 1;
