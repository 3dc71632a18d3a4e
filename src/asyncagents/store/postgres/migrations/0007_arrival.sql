-- min_reader: 7
-- Older programs must not write here: they would drop the `tools` map of a session, and with it what it denies.
-- Sessions that come in pieces, by an import or a copy: their messages and parts are there before their own row, so that nobody
-- sees them. `rev` is 0 meanwhile, then the revision of the last piece. What no process goes on with is removed later.
CREATE TABLE arrival (
  session_id TEXT COLLATE "C" PRIMARY KEY,
  token TEXT COLLATE "C" NOT NULL,
  touched BIGINT NOT NULL,
  rev BIGINT NOT NULL
);
CREATE INDEX arrival_rev ON arrival (rev);
