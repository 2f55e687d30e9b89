-- Writers work side by side on Postgres. No line of the journal tells the whole server of itself any more, and a sign of life
-- changes no index, so that the row stays where it is.
/* postgres: DROP TRIGGER IF EXISTS tell_journal ON event */;
/* postgres: DROP FUNCTION IF EXISTS tell_journal() */;
/* postgres: DROP INDEX task_running */;
/* postgres: ALTER TABLE task SET (fillfactor = 70) */;
