-- name: mark
-- Written with every batch, so that a COMMIT whose answer was lost can be told from one that failed.
INSERT INTO mark (writer, batch, rev) VALUES (?, ?, ?)
ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, rev = excluded.rev;

-- name: marked
SELECT batch FROM mark WHERE writer = ?;

-- name: forget_marks
DELETE FROM mark WHERE rev < ?;
