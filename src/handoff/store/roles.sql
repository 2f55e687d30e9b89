-- Two roles for one relay. Run it once as an administrator of the database, and again whenever you like:
-- {owner} makes and changes the tables (handoff database migrate); {app} reads and writes rows and can do nothing else.
-- Neither has a password yet: give them theirs with \password in psql, or use certificates.
DO $do$
DECLARE
    owner CONSTANT text := '{owner}';
    app CONSTANT text := '{app}';
    place CONSTANT text := current_database();
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[owner, app] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', name);
        END IF;
        EXECUTE format('ALTER ROLE %I NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', name);
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', place, name);
    END LOOP;
    EXECUTE format('GRANT CREATE ON DATABASE %I TO %I', place, owner);
    EXECUTE format('REVOKE CREATE, TEMPORARY ON DATABASE %I FROM PUBLIC, %I', place, app);
    EXECUTE 'REVOKE CREATE ON SCHEMA public FROM PUBLIC';
    -- The relay's own rows and those of its engine; what an administrator or a person made before changes hands.
    FOREACH name IN ARRAY ARRAY['handoff', 'dbos'] LOOP
        EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', name);
        EXECUTE format('ALTER SCHEMA %I OWNER TO %I', name, owner);
        EXECUTE coalesce((SELECT string_agg(format('ALTER TABLE %s OWNER TO %I', oid::regclass, owner), '; ')
            FROM pg_class WHERE relnamespace = name::regnamespace AND relkind IN ('r', 'p', 'v')), 'SELECT 1');
        EXECUTE coalesce((SELECT string_agg(format('ALTER ROUTINE %s OWNER TO %I', oid::regprocedure, owner), '; ')
            FROM pg_proc WHERE pronamespace = name::regnamespace), 'SELECT 1');
        EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC, %I', name, app);
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', name, app);
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM PUBLIC, %I', name, app);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I TO %I', name, app);
        EXECUTE format('GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA %I TO %I', name, app);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I '
            'GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %I', owner, name, app);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I '
            'GRANT USAGE, SELECT ON SEQUENCES TO %I', owner, name, app);
    END LOOP;
    -- How far the tables have been brought is the owner's business.
    IF to_regclass('handoff.schema_version') IS NOT NULL THEN
        EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON handoff.schema_version FROM %I', app);
    END IF;
END
$do$;
