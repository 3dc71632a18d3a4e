-- min_reader: 2
-- What a caller gave under a key of its own, as a hash: the same key with the same content is the same request again, with other
-- content it is a conflict. `kind`: of the request: input, session, abort. Without a row, or a hash, nothing is compared.
CREATE TABLE idempotency (
  session_id TEXT COLLATE "C" NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  hash TEXT,
  PRIMARY KEY (session_id, kind, key)
);
