-- name: approve
INSERT INTO approval (project_id, permission, pattern, at) VALUES (?, ?, ?, ?)
ON CONFLICT (project_id, permission, pattern) DO NOTHING;

-- name: approvals
SELECT permission, pattern FROM approval WHERE project_id = ? ORDER BY permission, pattern;

-- name: withdraw
DELETE FROM approval WHERE project_id = ?1 AND (?2 IS NULL OR permission = ?2);
