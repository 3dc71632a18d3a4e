-- name: lease
-- tree: session 1
-- The columns that tell whether a run still holds its claim.
SELECT fence, state FROM session WHERE id = $1;

-- name: lineage
-- tree: session 1
-- The columns that a child takes from its parent.
SELECT root_id, depth, pool FROM session WHERE id = $1;

-- name: session
-- tree: session 1
-- A session with its protocol columns, in the order of Control.
SELECT id, parent_id, root_id, depth, pool, state, wake_seq, fence, owner, turn, turn_rev, in_turn, cancel_rev,
       blocked_turn, claims, positions, backoff, steps, compacting, summary, tail, trace, status, info, version
FROM session WHERE id = $1;

-- name: outline
-- tree: session 1
-- The columns that describe a session that cannot be read.
SELECT parent_id, project_id, directory, updated FROM session WHERE id = $1;

-- name: set_aside
-- tree: session 3
-- Only for child sessions, and not for one that another owner runs.
UPDATE session SET state = 'idle', owner = NULL, fence = fence + 1, status = $1, rev = $2
WHERE id = $3 AND parent_id IS NOT NULL AND (state = 'ready' OR (state = 'running' AND owner = $4));

-- name: trace
-- tree: session 1
SELECT trace FROM session WHERE id = $1;

-- name: set_trace
-- tree: session 2
UPDATE session SET trace = $1 WHERE id = $2;

-- name: session_by_key
SELECT info, version FROM session WHERE key = $1;

-- name: insert_session
-- tree: session 3
INSERT INTO session (id, parent_id, root_id, depth, pool, state, wake_seq, fence, owner, turn, turn_rev, in_turn,
                     cancel_rev, blocked_turn, claims, positions, status, info, version, key, project_id, rev,
                     directory, updated, folded, archived)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26);

-- name: save_session
-- tree: session 21
UPDATE session SET state = $1, wake_seq = $2, fence = $3, owner = $4, turn = $5, turn_rev = $6, in_turn = $7, cancel_rev = $8,
                   blocked_turn = $9, claims = $10, positions = $11, backoff = $12, steps = $13, compacting = $14, summary = $15,
                   tail = $16, status = $17, info = $18, version = $19, rev = $20
WHERE id = $21;

-- name: begin_summed
-- tree: session 3
-- Sets the summary and the tail of a copied session.
UPDATE session SET summary = $1, tail = $2 WHERE id = $3;

-- name: list_session
-- tree: session 4
-- Writes the indexed columns of session lists, only when they change.
UPDATE session SET updated = $1, folded = $2, archived = $3 WHERE id = $4;

-- name: sessions_listed
-- Sessions, most recently used first, of one directory (?1), of one and all below it (?2), or of all. The index selects them;
-- only the rows of the page are read.
SELECT info, version FROM (
  SELECT id AS wanted, updated AS used FROM session
  WHERE updated >= $4 AND updated < $5
    AND ($1::text IS NULL OR directory = $1)
    AND ($2::text IS NULL OR directory = $2 OR (directory > $2 || '/' AND directory < $2 || '0'))
    AND (NOT $3::bool OR parent_id IS NULL) AND ($7::bool OR archived IS NULL) AND ($6 = '' OR position($6 in folded) > 0)
  ORDER BY updated DESC, id LIMIT $8
) AS chosen JOIN session ON session.id = wanted ORDER BY used DESC, wanted;

-- name: sessions_of_project
-- Newest first: session ids descend in time.
SELECT info, version FROM session WHERE project_id = $1 AND id > $2 ORDER BY id LIMIT $3;

-- name: roots_of_project
SELECT info, version FROM session WHERE project_id = $1 AND parent_id IS NULL AND id > $2 ORDER BY id LIMIT $3;

-- name: roots
-- Sessions of all projects without a parent.
SELECT info, version FROM session WHERE parent_id IS NULL AND id > $1 ORDER BY id LIMIT $2;

-- name: session_ids
-- Session ids at or after one id and before another.
SELECT id FROM session WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3;

-- name: children
-- tree: session 1
SELECT info, version FROM session WHERE parent_id = $1 ORDER BY id DESC;

-- name: statuses
SELECT id, status FROM session WHERE status <> '{"type":"idle"}' ORDER BY id;

-- name: tree_statuses
-- tree: session 1
-- Statuses of the sessions of a tree that are not idle.
SELECT id, status FROM session WHERE root_id = $1 AND status <> '{"type":"idle"}' ORDER BY id;

-- name: tree_at_work
-- tree: session 1
-- Sessions of a tree that are running, ready, wait for their next try, have an overdue call, or one for which an MCP server
-- works that asks no person.
SELECT id FROM session WHERE root_id = $1 AND (
  state <> 'idle' OR backoff IS NOT NULL OR EXISTS (
    SELECT 1 FROM call WHERE session_id = session.id AND state <> 'settled' AND state = 'open' AND (
      due <= $2 OR (poll_at IS NOT NULL AND (readable(body) -> 'state' -> 'question') IS NULL)
    )
  )
) ORDER BY id;

-- name: active_sessions
-- Sessions that are ready or running: the dispatcher decides which owners are alive. Sessions whose job is queued are left
-- out: the queue runs them.
SELECT id, state, owner FROM session WHERE pool = $1 AND state <> 'idle' AND id < $2 AND (state = 'running' OR NOT EXISTS (
  SELECT 1 FROM pgqueuer WHERE entrypoint = 'turn.' || session.pool AND payload = convert_to(session.id, 'UTF8')))
ORDER BY id DESC LIMIT $3;

-- name: sessions_with_work
-- Sessions that are ready or running, whoever runs them.
SELECT id FROM session WHERE pool = $1 AND state <> 'idle' ORDER BY id DESC LIMIT $2;

-- name: subtree
-- tree: session 1
WITH RECURSIVE tree (id, depth) AS (
  SELECT id, depth FROM session WHERE id = $1
  UNION ALL
  SELECT child.id, child.depth FROM session child JOIN tree ON child.parent_id = tree.id
)
SELECT id FROM tree ORDER BY depth, id;

-- name: insert_cancel
-- tree: session 1
INSERT INTO cancel (session_id, rev, at) VALUES ($1, $2, $3);

-- name: delete_session
-- tree: session 1
DELETE FROM session WHERE id = $1;

-- name: delete_messages
-- tree: session 1
DELETE FROM message WHERE session_id = $1;

-- name: delete_parts
-- tree: session 1
DELETE FROM part WHERE message_id IN (SELECT id FROM message WHERE session_id = $1);

-- name: delete_inputs
-- tree: session 1
DELETE FROM input WHERE session_id = $1;

-- name: delete_calls
-- tree: session 1
DELETE FROM call WHERE session_id = $1;

-- name: delete_requests
-- tree: session 1
DELETE FROM request WHERE session_id = $1;

-- name: delete_cancels
-- tree: session 1
DELETE FROM cancel WHERE session_id = $1;

-- name: insert_tombstone
INSERT INTO tombstone (rev, kind, id, body) VALUES ($1, $2, $3, $4);
