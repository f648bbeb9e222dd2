-- What is listed and looked up, and the ledger.

-- Records that a run has succeeded, and proves the hold. keep: for how long it is kept (0: for
-- ever).
CREATE OR REPLACE FUNCTION complete_1(key bytea, id text, v integer, run bytea, keep bigint) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    s step := (key, v, 0, 0, false, false);
    c claims;
BEGIN
    PERFORM durably_1();
    PERFORM FROM keys k WHERE k.key = s.key FOR NO KEY UPDATE;
    c := mine_1(s, id);
    s.at := clock_1();
    IF c.seq IS NULL OR c.state <> 'holding' OR c.expires <= s.at THEN
        RETURN NEXT json_build_object('is', 'lost', 'notice', coalesce(told_1(s, id), ''));
        RETURN;
    END IF;
    PERFORM tidy_1(s);
    IF done_1(s, run) IS NULL THEN
        PERFORM succeeded_1(s, c, run, keep);
    END IF;
    PERFORM wake_1(s, ARRAY(SELECT l.seq FROM claims l
        WHERE l.key = s.key AND l.state = 'waiting' AND (l.run = complete_1.run OR l.run = '')));
    RETURN NEXT '{"is":"completed"}';
END $$;

-- The place of the latest run grows though the clock may be set back.
CREATE OR REPLACE FUNCTION succeeded_1(s step, c claims, run bytea, keep bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    e ledger := (s.key, run, s.v, c.token, c.owner, s.at, CASE WHEN keep > 0 THEN s.at + keep ELSE 0 END, 0);
BEGIN
    UPDATE keys SET runs = greatest(runs + 1, s.at) WHERE key = s.key RETURNING runs INTO e.seq;
    DELETE FROM ledger l WHERE l.key = s.key AND l.run = e.run;
    INSERT INTO ledger SELECT e.*;
END $$;

-- Looks a run up.
CREATE OR REPLACE FUNCTION completed_1(key bytea, v integer, run bytea) RETURNS SETOF text STABLE LANGUAGE plpgsql AS $$
DECLARE
    s constant step := (key, v, clock_1(), 0, true, false);
    entry constant text := done_1(s, run);
BEGIN
    RETURN NEXT '{}';
    IF entry IS NOT NULL THEN
        RETURN NEXT entry;
    END IF;
END $$;

-- Lists completed runs, oldest first, from behind a place on, so many at most: place is that
-- of the last one, n how many there are.
CREATE OR REPLACE FUNCTION entries_1(key bytea, v integer, after bigint, most bigint) RETURNS SETOF text STABLE LANGUAGE plpgsql AS $$
DECLARE
    e ledger;
    now constant bigint := clock_1();
    listed text[] := '{}';
BEGIN
    FOR e IN SELECT * FROM ledger l WHERE l.key = entries_1.key AND l.seq > after AND (l.forgets = 0 OR l.forgets > now)
        ORDER BY l.seq LIMIT most
    LOOP
        IF e.v > entries_1.v THEN
            PERFORM newer_1('completed run', e.v);
        END IF;
        listed := listed || entry_1(e);
    END LOOP;
    RETURN NEXT json_build_object('place', coalesce(e.seq, after), 'n', cardinality(listed));
    RETURN QUERY SELECT unnest(listed);
END $$;

-- Forgets a completed run.
CREATE OR REPLACE FUNCTION forget_1(key bytea, v integer, run bytea) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    s step := (key, v, 0, 0, false, false);
    entry text;
BEGIN
    PERFORM durably_1();
    PERFORM FROM keys k WHERE k.key = s.key FOR NO KEY UPDATE;
    s.at := clock_1();
    entry := done_1(s, run);
    DELETE FROM ledger l WHERE l.key = s.key AND l.run = forget_1.run;
    RETURN NEXT json_build_object('is', CASE WHEN entry IS NULL THEN 'missing' ELSE 'forgotten' END);
END $$;

-- The key's line, in order, and its last run and last success, as of one instant.
CREATE OR REPLACE FUNCTION inspect_1(key bytea, v integer) RETURNS SETOF text STABLE LANGUAGE plpgsql AS $$
DECLARE
    at constant bigint := clock_1();
    k keys;
    c claims;
    listed text[] := '{}';
BEGIN
    SELECT * INTO k FROM keys WHERE keys.key = inspect_1.key;
    PERFORM newer_1('line', k.v) WHERE k.v > inspect_1.v;
    PERFORM newer_1('last run', n) FROM (SELECT greatest((k.last::json ->> 'v')::int, (k.success::json ->> 'v')::int) AS n) AS runs
    WHERE n > inspect_1.v;
    FOR c IN SELECT * FROM claims l WHERE l.key = inspect_1.key AND greatest(l.expires, l.kept) > at ORDER BY l.seq LOOP
        IF c.v > inspect_1.v THEN
            PERFORM newer_1('line', c.v);
        END IF;
        listed := listed || shown_1(c);
    END LOOP;
    RETURN NEXT json_build_object('now', at, 'last', k.last::json, 'success', k.success::json);
    RETURN QUERY SELECT unnest(listed);
END $$;

-- Lists, in the order of their bytes, the keys that begin with prefix and have a claim or a
-- last run, from behind one on, so many at most: n is how many there are.
CREATE OR REPLACE FUNCTION keys_1(prefix bytea, after bytea, most bigint, v integer) RETURNS SETOF text STABLE LANGUAGE plpgsql AS $$
DECLARE
    at constant bigint := clock_1();
    k keys;
    listed text[] := '{}';
BEGIN
    FOR k IN SELECT * FROM keys WHERE key >= prefix AND key > after ORDER BY key LOOP
        EXIT WHEN substring(k.key FROM 1 FOR length(prefix)) <> prefix OR cardinality(listed) = most;
        IF k.last IS NOT NULL OR EXISTS (SELECT FROM claims l WHERE l.key = k.key AND greatest(l.expires, l.kept) > at) THEN
            listed := listed || json_build_object('key', encode(k.key, 'hex'))::text;
        END IF;
    END LOOP;
    RETURN NEXT json_build_object('n', cardinality(listed));
    RETURN QUERY SELECT unnest(listed);
END $$;

-- Drops a few keys that nobody has used for 100 days: long enough for a job that runs each
-- quarter. Tokens grow on without them, by the clock.
CREATE OR REPLACE FUNCTION sweep_1(v integer) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    today constant integer := clock_1() / 86400000000;
    k bytea;
BEGIN
    FOR k IN SELECT key FROM keys WHERE used_day < today - 100 AND keys.v <= sweep_1.v ORDER BY used_day LIMIT 16
        FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM drop_1((k, v, clock_1(), 0, false, false), today);
    END LOOP;
    RETURN NEXT '{}';
END $$;

-- Drops a key without claims, completed runs and forbidden IDs; another is looked at again in
-- 100 days.
CREATE OR REPLACE FUNCTION drop_1(s step, today integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM prune_1(s);
    DELETE FROM ledger WHERE key = s.key AND v <= s.v AND forgets > 0 AND forgets <= s.at;
    IF EXISTS (SELECT FROM claims WHERE key = s.key) OR EXISTS (SELECT FROM ledger WHERE key = s.key)
        OR EXISTS (SELECT FROM ended WHERE key = s.key AND until > s.at) THEN
        UPDATE keys SET used_day = today WHERE key = s.key;
    ELSE
        DELETE FROM ended WHERE key = s.key;
        DELETE FROM keys WHERE key = s.key;
    END IF;
END $$;
