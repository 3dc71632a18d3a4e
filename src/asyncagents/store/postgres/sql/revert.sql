-- name: messages_between
-- tree: session 1
-- The messages from one sort id to another, both included.
SELECT id FROM message
WHERE session_id = $1 AND COALESCE(sort_id, id) >= $2
  AND COALESCE(sort_id, id) <= $3 ORDER BY COALESCE(sort_id, id);

-- name: last_sort_id
-- tree: session 1
SELECT COALESCE(sort_id, id) FROM message WHERE session_id = $1 ORDER BY COALESCE(sort_id, id) DESC LIMIT 1;

-- name: last_user_id
-- tree: session 1
-- The newest user message up to a sort id.
SELECT id FROM message
WHERE session_id = $1 AND COALESCE(sort_id, id) <= $2
  AND position('"role":"user"'::bytea in info) > 0 ORDER BY COALESCE(sort_id, id) DESC LIMIT 1;

-- name: part_ids
-- tree: message 1
SELECT id FROM part WHERE message_id = $1 ORDER BY id;

-- name: patches
-- tree: session 1
-- The file patches of steps, from a sort id on.
SELECT part.body, part.version FROM message JOIN part ON part.message_id = message.id
WHERE message.session_id = $1 AND COALESCE(message.sort_id, message.id) >= $2
  AND position('"type":"patch"'::bytea in part.body) > 0
ORDER BY COALESCE(message.sort_id, message.id), part.id;

-- name: first_snapshot
-- tree: session 1
-- The first snapshot of the steps from one sort id to another.
SELECT part.body, part.version FROM message JOIN part ON part.message_id = message.id
WHERE message.session_id = $1 AND COALESCE(message.sort_id, message.id) >= $2
  AND COALESCE(message.sort_id, message.id) <= $3
  AND position('"type":"step-start"'::bytea in part.body) > 0 AND position('"snapshot":'::bytea in part.body) > 0
ORDER BY COALESCE(message.sort_id, message.id), part.id LIMIT 1;

-- name: last_snapshot
-- tree: session 1
SELECT part.body, part.version FROM message JOIN part ON part.message_id = message.id
WHERE message.session_id = $1 AND COALESCE(message.sort_id, message.id) >= $2
  AND COALESCE(message.sort_id, message.id) <= $3
  AND position('"type":"step-finish"'::bytea in part.body) > 0 AND position('"snapshot":'::bytea in part.body) > 0
ORDER BY COALESCE(message.sort_id, message.id) DESC, part.id DESC LIMIT 1;

-- name: undo_message
-- tree: message 1
DELETE FROM message WHERE id = $1;

-- name: undo_parts
-- tree: message 1
DELETE FROM part WHERE message_id = $1 AND id >= $2;

-- name: undo_input
-- tree: message 2
-- Keeps the row and its key, so that a repeat is not admitted again.
UPDATE input SET state = 'promoted', rev = $1 WHERE message_id = $2;

-- name: last_summary
-- tree: session 1
-- The newest completed summary before a position.
SELECT position, info, version FROM message
WHERE session_id = $1 AND position < $2 AND hidden = 0 AND position('"summary":true'::bytea in info) > 0 ORDER BY position DESC LIMIT 1;

-- name: hush_task
-- tree: session 1
-- Consumes the notices of a task.
UPDATE notice SET state = 'consumed', open = 0 WHERE task_id = $1 AND open = 1;
