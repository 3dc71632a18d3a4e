-- name: input_by_key
-- tree: session 1
SELECT message_id FROM input WHERE session_id = $1 AND key = $2;

-- name: insert_input
-- tree: session 2
INSERT INTO input (message_id, session_id, key, seq, state, source, turn, answer_id, rev)
VALUES ($1, $2, $3, $4, $5, $6, NULL, NULL, $7);

-- name: insert_promoted
-- tree: session 2
-- Inserts input that is promoted at once, for a shell command of a person.
INSERT INTO input (message_id, session_id, key, seq, state, source, turn, answer_id, rev)
VALUES ($1, $2, $3, $4, 'promoted', $5, $6, NULL, $7);

-- name: input
-- tree: message 1
SELECT message_id, session_id, state, turn, answer_id FROM input WHERE message_id = $1;

-- name: count_inputs
-- tree: session 1
-- Counts the inputs whose keys have a prefix.
SELECT COUNT(*) FROM input WHERE session_id = $1 AND key >= $2 AND key < $2 || '~';

-- name: newest_prompt
-- tree: session 1
-- The newest promoted prompt of a person.
SELECT message.id FROM message JOIN input ON input.message_id = message.id
WHERE message.session_id = $1 AND message.position IS NOT NULL AND input.source = 'person'
ORDER BY message.position DESC LIMIT 1;

-- name: unread
-- tree: session 1
-- Queued input, aborted input whose callers have no answer, due notices, the highest sort id,
-- and the queued input that needs an answer of its own.
SELECT COUNT(*) FILTER (WHERE state = 'queued'), COUNT(*) FILTER (WHERE state = 'aborted' AND answer_id IS NULL),
       (SELECT COUNT(*) FROM notice WHERE session_id = $1 AND open = 1 AND state = 'due'),
       MAX((SELECT COALESCE(message.sort_id, message.id) FROM message WHERE message.id = input.message_id)),
       COUNT(*) FILTER (WHERE state = 'queued' AND source <> 'system')
FROM input WHERE session_id = $1 AND state <> 'promoted';

-- name: unread_inputs
-- tree: session 1
-- Unread inputs in the order of admission, with their messages.
SELECT input.message_id, message.info, message.version, input.state, input.answer_id, input.source
FROM input JOIN message ON message.id = input.message_id
WHERE input.session_id = $1 AND input.state <> 'promoted' ORDER BY input.seq, input.message_id;

-- name: newest_aborted
-- tree: session 1
-- The newest input that an abort held back and whose callers have no answer.
SELECT message.info, message.version FROM input JOIN message ON message.id = input.message_id
WHERE input.session_id = $1 AND input.state <> 'promoted' AND input.state = 'aborted' AND input.answer_id IS NULL
ORDER BY input.seq DESC, input.message_id DESC LIMIT 1;

-- name: promote_input
-- tree: message 3
-- One input by its id: updating while scanning the index costs four times as much.
UPDATE input SET state = 'promoted', turn = $1, rev = $2 WHERE message_id = $3;

-- name: hold_inputs
-- tree: session 2
-- Holds back unread input on an abort: it stays visible and wakes no session.
UPDATE input SET state = 'aborted', rev = $1
WHERE session_id = $2 AND state <> 'promoted' AND state = 'queued' RETURNING message_id;

-- name: answer_input
-- tree: message 3
UPDATE input SET answer_id = $1, rev = $2 WHERE message_id = $3;

-- name: unanswered
-- tree: session 1
SELECT message_id FROM input WHERE session_id = $1 AND turn = $2 AND answer_id IS NULL ORDER BY message_id;

-- name: answer_aborted
-- tree: session 3
WITH answered AS (
  UPDATE input SET answer_id = $1, rev = $2
  WHERE session_id = $3 AND state <> 'promoted' AND state = 'aborted' AND answer_id IS NULL RETURNING message_id
)
SELECT message_id FROM answered ORDER BY message_id;
