-- name: sessions_after
-- Session ids for an export, a page at a time.
SELECT id FROM session WHERE id > $1 ORDER BY id LIMIT $2;

-- name: exported_session
-- tree: session 1
SELECT info, version, turn, in_turn, blocked_turn, steps, compacting, summary, tail, crowd, rev FROM session WHERE id = $1;

-- name: exported_messages
-- tree: session 1
-- Messages after a sort id, with their inputs.
SELECT message.id, message.info, message.version, message.position, message.turn, message.hidden,
       input.key, input.state, input.source, input.turn, input.answer_id,
       COALESCE(message.sort_id, message.id)
FROM message LEFT JOIN input ON input.message_id = message.id
WHERE message.session_id = $1 AND COALESCE(message.sort_id, message.id) > $2
ORDER BY COALESCE(message.sort_id, message.id) LIMIT $3;

-- name: exported_parts
-- tree: message 1
-- Parts with the calls that they show.
SELECT part.id, part.body, part.version, call.body, call.version
FROM part LEFT JOIN call ON call.part_id = part.id WHERE part.message_id = $1 ORDER BY part.id;

-- name: change_of_session
-- tree: session 1
-- The newest revision of a session and of its rows.
SELECT GREATEST((SELECT rev FROM session WHERE id = $1),
           COALESCE((SELECT MAX(rev) FROM message WHERE session_id = $1), 0),
           COALESCE((SELECT MAX(part.rev) FROM message JOIN part ON part.message_id = message.id
                     WHERE message.session_id = $1), 0),
           COALESCE((SELECT MAX(rev) FROM call WHERE session_id = $1), 0));

-- name: import_session
-- tree: session 3
INSERT INTO session (id, parent_id, root_id, depth, pool, state, wake_seq, fence, owner, turn, turn_rev, in_turn,
                     cancel_rev, blocked_turn, claims, positions, steps, compacting, summary, tail, status, info, version,
                     key, project_id, rev, crowd, directory, updated, folded, archived)
VALUES ($1, $2, $3, $4, $5, 'idle', 0, 0, NULL, $6, $7, $8, 0, $9, 0, $10, $11, $12, $13, $14, $15, $16, $17, NULL, $18, $19, $20, $21, $22, $23, $24)
ON CONFLICT (id) DO NOTHING;

-- name: import_part
-- tree: session 3
INSERT INTO part (id, message_id, session_id, body, version, rev) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING;

-- name: import_input
-- tree: session 2
INSERT INTO input (message_id, session_id, key, seq, state, source, turn, answer_id, rev)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: import_request
-- tree: session 2
-- Inserts a finished request for the last imported step, so that the history before it counts as final.
INSERT INTO request (id, session_id, message_id, turn, fence, attempt, state, tokens, estimated, started)
VALUES ($1, $2, $3, $4, 0, 1, 'done', $5, 0, $6);

-- name: is_message_of
-- tree: session 2
SELECT info, version FROM message WHERE id = $1 AND session_id = $2;

-- name: import_notice
-- tree: session 3
INSERT INTO notice (task_id, run, session_id, seq, state, open, message_id, body) VALUES ($1, $2, $3, $4, $5, $6, NULL, $7)
ON CONFLICT (task_id, run) DO NOTHING;

-- name: is_told
-- tree: session 1
-- Whether there is a notice for this run of a task, or for a later one.
SELECT 1 FROM notice WHERE task_id = $1 AND run >= $2 LIMIT 1;
