-- name: messages_between
-- The messages from one sort id to another, both included.
SELECT id FROM message
WHERE session_id = ? AND COALESCE(sort_id, id) >= ?
  AND COALESCE(sort_id, id) <= ? ORDER BY COALESCE(sort_id, id);

-- name: last_sort_id
SELECT COALESCE(sort_id, id) FROM message WHERE session_id = ? ORDER BY COALESCE(sort_id, id) DESC LIMIT 1;

-- name: last_user_id
-- The newest user message up to a sort id.
SELECT id FROM message INDEXED BY message_wire
WHERE session_id = ? AND COALESCE(sort_id, id) <= ?
  AND instr(info, '"role":"user"') ORDER BY COALESCE(sort_id, id) DESC LIMIT 1;

-- name: part_ids
SELECT id FROM part WHERE message_id = ? ORDER BY id;

-- name: patches
-- The file patches of steps, from a sort id on.
SELECT part.body, part.version FROM message INDEXED BY message_wire JOIN part ON part.message_id = message.id
WHERE message.session_id = ? AND COALESCE(message.sort_id, message.id) >= ?
  AND instr(part.body, '"type":"patch"')
ORDER BY COALESCE(message.sort_id, message.id), part.id;

-- name: first_snapshot
-- The first snapshot of the steps from one sort id to another.
SELECT part.body, part.version FROM message INDEXED BY message_wire JOIN part ON part.message_id = message.id
WHERE message.session_id = ? AND COALESCE(message.sort_id, message.id) >= ?
  AND COALESCE(message.sort_id, message.id) <= ?
  AND instr(part.body, '"type":"step-start"') AND instr(part.body, '"snapshot":')
ORDER BY COALESCE(message.sort_id, message.id), part.id LIMIT 1;

-- name: last_snapshot
SELECT part.body, part.version FROM message INDEXED BY message_wire JOIN part ON part.message_id = message.id
WHERE message.session_id = ? AND COALESCE(message.sort_id, message.id) >= ?
  AND COALESCE(message.sort_id, message.id) <= ?
  AND instr(part.body, '"type":"step-finish"') AND instr(part.body, '"snapshot":')
ORDER BY COALESCE(message.sort_id, message.id) DESC, part.id DESC LIMIT 1;

-- name: undo_message
DELETE FROM message WHERE id = ?;

-- name: undo_parts
DELETE FROM part WHERE message_id = ? AND id >= ?;

-- name: undo_input
-- Keeps the row and its key, so that a repeat is not admitted again.
UPDATE input SET state = 'promoted', rev = ? WHERE message_id = ?;

-- name: last_summary
-- The newest completed summary before a position.
SELECT position, info, version FROM message
WHERE session_id = ? AND position < ? AND hidden = 0 AND instr(info, '"summary":true') ORDER BY position DESC LIMIT 1;

-- name: hush_task
-- Consumes the notices of a task.
UPDATE notice SET state = 'consumed', open = 0 WHERE task_id = ? AND open = 1;
