-- min_reader: 5
-- Sessions that work for sessions. A task is its child's session, over all its runs; a notice is the end of one run, for
-- whoever launched it.

CREATE TABLE task (
  id TEXT PRIMARY KEY,
  parent_id TEXT NOT NULL,
  batch TEXT NOT NULL,
  live INTEGER NOT NULL,
  crowd INTEGER NOT NULL,
  due INTEGER,
  body BLOB NOT NULL,
  version INTEGER NOT NULL,
  rev INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX task_parent ON task (parent_id, id);
CREATE INDEX task_live ON task (parent_id, live) WHERE live = 1;
CREATE INDEX task_batch ON task (batch);
CREATE INDEX task_due ON task (due) WHERE live = 1 AND due IS NOT NULL;
CREATE INDEX task_rev ON task (rev);

-- `state`: due (it wakes), quiet (it is told with whatever comes next), told, or consumed (a call carried the result). While
-- it is due or quiet it is open.
CREATE TABLE notice (
  task_id TEXT NOT NULL,
  run INTEGER NOT NULL,
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL,
  open INTEGER NOT NULL,
  message_id TEXT,
  body BLOB NOT NULL,
  PRIMARY KEY (task_id, run)
) WITHOUT ROWID;
CREATE INDEX notice_open ON notice (session_id, seq, open, state) WHERE open = 1;
CREATE INDEX notice_session ON notice (session_id);

-- Who of a tree works, and who waits for a place. The columns of a condition are in its index, or SQLite looks at each row to
-- be sure: that made a tree of 2,000 quadratic.
CREATE INDEX session_working ON session (root_id, state, depth) WHERE state = 'running' AND depth > 0;
CREATE INDEX session_queued ON session (root_id, id, state, depth) WHERE state = 'ready' AND depth > 0;

-- What calls are counted by.
ALTER TABLE call ADD COLUMN tool TEXT NOT NULL DEFAULT '';
