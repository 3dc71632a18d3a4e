CREATE INDEX answered_session ON answered (session_id);
CREATE INDEX arrival_rev ON arrival (rev);
CREATE UNIQUE INDEX call_ask ON call (ask_id) WHERE ask_id IS NOT NULL;
CREATE INDEX call_asks ON call (session_id, id) WHERE state = 'open' AND ask_id IS NOT NULL;
CREATE INDEX call_due ON call (due) WHERE state = 'open' AND due IS NOT NULL;
CREATE INDEX call_kept ON call (due, state, pending) WHERE state = 'settled' AND pending IS NOT NULL;
CREATE INDEX call_part ON call (part_id);
CREATE INDEX call_pending ON call (pending, id) WHERE pending IS NOT NULL;
CREATE INDEX call_pending_session ON call (session_id, pending, id) WHERE pending IS NOT NULL;
CREATE INDEX call_poll ON call (poll_at) WHERE poll_at IS NOT NULL;
CREATE INDEX call_rev ON call (rev);
CREATE INDEX call_secret_session ON call_secret (session_id);
CREATE INDEX call_session ON call (session_id, id);
CREATE INDEX call_shown ON call (session_id) WHERE shown_pending = 1;
CREATE INDEX call_unsettled ON call (session_id, id) WHERE state <> 'settled';
CREATE UNIQUE INDEX delivery_call ON delivery (call_id);
CREATE INDEX delivery_ended ON delivery (ended) WHERE state <> 'owed';
CREATE INDEX delivery_host ON delivery (host, next_at) WHERE state = 'owed';
CREATE INDEX delivery_owed ON delivery (next_at) WHERE state = 'owed';
CREATE INDEX delivery_rev ON delivery (rev);
CREATE INDEX delivery_state ON delivery (state, id);
CREATE INDEX delivery_tree ON delivery (root_id, host, next_at) WHERE state = 'owed';
CREATE INDEX external_session_sent ON external_session (sent) WHERE sent IS NOT NULL;
CREATE UNIQUE INDEX input_key ON input (session_id, key);
CREATE INDEX input_rev ON input (rev);
CREATE INDEX input_turn ON input (session_id, turn);
CREATE INDEX input_unread ON input (session_id, seq) WHERE state <> 'promoted';
CREATE UNIQUE INDEX message_place ON message (session_id, position) WHERE position IS NOT NULL;
CREATE INDEX message_rev ON message (rev);
CREATE INDEX message_wire ON message (session_id, COALESCE(sort_id, id));
CREATE INDEX notice_open ON notice (session_id, seq, open, state) WHERE open = 1;
CREATE INDEX notice_session ON notice (session_id);
CREATE INDEX part_message ON part (message_id, id);
CREATE INDEX part_rev ON part (rev);
CREATE INDEX request_backoff ON request (next_at) WHERE state = 'backoff';
CREATE INDEX request_open ON request (session_id) WHERE state = 'open';
CREATE INDEX request_session ON request (session_id);
CREATE INDEX session_active ON session (pool, id) WHERE state <> 'idle';
CREATE UNIQUE INDEX session_key ON session (key) WHERE key IS NOT NULL;
CREATE INDEX session_listed ON session (updated DESC, id, directory, parent_id, folded, archived);
CREATE INDEX session_parent ON session (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX session_project ON session (project_id, id);
CREATE INDEX session_queued ON session (root_id, id, state, depth) WHERE state = 'ready' AND depth > 0;
CREATE INDEX session_rev ON session (rev);
CREATE INDEX session_root ON session (root_id);
CREATE INDEX session_waiting ON session (id) WHERE status <> '{"type":"idle"}';
CREATE INDEX session_working ON session (root_id, state, depth) WHERE state = 'running' AND depth > 0;
CREATE INDEX task_agent ON task (agent, id DESC, status, kind);
CREATE INDEX task_batch ON task (batch);
CREATE INDEX task_due ON task (due) WHERE live = 1 AND due IS NOT NULL;
CREATE INDEX task_ended ON task (ended, id, kind) WHERE ended IS NOT NULL;
CREATE INDEX task_live ON task (parent_id, live) WHERE live = 1;
CREATE INDEX task_page ON task (kind, id DESC);
CREATE INDEX task_parent ON task (parent_id, id);
CREATE INDEX task_rev ON task (rev);
CREATE INDEX task_status ON task (status, id DESC, kind);
CREATE INDEX task_sums ON task (status, agent, created, ended, kind);
CREATE INDEX task_words ON task (id DESC, status, agent, folded, kind);
CREATE INDEX todo_rev ON todo (rev);
CREATE TABLE answered (
  ask_id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  reply BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE approval (
  project_id TEXT NOT NULL,
  permission TEXT NOT NULL,
  pattern TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (project_id, permission, pattern)
) WITHOUT ROWID;
CREATE TABLE arrival (
  session_id TEXT PRIMARY KEY,
  token TEXT NOT NULL,
  touched INTEGER NOT NULL,
  rev INTEGER NOT NULL
) WITHOUT ROWID;
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
, tool TEXT NOT NULL DEFAULT '', pending TEXT, poll_at INTEGER) WITHOUT ROWID;
CREATE TABLE call_secret (
  call_id TEXT NOT NULL,
  direction TEXT NOT NULL,
  session_id TEXT NOT NULL,
  secret TEXT NOT NULL,
  PRIMARY KEY (call_id, direction)
) WITHOUT ROWID;
CREATE TABLE cancel (
  session_id TEXT NOT NULL,
  rev INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (session_id, rev)
) WITHOUT ROWID;
CREATE TABLE delivery (
  id TEXT PRIMARY KEY,
  call_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  root_id TEXT NOT NULL,
  url TEXT NOT NULL,
  host TEXT NOT NULL,
  secret TEXT NOT NULL,
  since INTEGER NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  next_at INTEGER NOT NULL,
  created INTEGER NOT NULL,
  ended INTEGER,
  error TEXT NOT NULL,
  rev INTEGER NOT NULL,
  body BLOB NOT NULL
);
CREATE TABLE external_session (
  session_id TEXT PRIMARY KEY,
  external_id TEXT NOT NULL,
  sent INTEGER,
  body BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE idempotency (
  session_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  hash TEXT,
  PRIMARY KEY (session_id, kind, key)
) WITHOUT ROWID;
CREATE TABLE input (
  message_id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  key TEXT NOT NULL,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL,
  turn INTEGER,
  answer_id TEXT,
  rev INTEGER NOT NULL
, source TEXT NOT NULL DEFAULT 'person') WITHOUT ROWID;
CREATE TABLE mark (writer TEXT PRIMARY KEY, batch INTEGER NOT NULL, rev INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE message (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  position INTEGER,
  turn INTEGER,
  hidden INTEGER NOT NULL,
  info BLOB NOT NULL,
  version INTEGER NOT NULL,
  rev INTEGER NOT NULL
, sort_id TEXT) WITHOUT ROWID;
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
CREATE TABLE part (
  id TEXT PRIMARY KEY,
  message_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  body BLOB NOT NULL,
  version INTEGER NOT NULL,
  rev INTEGER NOT NULL
) WITHOUT ROWID;
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
, next_at INTEGER, failure TEXT, estimate BLOB) WITHOUT ROWID;
CREATE TABLE revision (id INTEGER PRIMARY KEY CHECK (id = 1), rev INTEGER NOT NULL, epoch TEXT NOT NULL, horizon INTEGER NOT NULL);
CREATE TABLE schema (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, min_reader INTEGER NOT NULL);
CREATE TABLE secret_key (id INTEGER PRIMARY KEY, key BLOB NOT NULL, created INTEGER NOT NULL);
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
, backoff TEXT, steps INTEGER NOT NULL DEFAULT 0, compacting INTEGER NOT NULL DEFAULT 0, summary INTEGER NOT NULL DEFAULT 0, tail INTEGER NOT NULL DEFAULT 0, trace TEXT, directory TEXT NOT NULL DEFAULT '', updated INTEGER NOT NULL DEFAULT 0, folded TEXT NOT NULL DEFAULT '', archived INTEGER, crowd INTEGER) WITHOUT ROWID;
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
, status TEXT NOT NULL DEFAULT '', agent TEXT NOT NULL DEFAULT '', folded TEXT NOT NULL DEFAULT '', created INTEGER NOT NULL DEFAULT 0, ended INTEGER, born INTEGER NOT NULL DEFAULT 1, done INTEGER NOT NULL DEFAULT 1, kind TEXT NOT NULL DEFAULT 'background', turned INTEGER NOT NULL DEFAULT 1) WITHOUT ROWID;
CREATE TABLE todo (
  session_id TEXT PRIMARY KEY,
  body BLOB NOT NULL,
  rev INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE tombstone (
  rev INTEGER NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (rev, kind, id)
) WITHOUT ROWID;
