-- min_reader: 2
-- A request that failed and is tried again later waits as a row: the session names it, nobody sleeps for it.

ALTER TABLE request ADD COLUMN next_at INTEGER;
ALTER TABLE request ADD COLUMN failure TEXT;
ALTER TABLE request ADD COLUMN estimate BLOB;
CREATE INDEX request_backoff ON request (next_at) WHERE state = 'backoff';
ALTER TABLE session ADD COLUMN backoff TEXT;

-- The sessions of a tree.
CREATE INDEX session_root ON session (root_id);
