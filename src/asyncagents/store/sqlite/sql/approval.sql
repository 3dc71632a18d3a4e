-- name: approve
INSERT INTO approval (project_id, permission, pattern, at) VALUES (?, ?, ?, ?)
ON CONFLICT (project_id, permission, pattern) DO NOTHING;

-- name: approvals
SELECT permission, pattern FROM approval WHERE project_id = ? ORDER BY permission, pattern;

-- name: withdraw
DELETE FROM approval WHERE project_id = ?1 AND (?2 IS NULL OR permission = ?2);

-- name: approval_rows
-- Approvals, newest first, each with a directory of its project.
SELECT project_id, permission, pattern, at,
       (SELECT directory FROM session WHERE session.project_id = approval.project_id ORDER BY id LIMIT 1)
FROM approval WHERE ?1 IS NULL OR project_id = ?1
ORDER BY at DESC, project_id, permission, pattern LIMIT ?2;

-- name: approvals_at
SELECT project_id, permission, pattern FROM approval WHERE at = ?;

-- name: withdraw_one
DELETE FROM approval WHERE project_id = ? AND permission = ? AND pattern = ?;
