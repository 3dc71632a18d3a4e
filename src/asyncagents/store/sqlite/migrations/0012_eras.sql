-- min_reader: 9
-- `sort_id`: what a message sorts by among those of its session, where that is not its id. A client gave it an id that does not
-- tell the era of its time, and that would sort among those of another era. NULL: its id.
ALTER TABLE message ADD COLUMN sort_id TEXT;
DROP INDEX message_wire;
CREATE INDEX message_wire ON message (session_id, COALESCE(sort_id, id));
