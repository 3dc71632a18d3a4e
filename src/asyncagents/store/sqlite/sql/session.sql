-- name: save_rev
-- Writes the last revision of a batch, once per batch.
UPDATE revision SET rev = ? WHERE id = 1;

-- name: lease
-- The columns that tell whether a run still holds its claim.
SELECT fence, state FROM session WHERE id = ?;

-- name: lineage
-- The columns that a child takes from its parent.
SELECT root_id, depth, pool FROM session WHERE id = ?;

-- name: session
-- A session with its protocol columns, in the order of Control.
SELECT id, parent_id, root_id, depth, pool, state, wake_seq, fence, owner, turn, turn_rev, in_turn, cancel_rev,
       blocked_turn, claims, positions, backoff, steps, compacting, summary, tail, trace, status, info, version
FROM session WHERE id = ?;

-- name: outline
-- The columns that describe a session that cannot be read.
SELECT parent_id, project_id, directory, updated FROM session WHERE id = ?;

-- name: set_aside
-- Only for child sessions, and not for one that another owner runs.
UPDATE session SET state = 'idle', owner = NULL, fence = fence + 1, status = ?, rev = ?
WHERE id = ? AND parent_id IS NOT NULL AND (state = 'ready' OR (state = 'running' AND owner = ?));

-- name: trace
SELECT trace FROM session WHERE id = ?;

-- name: set_trace
UPDATE session SET trace = ? WHERE id = ?;

-- name: session_by_key
SELECT info, version FROM session WHERE key = ?;

-- name: insert_session
INSERT INTO session (id, parent_id, root_id, depth, pool, state, wake_seq, fence, owner, turn, turn_rev, in_turn,
                     cancel_rev, blocked_turn, claims, positions, status, info, version, key, project_id, rev,
                     directory, updated, folded, archived)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: save_session
UPDATE session SET state = ?, wake_seq = ?, fence = ?, owner = ?, turn = ?, turn_rev = ?, in_turn = ?, cancel_rev = ?,
                   blocked_turn = ?, claims = ?, positions = ?, backoff = ?, steps = ?, compacting = ?, summary = ?,
                   tail = ?, status = ?, info = ?, version = ?, rev = ?
WHERE id = ?;

-- name: begin_summed
-- Sets the summary and the tail of a copied session.
UPDATE session SET summary = ?, tail = ? WHERE id = ?;

-- name: list_session
-- Writes the indexed columns of session lists, only when they change.
UPDATE session SET updated = ?, folded = ?, archived = ? WHERE id = ?;

-- name: sessions_listed
-- Sessions, most recently used first, of one directory (?1), of one and all below it (?2), or of all. The index selects them;
-- only the rows of the page are read.
SELECT info, version FROM (
  SELECT id AS wanted, updated AS used FROM session INDEXED BY session_listed
  WHERE updated >= ?4 AND updated < ?5
    AND (?1 IS NULL OR directory = ?1)
    AND (?2 IS NULL OR directory = ?2 OR (directory > ?2 || '/' AND directory < ?2 || '0'))
    AND (NOT ?3 OR parent_id IS NULL) AND (?7 OR archived IS NULL) AND (?6 = '' OR instr(folded, ?6))
  ORDER BY updated DESC, id LIMIT ?8
) CROSS JOIN session ON session.id = wanted ORDER BY used DESC, wanted;

-- name: sessions_of_project
-- Newest first: session ids descend in time.
SELECT info, version FROM session WHERE project_id = ? AND id > ? ORDER BY id LIMIT ?;

-- name: roots_of_project
SELECT info, version FROM session WHERE project_id = ? AND parent_id IS NULL AND id > ? ORDER BY id LIMIT ?;

-- name: roots
-- Sessions of all projects without a parent.
SELECT info, version FROM session WHERE parent_id IS NULL AND id > ? ORDER BY id LIMIT ?;

-- name: session_ids
-- Session ids at or after one id and before another.
SELECT id FROM session WHERE id >= ? AND id < ? ORDER BY id LIMIT ?;

-- name: children
SELECT info, version FROM session WHERE parent_id = ? ORDER BY id DESC;

-- name: statuses
SELECT id, status FROM session WHERE status <> '{"type":"idle"}' ORDER BY id;

-- name: tree_statuses
-- Statuses of the sessions of a tree that are not idle.
SELECT id, status FROM session WHERE root_id = ? AND status <> '{"type":"idle"}' ORDER BY id;

-- name: tree_at_work
-- Sessions of a tree that are running, ready, wait for their next try, have an overdue call, or one for which an MCP server
-- works that asks no person.
SELECT id FROM session WHERE root_id = ? AND (
  state <> 'idle' OR backoff IS NOT NULL OR EXISTS (
    SELECT 1 FROM call WHERE session_id = session.id AND state <> 'settled' AND state = 'open' AND (
      due <= ? OR (poll_at IS NOT NULL AND json_valid(CAST(body AS TEXT)) AND CAST(body AS TEXT) ->> '$.state.question' IS NULL)
    )
  )
) ORDER BY id;

-- name: active_sessions
-- Sessions that are ready or running: the dispatcher decides which owners are alive.
SELECT id, state, owner FROM session WHERE pool = ? AND state <> 'idle' AND id < ? ORDER BY id DESC LIMIT ?;

-- name: sessions_with_work
-- Sessions that are ready or running, whoever runs them.
SELECT id FROM session WHERE pool = ? AND state <> 'idle' ORDER BY id DESC LIMIT ?;

-- name: subtree
WITH RECURSIVE tree (id, depth) AS (
  SELECT id, depth FROM session WHERE id = ?
  UNION ALL
  SELECT child.id, child.depth FROM session child JOIN tree ON child.parent_id = tree.id
)
SELECT id FROM tree ORDER BY depth, id;

-- name: insert_cancel
INSERT INTO cancel (session_id, rev, at) VALUES (?, ?, ?);

-- name: delete_session
DELETE FROM session WHERE id = ?;

-- name: delete_messages
DELETE FROM message WHERE session_id = ?;

-- name: delete_parts
DELETE FROM part WHERE message_id IN (SELECT id FROM message WHERE session_id = ?);

-- name: delete_inputs
DELETE FROM input WHERE session_id = ?;

-- name: delete_calls
DELETE FROM call WHERE session_id = ?;

-- name: delete_requests
DELETE FROM request WHERE session_id = ?;

-- name: delete_cancels
DELETE FROM cancel WHERE session_id = ?;

-- name: insert_tombstone
INSERT INTO tombstone (rev, kind, id, body) VALUES (?, ?, ?, ?);
