-- min_reader: 8
-- Older programs must not write here: they would ask a model in place of an external agent, and run the calls that it runs.
-- The session of an external agent in which a session works. `sent`: when the prompt under way was sent; NULL: none is.
CREATE TABLE external_session (
  session_id TEXT COLLATE "C" PRIMARY KEY,
  external_id TEXT COLLATE "C" NOT NULL,
  sent BIGINT,
  body BYTEA NOT NULL
);
CREATE INDEX external_session_sent ON external_session (sent) WHERE sent IS NOT NULL;
