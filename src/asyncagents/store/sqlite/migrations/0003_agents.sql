-- min_reader: 3
-- A session's todos: one row, replaced whole. What was approved for good, by project. Steps of a turn.

CREATE TABLE todo (
  session_id TEXT PRIMARY KEY,
  body BLOB NOT NULL,
  rev INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX todo_rev ON todo (rev);

CREATE TABLE approval (
  project_id TEXT NOT NULL,
  permission TEXT NOT NULL,
  pattern TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (project_id, permission, pattern)
) WITHOUT ROWID;

ALTER TABLE session ADD COLUMN steps INTEGER NOT NULL DEFAULT 0;
-- Who it comes from: a person, or the system.
ALTER TABLE input ADD COLUMN source TEXT NOT NULL DEFAULT 'person';

-- Earlier asks of calls that asked again: how each was answered.
CREATE TABLE answered (
  ask_id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  reply BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX answered_session ON answered (session_id);

-- Asks and questions that wait for a person, of whatever session.
CREATE INDEX call_asks ON call (session_id, id) WHERE state = 'open' AND ask_id IS NOT NULL;
