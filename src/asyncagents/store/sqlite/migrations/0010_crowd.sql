-- min_reader: 9
-- How many sessions of its tree may work at once, of a session whose task was cleared; a task says it itself. NULL: no session
-- launched it, so it waits for no place.
ALTER TABLE session ADD COLUMN crowd INTEGER;
-- Those that were cleared before: as the others of their tree, or as the default of `delegation.concurrent`.
UPDATE session SET crowd = 20
WHERE depth > 0 AND id IN (SELECT id FROM tombstone WHERE kind = 'task')
  AND NOT EXISTS (SELECT 1 FROM task WHERE task.id = session.id);
UPDATE session SET crowd = known.crowd
FROM (SELECT session.root_id, MAX(task.crowd) AS crowd FROM session JOIN task ON task.id = session.id GROUP BY session.root_id) AS known
WHERE known.root_id = session.root_id AND session.crowd IS NOT NULL AND known.crowd IS NOT NULL;
