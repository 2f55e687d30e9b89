-- What a session used in tokens, of which models, for which task, and whence its cost is known.
ALTER TABLE expense ADD COLUMN task BIGINT;
ALTER TABLE expense ADD COLUMN models TEXT NOT NULL DEFAULT '';
ALTER TABLE expense ADD COLUMN input BIGINT NOT NULL DEFAULT 0;
ALTER TABLE expense ADD COLUMN cached BIGINT NOT NULL DEFAULT 0;
ALTER TABLE expense ADD COLUMN output BIGINT NOT NULL DEFAULT 0;
ALTER TABLE expense ADD COLUMN reasoning BIGINT NOT NULL DEFAULT 0;
ALTER TABLE expense ADD COLUMN basis TEXT NOT NULL DEFAULT 'said';
UPDATE expense SET task = claimed.task
FROM (SELECT session, max(task) AS task FROM event WHERE kind = 'task.claimed' GROUP BY session) AS claimed
WHERE claimed.session = expense.session;
CREATE INDEX expense_of_task ON expense (task) WHERE task IS NOT NULL;
