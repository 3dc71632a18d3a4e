-- min_reader: 3
-- A session's todos: one row, replaced whole.

CREATE TABLE todo (
  session_id TEXT PRIMARY KEY,
  body BLOB NOT NULL,
  rev INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX todo_rev ON todo (rev);
