-- min_reader: 6
-- Calls whose result comes later, from outside. `pending`: waiting, processing, completed, failed or expired; NULL for all
-- other calls. Of one that is settled, `due` is when it was.

ALTER TABLE call ADD COLUMN pending TEXT;
-- Those that wait already.
UPDATE call SET pending = 'waiting', body = CAST(json_set(CAST(body AS TEXT), '$.later', json_object('due', due)) AS BLOB)
WHERE state = 'open'
  AND CASE WHEN json_valid(CAST(body AS TEXT)) THEN json_extract(CAST(body AS TEXT), '$.state.kind') = 'async' ELSE 0 END;
CREATE INDEX call_pending ON call (pending, id) WHERE pending IS NOT NULL;
CREATE INDEX call_pending_session ON call (session_id, pending, id) WHERE pending IS NOT NULL;
CREATE INDEX call_kept ON call (due, state, pending) WHERE state = 'settled' AND pending IS NOT NULL;

-- What results are signed with. The keys of this store, the newest first in use: a call's own secret is made of one of them and
-- its id. And secrets that somebody else issued for one call: in, for results that come; out, for what we send.
CREATE TABLE secret_key (id INTEGER PRIMARY KEY, key BLOB NOT NULL, created INTEGER NOT NULL);
CREATE TABLE call_secret (
  call_id TEXT NOT NULL,
  direction TEXT NOT NULL,
  session_id TEXT NOT NULL,
  secret TEXT NOT NULL,
  PRIMARY KEY (call_id, direction)
) WITHOUT ROWID;
CREATE INDEX call_secret_session ON call_secret (session_id);

-- What is posted when such a call is settled: owed until it was delivered, or given up (dead). Who posts it puts `next_at` off
-- first, so that nobody else does at the same time. `since`: when its tool started, and was told a secret. No session owns it.
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
CREATE UNIQUE INDEX delivery_call ON delivery (call_id);
CREATE INDEX delivery_owed ON delivery (next_at) WHERE state = 'owed';
CREATE INDEX delivery_host ON delivery (host, next_at) WHERE state = 'owed';
CREATE INDEX delivery_tree ON delivery (root_id, host, next_at) WHERE state = 'owed';
CREATE INDEX delivery_state ON delivery (state, id);
CREATE INDEX delivery_ended ON delivery (ended) WHERE state <> 'owed';
CREATE INDEX delivery_rev ON delivery (rev);
