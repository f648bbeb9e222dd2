-- Makes or completes the schema, one session at a time, unless it is another program's or a
-- newer flockd's. No name means what somebody else made of it.
SET LOCAL search_path = pg_catalog, pg_temp;
DO $$
DECLARE
    ours constant regclass := to_regclass('"flockd".about');
    found integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(7453010341209);
    IF to_regnamespace('"flockd"') IS NULL THEN
        CREATE SCHEMA "flockd";
    END IF;
    IF ours IS NOT NULL THEN
        SELECT version INTO found FROM "flockd".about;
    ELSIF EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('"flockd"') AND relname IN ('keys', 'claims', 'ended', 'ledger', 'fences')) THEN
        RAISE EXCEPTION USING ERRCODE = 'FLKD2', MESSAGE = 'the schema "flockd" has tables that are not flockd''s';
    END IF;
    IF found > 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'FLKD3', MESSAGE = 'the schema "flockd" was made by a newer flockd', DETAIL = found;
    END IF;
END $$;
SET LOCAL search_path = "flockd", pg_temp;
SET LOCAL client_min_messages = warning;
