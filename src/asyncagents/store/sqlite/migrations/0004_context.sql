-- min_reader: 4
-- Where the model begins to read. `compacting`: the place of a summary that was asked for, or -1 if one is wanted;
-- `summary`: the place of the newest one; `tail`: the place from which messages are kept beside it.

ALTER TABLE session ADD COLUMN compacting INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN summary INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN tail INTEGER NOT NULL DEFAULT 0;

-- The input of a turn, answered or not; it does what the narrower one did.
DROP INDEX input_unanswered;
CREATE INDEX input_turn ON input (session_id, turn);

-- Whose output is left out is known by its part.
CREATE INDEX call_part ON call (part_id);
