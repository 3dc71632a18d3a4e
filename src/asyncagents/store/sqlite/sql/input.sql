-- name: input_by_key
SELECT message_id FROM input WHERE session_id = ? AND key = ?;

-- name: insert_input
INSERT INTO input (message_id, session_id, key, seq, state, source, turn, answer_id, rev)
VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, ?);

-- name: insert_promoted
-- Inserts input that is promoted at once, for a shell command of a person.
INSERT INTO input (message_id, session_id, key, seq, state, source, turn, answer_id, rev)
VALUES (?, ?, ?, ?, 'promoted', ?, ?, NULL, ?);

-- name: input
SELECT message_id, session_id, state, turn, answer_id FROM input WHERE message_id = ?;

-- name: count_inputs
-- Counts the inputs whose keys have a prefix.
SELECT COUNT(*) FROM input WHERE session_id = ?1 AND key >= ?2 AND key < ?2 || '~';

-- name: newest_prompt
-- The newest promoted prompt of a person.
SELECT message.id FROM message CROSS JOIN input ON input.message_id = message.id
WHERE message.session_id = ? AND message.position IS NOT NULL AND input.source = 'person'
ORDER BY message.position DESC LIMIT 1;

-- name: unread
-- Queued input, aborted input whose callers have no answer, due notices, the highest sort id,
-- and the queued input that needs an answer of its own.
SELECT COALESCE(SUM(state = 'queued'), 0), COALESCE(SUM(state = 'aborted' AND answer_id IS NULL), 0),
       (SELECT COUNT(*) FROM notice INDEXED BY notice_open WHERE session_id = ?1 AND open = 1 AND state = 'due'),
       MAX((SELECT COALESCE(message.sort_id, message.id) FROM message WHERE message.id = input.message_id)),
       COALESCE(SUM(state = 'queued' AND source <> 'system'), 0)
FROM input INDEXED BY input_unread WHERE session_id = ?1 AND state <> 'promoted';

-- name: unread_inputs
-- Unread inputs in the order of admission, with their messages.
SELECT input.message_id, message.info, message.version, input.state, input.answer_id, input.source
FROM input INDEXED BY input_unread JOIN message ON message.id = input.message_id
WHERE input.session_id = ? AND input.state <> 'promoted' ORDER BY input.seq, input.message_id;

-- name: newest_aborted
-- The newest input that an abort held back and whose callers have no answer.
SELECT message.info, message.version FROM input INDEXED BY input_unread JOIN message ON message.id = input.message_id
WHERE input.session_id = ? AND input.state <> 'promoted' AND input.state = 'aborted' AND input.answer_id IS NULL
ORDER BY input.seq DESC, input.message_id DESC LIMIT 1;

-- name: promote_input
-- One input by its id: updating while scanning the index costs four times as much.
UPDATE input SET state = 'promoted', turn = ?, rev = ? WHERE message_id = ?;

-- name: hold_inputs
-- Holds back unread input on an abort: it stays visible and wakes no session.
UPDATE input INDEXED BY input_unread SET state = 'aborted', rev = ?
WHERE session_id = ? AND state <> 'promoted' AND state = 'queued' RETURNING message_id;

-- name: answer_input
UPDATE input SET answer_id = ?, rev = ? WHERE message_id = ?;

-- name: unanswered
SELECT message_id FROM input WHERE session_id = ? AND turn = ? AND answer_id IS NULL;

-- name: answer_aborted
UPDATE input INDEXED BY input_unread SET answer_id = ?, rev = ?
WHERE session_id = ? AND state <> 'promoted' AND state = 'aborted' AND answer_id IS NULL RETURNING message_id;
