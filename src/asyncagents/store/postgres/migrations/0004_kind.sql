-- min_reader: 2
-- Whether the parent of a task waits for its latest run (`sync`) or goes on meanwhile (`background`): lists and sums are of
-- background tasks. `turned`: the revision since which it is of its kind. A program that does not know the columns counts as
-- it did before.

ALTER TABLE task ADD COLUMN kind TEXT COLLATE "C" NOT NULL DEFAULT 'background';
ALTER TABLE task ADD COLUMN turned BIGINT NOT NULL DEFAULT 1;
UPDATE task SET kind = 'sync' WHERE readable(body) ->> 'background' = 'false';
CREATE INDEX task_kind ON task (kind, id);

-- A task is kept when its session is deleted, and says so from now on: `gone`.
UPDATE task SET body = SUBSTRING(body FROM 1 FOR LENGTH(body) - 1) || convert_to(',"gone":true}', 'UTF8')
WHERE readable(body) IS NOT NULL AND NOT EXISTS (SELECT 1 FROM session WHERE session.id = task.id);
