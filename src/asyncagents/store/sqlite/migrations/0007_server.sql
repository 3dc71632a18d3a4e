-- min_reader: 7
-- then: fold
-- What the status API asks of tasks, as columns. `status`: empty if the row cannot be read; `folded`: the description without
-- case; `born`, `done`: the revisions of its launch and of its last end.

ALTER TABLE task ADD COLUMN status TEXT NOT NULL DEFAULT '';
ALTER TABLE task ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE task ADD COLUMN folded TEXT NOT NULL DEFAULT '';
ALTER TABLE task ADD COLUMN created INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN ended INTEGER;
ALTER TABLE task ADD COLUMN born INTEGER NOT NULL DEFAULT 1;
ALTER TABLE task ADD COLUMN done INTEGER NOT NULL DEFAULT 1;
-- Those that are there. SQLite folds ASCII only: the program does the others after this.
UPDATE task SET
  status = COALESCE(CAST(body AS TEXT) ->> 'status', 'running'),
  agent = COALESCE(CAST(body AS TEXT) ->> 'agent', ''),
  folded = LOWER(COALESCE(CAST(body AS TEXT) ->> 'description', '')),
  created = COALESCE(CAST(body AS TEXT) ->> 'created', 0),
  ended = CAST(body AS TEXT) ->> 'ended'
WHERE json_valid(CAST(body AS TEXT));

-- Newest first is by id. Each has all that its question needs: rows with their bodies are read for what is shown, no others.
-- Ids descend in time: so a new one is the last of its index, and pages are full (half of the size).
CREATE INDEX task_page ON task (id DESC);
CREATE INDEX task_words ON task (id DESC, status, agent, folded);
CREATE INDEX task_status ON task (status, id DESC);
CREATE INDEX task_agent ON task (agent, id DESC, status);
CREATE INDEX task_sums ON task (status, agent, created, ended);
CREATE INDEX task_ended ON task (ended) WHERE ended IS NOT NULL;
