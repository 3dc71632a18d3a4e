-- min_reader: 1
-- Everything that a file of SQLite has at its ninth schema. Texts are compared byte by byte (COLLATE "C"): ids sort by time.
-- `rev` is the transaction that last changed a row, counted from `base`: a reader takes what lies below the oldest that is
-- still under way, and so misses nothing that commits late.

CREATE TABLE revision (
  id INT PRIMARY KEY CHECK (id = 1),
  base BIGINT NOT NULL,
  epoch TEXT NOT NULL,
  horizon BIGINT NOT NULL,
  cluster TEXT NOT NULL
);

CREATE TABLE session (
  id TEXT COLLATE "C" PRIMARY KEY,
  parent_id TEXT COLLATE "C",
  root_id TEXT COLLATE "C" NOT NULL,
  depth INT NOT NULL,
  pool TEXT COLLATE "C" NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  wake_seq BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  owner TEXT COLLATE "C",
  turn BIGINT NOT NULL,
  turn_rev BIGINT NOT NULL,
  in_turn INT NOT NULL,
  cancel_rev BIGINT NOT NULL,
  blocked_turn BIGINT NOT NULL,
  claims BIGINT NOT NULL,
  positions BIGINT NOT NULL,
  status TEXT COLLATE "C" NOT NULL,
  info BYTEA NOT NULL,
  version INT NOT NULL,
  key TEXT COLLATE "C",
  project_id TEXT COLLATE "C" NOT NULL,
  rev BIGINT NOT NULL,
  backoff TEXT COLLATE "C",
  steps BIGINT NOT NULL DEFAULT 0,
  compacting BIGINT NOT NULL DEFAULT 0,
  summary BIGINT NOT NULL DEFAULT 0,
  tail BIGINT NOT NULL DEFAULT 0,
  trace TEXT COLLATE "C",
  directory TEXT COLLATE "C" NOT NULL DEFAULT '',
  updated BIGINT NOT NULL DEFAULT 0,
  folded TEXT COLLATE "C" NOT NULL DEFAULT '',
  archived BIGINT
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX session_key ON session (key) WHERE key IS NOT NULL;
CREATE INDEX session_active ON session (pool, id) WHERE state <> 'idle';
CREATE INDEX session_busy ON session (project_id) WHERE state <> 'idle';
CREATE INDEX session_owned ON session (owner) WHERE owner IS NOT NULL;
CREATE INDEX session_waiting ON session (id) WHERE status <> '{"type":"idle"}';
CREATE INDEX session_parent ON session (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX session_project ON session (project_id, id);
CREATE INDEX session_rev ON session (rev);
CREATE INDEX session_root ON session (root_id);
CREATE INDEX session_working ON session (root_id) WHERE state = 'running' AND depth > 0;
CREATE INDEX session_queued ON session (root_id, id) WHERE state = 'ready' AND depth > 0;
CREATE INDEX session_listed ON session (updated DESC, id);

CREATE TABLE message (
  id TEXT COLLATE "C" PRIMARY KEY,
  session_id TEXT COLLATE "C" NOT NULL,
  position BIGINT,
  turn BIGINT,
  hidden INT NOT NULL,
  info BYTEA NOT NULL,
  version INT NOT NULL,
  rev BIGINT NOT NULL
);
CREATE INDEX message_wire ON message (session_id, id);
CREATE UNIQUE INDEX message_place ON message (session_id, position) WHERE position IS NOT NULL;
CREATE INDEX message_rev ON message (rev);

CREATE TABLE part (
  id TEXT COLLATE "C" PRIMARY KEY,
  message_id TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  body BYTEA NOT NULL,
  version INT NOT NULL,
  rev BIGINT NOT NULL
);
CREATE INDEX part_message ON part (message_id, id);
CREATE INDEX part_rev ON part (rev);

-- The inbox. `seq` is the order of admission; `answer_id` the message that answered it.
CREATE TABLE input (
  message_id TEXT COLLATE "C" PRIMARY KEY,
  session_id TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  turn BIGINT,
  answer_id TEXT COLLATE "C",
  rev BIGINT NOT NULL,
  source TEXT COLLATE "C" NOT NULL DEFAULT 'person'
);
CREATE UNIQUE INDEX input_key ON input (session_id, key);
CREATE INDEX input_unread ON input (session_id, seq) WHERE state <> 'promoted';
CREATE INDEX input_turn ON input (session_id, turn);
CREATE INDEX input_rev ON input (rev);

CREATE TABLE call (
  id TEXT COLLATE "C" PRIMARY KEY,
  session_id TEXT COLLATE "C" NOT NULL,
  part_id TEXT COLLATE "C" NOT NULL,
  ask_id TEXT COLLATE "C",
  tool TEXT COLLATE "C" NOT NULL DEFAULT '',
  state TEXT COLLATE "C" NOT NULL,
  due BIGINT,
  shown_pending INT NOT NULL,
  pending TEXT COLLATE "C",
  body BYTEA NOT NULL,
  version INT NOT NULL,
  rev BIGINT NOT NULL
);
CREATE INDEX call_unsettled ON call (session_id, id) WHERE state <> 'settled';
CREATE INDEX call_shown ON call (session_id) WHERE shown_pending = 1;
CREATE INDEX call_session ON call (session_id, id);
CREATE INDEX call_due ON call (due, id) WHERE state = 'open' AND due IS NOT NULL;
CREATE UNIQUE INDEX call_ask ON call (ask_id) WHERE ask_id IS NOT NULL;
CREATE INDEX call_asks ON call (id) WHERE state = 'open' AND ask_id IS NOT NULL;
CREATE INDEX call_part ON call (part_id);
CREATE INDEX call_pending ON call (pending, id) WHERE pending IS NOT NULL;
CREATE INDEX call_pending_session ON call (session_id, pending, id) WHERE pending IS NOT NULL;
CREATE INDEX call_kept ON call (due) WHERE state = 'settled' AND pending IS NOT NULL;
CREATE INDEX call_rev ON call (rev);

-- A model request: written before it is sent, so that a crash cannot hide what was spent.
CREATE TABLE request (
  id TEXT COLLATE "C" PRIMARY KEY,
  session_id TEXT COLLATE "C" NOT NULL,
  message_id TEXT COLLATE "C" NOT NULL,
  turn BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  attempt BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  tokens BYTEA NOT NULL,
  estimated INT NOT NULL,
  started BIGINT NOT NULL,
  next_at BIGINT,
  failure TEXT,
  estimate BYTEA
);
CREATE INDEX request_open ON request (session_id) WHERE state = 'open';
CREATE INDEX request_session ON request (session_id, id);
CREATE INDEX request_backoff ON request (next_at) WHERE state = 'backoff';

CREATE TABLE cancel (
  session_id TEXT COLLATE "C" NOT NULL,
  rev BIGINT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (session_id, rev)
);

-- What was deleted, so that a reader who was away learns of it.
CREATE TABLE tombstone (
  rev BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  body BYTEA NOT NULL,
  PRIMARY KEY (rev, kind, id)
);

CREATE TABLE todo (
  session_id TEXT COLLATE "C" PRIMARY KEY,
  body BYTEA NOT NULL,
  rev BIGINT NOT NULL
);
CREATE INDEX todo_rev ON todo (rev);

CREATE TABLE approval (
  project_id TEXT COLLATE "C" NOT NULL,
  permission TEXT COLLATE "C" NOT NULL,
  pattern TEXT COLLATE "C" NOT NULL,
  at BIGINT NOT NULL
);
-- A pattern may be longer than an entry of an index can be.
CREATE UNIQUE INDEX approval_once ON approval (project_id, permission, md5(pattern));

CREATE TABLE answered (
  ask_id TEXT COLLATE "C" PRIMARY KEY,
  session_id TEXT COLLATE "C" NOT NULL,
  call_id TEXT COLLATE "C" NOT NULL,
  reply BYTEA NOT NULL
);
CREATE INDEX answered_session ON answered (session_id);

CREATE TABLE task (
  id TEXT COLLATE "C" PRIMARY KEY,
  parent_id TEXT COLLATE "C" NOT NULL,
  batch TEXT COLLATE "C" NOT NULL,
  live INT NOT NULL,
  crowd BIGINT NOT NULL,
  due BIGINT,
  body BYTEA NOT NULL,
  version INT NOT NULL,
  rev BIGINT NOT NULL,
  status TEXT COLLATE "C" NOT NULL DEFAULT '',
  agent TEXT COLLATE "C" NOT NULL DEFAULT '',
  folded TEXT COLLATE "C" NOT NULL DEFAULT '',
  created BIGINT NOT NULL DEFAULT 0,
  ended BIGINT,
  born BIGINT NOT NULL DEFAULT 1,
  done BIGINT NOT NULL DEFAULT 1
);
CREATE INDEX task_parent ON task (parent_id, id);
CREATE INDEX task_live ON task (parent_id) WHERE live = 1;
CREATE INDEX task_batch ON task (batch);
CREATE INDEX task_due ON task (due) WHERE live = 1 AND due IS NOT NULL;
CREATE INDEX task_rev ON task (rev);
CREATE INDEX task_status ON task (status, id);
CREATE INDEX task_agent ON task (agent, id, status);
CREATE INDEX task_sums ON task (status, agent, created, ended);
CREATE INDEX task_ended ON task (ended) WHERE ended IS NOT NULL;

CREATE TABLE notice (
  task_id TEXT COLLATE "C" NOT NULL,
  run BIGINT NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  open INT NOT NULL,
  message_id TEXT COLLATE "C",
  body BYTEA NOT NULL,
  PRIMARY KEY (task_id, run)
);
CREATE INDEX notice_open ON notice (session_id, seq) WHERE open = 1;
CREATE INDEX notice_session ON notice (session_id);

CREATE TABLE secret_key (id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, key BYTEA NOT NULL, created BIGINT NOT NULL);
CREATE TABLE call_secret (
  call_id TEXT COLLATE "C" NOT NULL,
  direction TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  secret TEXT NOT NULL,
  PRIMARY KEY (call_id, direction)
);
CREATE INDEX call_secret_session ON call_secret (session_id);

CREATE TABLE delivery (
  id TEXT COLLATE "C" PRIMARY KEY,
  call_id TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  root_id TEXT COLLATE "C" NOT NULL,
  url TEXT NOT NULL,
  host TEXT COLLATE "C" NOT NULL,
  secret TEXT NOT NULL,
  since BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL,
  attempts BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  created BIGINT NOT NULL,
  ended BIGINT,
  error TEXT NOT NULL,
  rev BIGINT NOT NULL,
  body BYTEA NOT NULL
);
CREATE UNIQUE INDEX delivery_call ON delivery (call_id);
CREATE INDEX delivery_owed ON delivery (next_at) WHERE state = 'owed';
CREATE INDEX delivery_host ON delivery (host, next_at) WHERE state = 'owed';
CREATE INDEX delivery_tree ON delivery (root_id, host, next_at) WHERE state = 'owed';
CREATE INDEX delivery_state ON delivery (state, id);
CREATE INDEX delivery_ended ON delivery (ended) WHERE state <> 'owed';
CREATE INDEX delivery_rev ON delivery (rev);

-- Which revision a day began with, for what is kept for some time.
CREATE TABLE noted_day (day DATE PRIMARY KEY, rev BIGINT NOT NULL);

-- Who lives: a process that has not beaten for a while, by this database's clock, is dead. Ids are never used twice.
CREATE TABLE worker (
  id TEXT COLLATE "C" PRIMARY KEY,
  host TEXT NOT NULL,
  pid BIGINT NOT NULL,
  kind TEXT NOT NULL,
  pools TEXT[] NOT NULL,
  runs BIGINT NOT NULL,
  capacity BIGINT NOT NULL,
  listens BOOLEAN NOT NULL,
  started TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
  beat TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
  patience INTERVAL NOT NULL
);

-- The oldest transaction that is under way, or the next one; what other databases of the cluster do does not count, if they
-- can be told apart.
CREATE FUNCTION settled() RETURNS BIGINT LANGUAGE sql STABLE AS $$
  SELECT COALESCE(
    (SELECT MIN(xid::text::bigint) FROM pg_snapshot_xip(pg_current_snapshot()) AS xid WHERE NOT EXISTS (
      SELECT 1 FROM pg_stat_activity WHERE backend_xid = xid::xid AND datname <> current_database())),
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
$$;

-- A body as JSON; NULL if it cannot be read, as a damaged row cannot.
CREATE FUNCTION readable(body BYTEA) RETURNS JSON LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN convert_from(body, 'UTF8')::json;
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $$;

-- What a tree of sessions is locked by, as `lock_key` in tree.py.
CREATE FUNCTION tree_key(root TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
  SELECT ('x' || substr(md5(root), 1, 16))::bit(64)::bigint
$$;

-- Of these trees those that nobody else works in: they are this transaction's to its end.
CREATE FUNCTION taken_trees(roots TEXT[]) RETURNS TEXT[] LANGUAGE sql VOLATILE AS $$
  SELECT COALESCE(array_agg(root), '{}') FROM unnest(roots) AS root
  WHERE pg_try_advisory_xact_lock(tree_key(root))
$$;

-- What is due in trees that could be taken. Each is looked at again once its tree is: a statement sees what was there when
-- it began, which may be before another sweep was done with it.
CREATE FUNCTION due_calls(at BIGINT, most BIGINT) RETURNS TABLE (call_id TEXT, call_body BYTEA, call_version INT)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  taken TEXT[];
BEGIN
  taken := taken_trees(ARRAY(
    SELECT DISTINCT root_id FROM session WHERE id IN (
      SELECT session_id FROM call WHERE state = 'open' AND due IS NOT NULL AND due <= at ORDER BY due, id LIMIT most)));
  IF taken <> '{}' THEN
    RETURN QUERY SELECT call.id, call.body, call.version FROM call JOIN session ON session.id = call.session_id
      WHERE call.state = 'open' AND call.due IS NOT NULL AND call.due <= at AND session.root_id = ANY(taken)
      ORDER BY call.due, call.id LIMIT most;
  END IF;
END $$;

CREATE FUNCTION kept_calls(before BIGINT, most BIGINT) RETURNS SETOF TEXT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  taken TEXT[];
BEGIN
  taken := taken_trees(ARRAY(
    SELECT DISTINCT root_id FROM session WHERE id IN (
      SELECT session_id FROM call WHERE state = 'settled' AND pending IS NOT NULL AND due <= before ORDER BY due LIMIT most)));
  IF taken <> '{}' THEN
    RETURN QUERY SELECT call.id FROM call JOIN session ON session.id = call.session_id
      WHERE call.state = 'settled' AND call.pending IS NOT NULL AND call.due <= before AND session.root_id = ANY(taken)
      ORDER BY call.due LIMIT most;
  END IF;
END $$;

CREATE FUNCTION due_tasks(at BIGINT, most BIGINT) RETURNS SETOF TEXT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  taken TEXT[];
BEGIN
  taken := taken_trees(ARRAY(
    SELECT DISTINCT COALESCE(session.root_id, late.id) FROM (
      SELECT task.id FROM task WHERE live = 1 AND due IS NOT NULL AND due <= at ORDER BY due, task.id LIMIT most
    ) AS late LEFT JOIN session ON session.id = late.id));
  IF taken <> '{}' THEN
    RETURN QUERY SELECT task.id FROM task LEFT JOIN session ON session.id = task.id
      WHERE task.live = 1 AND task.due IS NOT NULL AND task.due <= at AND COALESCE(session.root_id, task.id) = ANY(taken)
      ORDER BY task.due, task.id LIMIT most;
  END IF;
END $$;

-- Requests whose next try is due, of sessions that nobody runs: a run looks after its own. One that is held by a call is woken
-- by that call's end: before it, a run could do nothing but stop again, and be woken again.
CREATE VIEW backed_off AS
SELECT session.id AS session_id, request.id AS request_id, request.next_at, session.root_id FROM request
JOIN session ON session.id = request.session_id AND session.backoff = request.id
WHERE request.state = 'backoff' AND session.state = 'idle' AND NOT EXISTS (
  SELECT 1 FROM call WHERE call.session_id = session.id AND call.state = 'open'
    AND (readable(call.body) #>> '{state,kind}' IN ('ask', 'question')
      OR (readable(call.body) #>> '{state,kind}' = 'task'
          AND COALESCE(readable(call.body) #>> '{state,child_waits}', 'false') <> 'true')));

CREATE FUNCTION due_backoffs(at BIGINT, most BIGINT) RETURNS TABLE (late_session TEXT, late_request TEXT)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  taken TEXT[];
BEGIN
  taken := taken_trees(ARRAY(
    SELECT DISTINCT root_id FROM (
      SELECT root_id FROM backed_off WHERE next_at <= at ORDER BY next_at, session_id LIMIT most) AS late));
  IF taken <> '{}' THEN
    RETURN QUERY SELECT session_id, request_id FROM backed_off
      WHERE next_at <= at AND root_id = ANY(taken) ORDER BY next_at, session_id LIMIT most;
  END IF;
END $$;
