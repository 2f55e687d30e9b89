-- On Postgres the few tables that change with every claim and sign of life are cleared early, not after a fifth of them is dead.
/* postgres: ALTER TABLE task SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_analyze_scale_factor = 0.05) */;
/* postgres: ALTER TABLE session SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500) */;
/* postgres: ALTER TABLE batch SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200) */;
/* postgres: ALTER TABLE executor SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200) */;
/* postgres: ALTER TABLE channel SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200) */;
/* postgres: ALTER TABLE search_mark SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200) */;
/* postgres: ALTER TABLE tally SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500) */;
