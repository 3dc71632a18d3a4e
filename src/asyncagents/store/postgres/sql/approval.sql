-- name: approve
INSERT INTO approval (project_id, permission, pattern, at) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING;

-- name: approvals
SELECT permission, pattern FROM approval WHERE project_id = $1 ORDER BY permission, pattern;

-- name: withdraw
DELETE FROM approval WHERE project_id = $1 AND ($2::text IS NULL OR permission = $2);
