-- name: sessions_after
-- Session ids for an export, a page at a time.
SELECT id FROM session WHERE id > ? ORDER BY id LIMIT ?;

-- name: exported_session
SELECT info, version, turn, in_turn, blocked_turn, steps, compacting, summary, tail, crowd, rev FROM session WHERE id = ?;

-- name: exported_messages
-- Messages after a sort id, with their inputs.
SELECT message.id, message.info, message.version, message.position, message.turn, message.hidden,
       input.key, input.state, input.source, input.turn, input.answer_id,
       COALESCE(message.sort_id, message.id)
FROM message LEFT JOIN input ON input.message_id = message.id
WHERE message.session_id = ? AND COALESCE(message.sort_id, message.id) > ?
ORDER BY COALESCE(message.sort_id, message.id) LIMIT ?;

-- name: exported_parts
-- Parts with the calls that they show.
SELECT part.id, part.body, part.version, call.body, call.version
FROM part LEFT JOIN call ON call.part_id = part.id WHERE part.message_id = ? ORDER BY part.id;

-- name: change_of_session
-- The newest revision of a session and of its rows.
SELECT MAX((SELECT rev FROM session WHERE id = ?1),
           COALESCE((SELECT MAX(rev) FROM message WHERE session_id = ?1), 0),
           COALESCE((SELECT MAX(part.rev) FROM message JOIN part ON part.message_id = message.id
                     WHERE message.session_id = ?1), 0),
           COALESCE((SELECT MAX(rev) FROM call WHERE session_id = ?1), 0));

-- name: import_session
INSERT INTO session (id, parent_id, root_id, depth, pool, state, wake_seq, fence, owner, turn, turn_rev, in_turn,
                     cancel_rev, blocked_turn, claims, positions, steps, compacting, summary, tail, status, info, version,
                     key, project_id, rev, crowd, directory, updated, folded, archived)
VALUES (?, ?, ?, ?, ?, 'idle', 0, 0, NULL, ?, ?, ?, 0, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: import_part
INSERT INTO part (id, message_id, session_id, body, version, rev) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING;

-- name: import_input
INSERT INTO input (message_id, session_id, key, seq, state, source, turn, answer_id, rev)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: import_request
-- Inserts a finished request for the last imported step, so that the history before it counts as final.
INSERT INTO request (id, session_id, message_id, turn, fence, attempt, state, tokens, estimated, started)
VALUES (?, ?, ?, ?, 0, 1, 'done', ?, 0, ?);

-- name: is_message_of
SELECT info, version FROM message WHERE id = ? AND session_id = ?;

-- name: import_notice
INSERT INTO notice (task_id, run, session_id, seq, state, open, message_id, body) VALUES (?, ?, ?, ?, ?, ?, NULL, ?)
ON CONFLICT (task_id, run) DO NOTHING;

-- name: is_told
-- Whether there is a notice for this run of a task, or for a later one.
SELECT 1 FROM notice WHERE task_id = ? AND run >= ? LIMIT 1;
