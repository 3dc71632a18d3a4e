-- min_reader: 9
-- Whether the parent of a task waits for its latest run (`sync`) or goes on meanwhile (`background`): lists and sums are of
-- background tasks. `turned`: the revision since which it is of its kind. A program that does not know the columns counts as
-- it did before.

ALTER TABLE task ADD COLUMN kind TEXT NOT NULL DEFAULT 'background';
ALTER TABLE task ADD COLUMN turned INTEGER NOT NULL DEFAULT 1;
UPDATE task SET kind = 'sync' WHERE json_valid(CAST(body AS TEXT)) AND CAST(body AS TEXT) ->> 'background' = 0;
-- Each index has all that its question needs, as before.
DROP INDEX task_page;
DROP INDEX task_words;
DROP INDEX task_status;
DROP INDEX task_agent;
DROP INDEX task_sums;
DROP INDEX task_ended;
CREATE INDEX task_page ON task (kind, id DESC);
CREATE INDEX task_words ON task (id DESC, status, agent, folded, kind);
CREATE INDEX task_status ON task (status, id DESC, kind);
CREATE INDEX task_agent ON task (agent, id DESC, status, kind);
CREATE INDEX task_sums ON task (status, agent, created, ended, kind);
CREATE INDEX task_ended ON task (ended, id, kind) WHERE ended IS NOT NULL;

-- A task is kept when its session is deleted, and says so from now on: `gone`.
UPDATE task SET body = CAST(SUBSTR(CAST(body AS TEXT), 1, LENGTH(CAST(body AS TEXT)) - 1) || ',"gone":true}' AS BLOB)
WHERE json_valid(CAST(body AS TEXT)) AND NOT EXISTS (SELECT 1 FROM session WHERE session.id = task.id);
