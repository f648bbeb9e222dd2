-- The register: the highest token that each resource has seen, for ever. The first flockd had
-- none. So this is added to schemas that are in use, and locks nothing that was there before.

CREATE TABLE IF NOT EXISTS fences (
    resource bytea   PRIMARY KEY,
    v        integer NOT NULL,
    token    bigint  NOT NULL, -- the highest one
    at       bigint  NOT NULL  -- when it was last admitted
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);

-- Admits a token unless a higher one came before; down: even then. The one statement that
-- writes decides, on the row as it is once it has its lock. An equal token is written as well:
-- so whoever is told that it is admitted has waited for the disk and the standbys, whatever
-- became of who wrote it first. What is stale by a look is answered by that, and writes nothing.
CREATE OR REPLACE FUNCTION admit_1(resource bytea, v integer, token bigint, down boolean) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    f fences;
BEGIN
    SELECT * INTO f FROM fences WHERE fences.resource = admit_1.resource;
    IF down OR f.token IS NULL OR f.token <= token THEN
        PERFORM durably_1();
        INSERT INTO fences AS mine VALUES (resource, v, token, clock_1()) ON CONFLICT ON CONSTRAINT fences_pkey
        DO UPDATE SET v = excluded.v, token = excluded.token, at = excluded.at
        WHERE mine.v <= excluded.v AND (down OR mine.token <= excluded.token);
        IF FOUND THEN
            RETURN NEXT '{"is":"admitted"}';
            RETURN;
        END IF;
        SELECT * INTO f FROM fences WHERE fences.resource = admit_1.resource;
    END IF;
    IF f.v > v THEN
        PERFORM newer_1('register', f.v);
    END IF;
    RETURN NEXT json_build_object('is', 'stale', 'token', f.token);
END $$;

-- The highest token of a resource.
CREATE OR REPLACE FUNCTION highest_1(resource bytea, v integer) RETURNS SETOF text STABLE LANGUAGE plpgsql AS $$
DECLARE
    f fences;
BEGIN
    SELECT * INTO f FROM fences WHERE fences.resource = highest_1.resource;
    IF f.v > v THEN
        PERFORM newer_1('register', f.v);
    END IF;
    RETURN NEXT json_build_object('is', CASE WHEN f.token IS NULL THEN 'missing' ELSE 'admitted' END, 'token', f.token);
END $$;
