-- min_reader: 9
-- then: fold titles
-- Sessions as they are listed: the last used first, by where they are and what they are called. `folded`: the title without
-- case, its first 500 characters. What a message or a part was is told by a tombstone, which older programs would take for a session's.

ALTER TABLE session ADD COLUMN directory TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN updated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN folded TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN archived INTEGER;
-- Those that are there. SQLite folds ASCII only: the program does the others after this.
UPDATE session SET
  directory = COALESCE(CAST(info AS TEXT) ->> 'directory', ''),
  updated = COALESCE(CAST(info AS TEXT) ->> '$.time.updated', 0),
  folded = LOWER(SUBSTR(COALESCE(CAST(info AS TEXT) ->> 'title', ''), 1, 500)),
  archived = CAST(info AS TEXT) ->> '$.time.archived'
WHERE json_valid(CAST(info AS TEXT));
-- All that a list asks for: rows with their bodies are read for what is shown, no others.
CREATE INDEX session_listed ON session (updated DESC, id, directory, parent_id, folded, archived);
