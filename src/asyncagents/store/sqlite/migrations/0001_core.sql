-- min_reader: 1
-- Sessions, messages and parts are the JSON that clients read, with the columns that queries need.
-- The other tables are the engine's own. `rev` is the revision that last changed a row.

CREATE TABLE revision (id INTEGER PRIMARY KEY CHECK (id = 1), rev INTEGER NOT NULL, epoch TEXT NOT NULL, horizon INTEGER NOT NULL);

CREATE TABLE session (
  id TEXT PRIMARY KEY,
  parent_id TEXT,
  root_id TEXT NOT NULL,
  depth INTEGER NOT NULL,
  pool TEXT NOT NULL,
  state TEXT NOT NULL,
  wake_seq INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  owner TEXT,
  turn INTEGER NOT NULL,
  turn_rev INTEGER NOT NULL,
  in_turn INTEGER NOT NULL,
  cancel_rev INTEGER NOT NULL,
  blocked_turn INTEGER NOT NULL,
  claims INTEGER NOT NULL,
  positions INTEGER NOT NULL,
  status TEXT NOT NULL,
  info BLOB NOT NULL,
  version INTEGER NOT NULL,
  key TEXT,
  project_id TEXT NOT NULL,
  rev INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX session_key ON session (key) WHERE key IS NOT NULL;
CREATE INDEX session_active ON session (pool, id) WHERE state <> 'idle';
CREATE INDEX session_waiting ON session (id) WHERE status <> '{"type":"idle"}';
CREATE INDEX session_parent ON session (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX session_project ON session (project_id, id);
CREATE INDEX session_rev ON session (rev);

CREATE TABLE message (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  position INTEGER,
  turn INTEGER,
  hidden INTEGER NOT NULL,
  info BLOB NOT NULL,
  version INTEGER NOT NULL,
  rev INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX message_wire ON message (session_id, id);
CREATE UNIQUE INDEX message_place ON message (session_id, position) WHERE position IS NOT NULL;
CREATE INDEX message_rev ON message (rev);

CREATE TABLE part (
  id TEXT PRIMARY KEY,
  message_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  body BLOB NOT NULL,
  version INTEGER NOT NULL,
  rev INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX part_message ON part (message_id, id);
CREATE INDEX part_rev ON part (rev);

-- The inbox. `seq` is the order of admission; `answer_id` the message that answered it.
CREATE TABLE input (
  message_id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  key TEXT NOT NULL,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL,
  turn INTEGER,
  answer_id TEXT,
  rev INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX input_key ON input (session_id, key);
CREATE INDEX input_unread ON input (session_id, seq) WHERE state <> 'promoted';
CREATE INDEX input_unanswered ON input (session_id, turn) WHERE answer_id IS NULL;
CREATE INDEX input_rev ON input (rev);

CREATE TABLE call (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  part_id TEXT NOT NULL,
  ask_id TEXT,
  state TEXT NOT NULL,
  due INTEGER,
  shown_pending INTEGER NOT NULL,
  body BLOB NOT NULL,
  version INTEGER NOT NULL,
  rev INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX call_unsettled ON call (session_id, id) WHERE state <> 'settled';
CREATE INDEX call_shown ON call (session_id) WHERE shown_pending = 1;
CREATE INDEX call_session ON call (session_id, id);
CREATE INDEX call_due ON call (due) WHERE state = 'open' AND due IS NOT NULL;
CREATE UNIQUE INDEX call_ask ON call (ask_id) WHERE ask_id IS NOT NULL;
CREATE INDEX call_rev ON call (rev);

-- A model request: written before it is sent, so that a crash cannot hide what was spent.
CREATE TABLE request (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  turn INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  state TEXT NOT NULL,
  tokens BLOB NOT NULL,
  estimated INTEGER NOT NULL,
  started INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX request_open ON request (session_id) WHERE state = 'open';
CREATE INDEX request_session ON request (session_id);

CREATE TABLE cancel (
  session_id TEXT NOT NULL,
  rev INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (session_id, rev)
) WITHOUT ROWID;

-- What was deleted, so that a reader who was away learns of it.
CREATE TABLE tombstone (
  rev INTEGER NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (rev, kind, id)
) WITHOUT ROWID;

-- The last batch of each writer that is there.
CREATE TABLE mark (writer TEXT PRIMARY KEY, batch INTEGER NOT NULL, rev INTEGER NOT NULL) WITHOUT ROWID;
