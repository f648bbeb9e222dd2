-- psql -v ON_ERROR_STOP=1 -f FILE DATABASE
BEGIN;
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
    ELSIF EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('"flockd"') AND relname IN ('keys', 'claims', 'ended', 'ledger')) THEN
        RAISE EXCEPTION USING ERRCODE = 'FLKD2', MESSAGE = 'the schema "flockd" has tables that are not flockd''s';
    END IF;
    IF found > 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'FLKD3', MESSAGE = 'the schema "flockd" was made by a newer flockd', DETAIL = found;
    END IF;
END $$;
SET LOCAL search_path = "flockd", pg_temp;
SET LOCAL client_min_messages = warning;

-- What flockd keeps in PostgreSQL, 12 or later. All of it is in one schema of its own.
--
-- Instants are µs since 1970 by the server's clock, 0 for none; spans are µs. Keys and the
-- names of runs are bytes; owners and notices are JSON that is never read here. So all
-- text is ASCII, and no encoding matters. v is the version of a row.

-- Says that the schema is flockd's, and which version of these tables it has.
CREATE TABLE IF NOT EXISTS about (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL
);
INSERT INTO about (version) VALUES (1) ON CONFLICT DO NOTHING;

-- A row for each key. Whoever works on a key's line locks it first.
--
-- Here and in claims half of each page is left for new versions of its rows, which PostgreSQL
-- clears away as it reads the page. What is left to autovacuum is cleared before it is much.
CREATE TABLE IF NOT EXISTS keys (
    key      bytea   PRIMARY KEY,
    v        integer NOT NULL,
    token    bigint  NOT NULL DEFAULT 0, -- the last one granted
    places   bigint  NOT NULL DEFAULT 0, -- the last one in the line
    runs     bigint  NOT NULL DEFAULT 0, -- the last one in the ledger
    used_day integer NOT NULL,           -- since 1970; see sweep
    last     text,                       -- the last run, JSON
    success  text                        -- the last one that succeeded
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX IF NOT EXISTS idle ON keys (used_day);

-- No two of a table's indexes serve one query: to a server that has no statistics of a table,
-- or has them from when it was empty, all of them are as good, also those that lead it through
-- a whole line. Where a query is to use one by the ID, it hides the key from the others.

-- The lines, in the order of seq. A claim's instants change often, and so are in no index:
-- then a new version of the row needs no new entries.
CREATE TABLE IF NOT EXISTS claims (
    key     bytea   NOT NULL,
    seq     bigint  NOT NULL,
    id      text    COLLATE "C" NOT NULL,
    v       integer NOT NULL,
    state   text    COLLATE "C" NOT NULL, -- waiting, holding or cooling
    mode    text    COLLATE "C" NOT NULL,
    slots   bigint  NOT NULL,
    slot    bigint  NOT NULL DEFAULT 0,
    token   bigint  NOT NULL DEFAULT 0,
    asked   bigint  NOT NULL,
    granted bigint  NOT NULL DEFAULT 0,
    renewed bigint  NOT NULL,
    expires bigint  NOT NULL,                -- of the place or the lease
    kept    bigint  NOT NULL DEFAULT 0,      -- grant + min-hold: taken until then, even if the lease ends
    owner   text    NOT NULL,
    notice  text    NOT NULL DEFAULT '',     -- '': none
    told    boolean NOT NULL DEFAULT false,  -- a renewal has told of the notice
    called  boolean NOT NULL DEFAULT false,  -- a waiter has something to hear
    run     bytea,                           -- which isn't repeated; NULL: none; '' while it waits: that of the period by then
    keep    bigint  NOT NULL DEFAULT 0,      -- how long the run's success is kept; 0: for ever
    PRIMARY KEY (key, seq),
    UNIQUE (id, key)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
-- Who waits for an unshared hold: to find the next one.
CREATE INDEX IF NOT EXISTS unshared ON claims ((key || ''), seq) WHERE state = 'waiting' AND mode <> 'shared';

-- IDs that were released: a question overtaken by its own release finds itself here. And
-- those that were removed, or asked to leave the line: they are told by whom.
CREATE TABLE IF NOT EXISTS ended (
    key    bytea   NOT NULL,
    id     text    COLLATE "C" NOT NULL,
    v      integer NOT NULL,
    until  bigint  NOT NULL,
    notice text    NOT NULL DEFAULT '', -- '': released
    PRIMARY KEY (id, key)
) WITH (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX IF NOT EXISTS forgotten ON ended (key, until);

-- The runs that have succeeded and aren't repeated, each key's in the order of seq.
CREATE TABLE IF NOT EXISTS ledger (
    key     bytea   NOT NULL,
    run     bytea   NOT NULL,
    v       integer NOT NULL,
    token   bigint  NOT NULL,
    owner   text    NOT NULL,
    at      bigint  NOT NULL,
    forgets bigint  NOT NULL, -- 0: kept for ever
    seq     bigint  NOT NULL,
    PRIMARY KEY (key, run)
);
CREATE INDEX IF NOT EXISTS forgets ON ledger (key, forgets) WHERE forgets > 0;

-- The line of a key. A step locks the key's row, then reads the clock, and reads the line
-- in later statements, each of which sees what was committed before it. A claim that has
-- expired by what a statement saw may have been renewed since: it is out of the line once
-- a DELETE that waited for the renewal has removed it.
--
-- A walk looks at few claims, however many wait: an exclusive one is the only one that
-- matters to those behind it, of slots there are as many as may hold, and the next unshared
-- one is found by an index. Whoever holds is among the claims at the front that are of one
-- family, since nobody passes a live claim of another.

-- step is what a step knows of itself.
DO $$ BEGIN
    CREATE TYPE step AS (
        key     bytea,
        v       integer, -- that the client knows; it reads nothing newer
        at      bigint,  -- the clock
        without bigint,  -- a place that the line is looked at as if nobody had it; 0: none
        reads   boolean, -- and writes nothing: it passes by the dead
        lenient boolean  -- it stops at a newer claim, and fails not
    );
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;

-- The function's own answer, for a client that finds it in the error: nothing was written.
CREATE OR REPLACE FUNCTION answer_1(answer json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'FLKD1', MESSAGE = 'flockd: see the detail', DETAIL = answer;
END $$;

CREATE OR REPLACE FUNCTION newer_1(what text, v integer) RETURNS void LANGUAGE sql AS $$
    SELECT answer_1(json_build_object('is', 'newer', 'what', what, 'v', v))
$$;

CREATE OR REPLACE FUNCTION clock_1() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- What this transaction commits must be on the disk when the client hears of it.
CREATE OR REPLACE FUNCTION durably_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

-- Locks the key's row, and tells whether it had to be made.
CREATE OR REPLACE FUNCTION enter_1(k bytea, known integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    found_v integer;
BEGIN
    PERFORM durably_1();
    LOOP
        SELECT v INTO found_v FROM keys WHERE key = k FOR NO KEY UPDATE;
        IF found_v > known THEN
            PERFORM newer_1('line', found_v);
        END IF;
        EXIT WHEN found_v IS NOT NULL;
        INSERT INTO keys (key, v, used_day) VALUES (k, known, clock_1() / 86400000000) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;

CREATE OR REPLACE FUNCTION ends_1(c claims) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT greatest(c.expires, c.kept) $$;

CREATE OR REPLACE FUNCTION family_1(c claims, d claims) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT c.mode <> 'exclusive' AND c.mode = d.mode AND c.slots = d.slots
$$;

-- The claim of an ID, once a renewal in flight is over; with none its seq is NULL.
CREATE OR REPLACE FUNCTION mine_1(s step, me text) RETURNS claims LANGUAGE plpgsql AS $$
DECLARE
    c claims;
BEGIN
    SELECT * INTO c FROM claims WHERE id = me AND (key = s.key) IS TRUE FOR NO KEY UPDATE;
    IF c.v > s.v THEN
        PERFORM newer_1('line', c.v);
    END IF;
    RETURN c;
END $$;

CREATE OR REPLACE FUNCTION prune_1(s step) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM claims WHERE key = s.key AND v <= s.v AND greatest(expires, kept) <= s.at;
END $$;

-- The nearest live claim behind a place or in front of it; with none its seq is NULL.
CREATE OR REPLACE FUNCTION meet_1(s step, what text, place bigint) RETURNS claims LANGUAGE plpgsql AS $$
DECLARE
    c claims;
    none claims;
BEGIN
    LOOP
        CASE what
        WHEN 'behind' THEN
            SELECT * INTO c FROM claims
            WHERE key = s.key AND seq > place AND seq <> s.without AND (NOT s.reads OR greatest(expires, kept) > s.at)
            ORDER BY seq LIMIT 1;
        WHEN 'in front' THEN
            SELECT * INTO c FROM claims
            WHERE key = s.key AND seq < place AND (NOT s.reads OR greatest(expires, kept) > s.at)
            ORDER BY seq DESC LIMIT 1;
        WHEN 'unshared in front' THEN
            SELECT * INTO c FROM claims
            WHERE key || '' = s.key AND state = 'waiting' AND mode <> 'shared' AND seq < place
                AND (NOT s.reads OR greatest(expires, kept) > s.at)
            ORDER BY seq DESC LIMIT 1;
        WHEN 'unshared behind' THEN
            SELECT * INTO c FROM claims
            WHERE key || '' = s.key AND state = 'waiting' AND mode <> 'shared' AND seq > place
            ORDER BY seq LIMIT 1;
        END CASE;
        IF c.v > s.v THEN
            IF s.lenient THEN
                RETURN none;
            END IF;
            PERFORM newer_1('line', c.v);
        END IF;
        EXIT WHEN c.seq IS NULL OR ends_1(c) > s.at;
        PERFORM prune_1(s);
    END LOOP;
    RETURN c;
END $$;

-- The slot that c would get where the first in line is of its family: the lowest that
-- nobody has; NULL: it isn't c's turn.
CREATE OR REPLACE FUNCTION slot_1(s step, c claims) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    l claims;
    dead boolean;
    front bigint;
    taken bigint[];
    free bigint := 0;
BEGIN
    LOOP
        dead := false;
        front := 0;
        taken := '{}';
        FOR l IN SELECT * FROM claims
            WHERE key = s.key AND seq <> s.without AND (NOT s.reads OR greatest(expires, kept) > s.at)
            ORDER BY seq LIMIT c.slots
        LOOP
            IF l.v > s.v AND NOT s.lenient THEN
                PERFORM newer_1('line', l.v);
            END IF;
            dead := l.v <= s.v AND ends_1(l) <= s.at;
            EXIT WHEN dead OR l.seq > c.seq AND NOT family_1(l, c);
            IF NOT family_1(l, c) THEN
                RETURN NULL;
            END IF;
            IF l.seq < c.seq THEN
                front := front + 1;
            END IF;
            IF l.state <> 'waiting' THEN
                taken := taken || l.slot;
            END IF;
        END LOOP;
        EXIT WHEN NOT dead;
        PERFORM prune_1(s);
    END LOOP;
    IF front >= c.slots THEN
        RETURN NULL;
    END IF;
    WHILE free = ANY (taken) LOOP
        free := free + 1;
    END LOOP;
    RETURN free;
END $$;

-- Whether c may hold beside all in front of it, in a line that begins with first, whose seq
-- is NULL where nobody is in it: the slot that it gets, 0 for other modes; NULL: it may not.
CREATE OR REPLACE FUNCTION turn_1(s step, c claims, first claims) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF first.seq IS NULL THEN
        RETURN 0;
    ELSIF c.mode = 'slots' AND family_1(c, first) THEN
        RETURN slot_1(s, c);
    ELSIF first.seq = c.seq THEN
        RETURN 0;
    ELSIF family_1(c, first) AND (meet_1(s, 'unshared in front', c.seq)).seq IS NULL THEN
        RETURN 0;
    END IF;
    RETURN NULL;
END $$;

-- Wakes who waits at these places.
CREATE OR REPLACE FUNCTION wake_1(s step, seqs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    place bigint;
    woken text;
BEGIN
    FOREACH place IN ARRAY seqs LOOP
        UPDATE claims SET called = true WHERE key = s.key AND seq = place RETURNING id INTO woken;
        PERFORM notify_1(woken);
    END LOOP;
END $$;

-- Wakes who listens for what happens to an ID. A channel's name has 63 bytes at most.
CREATE OR REPLACE FUNCTION notify_1(id text) RETURNS void LANGUAGE sql AS $$ SELECT pg_notify('flockd_' || left(id, 50), '') $$;

-- next's place, if its turn has come.
CREATE OR REPLACE FUNCTION comes_1(s step, next claims) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    IF next.seq IS NULL OR turn_1(s, next, meet_1(s, 'behind', 0)) IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY[next.seq];
END $$;

-- Who waits behind c for a shared hold, up to the next unshared claim.
CREATE OR REPLACE FUNCTION shared_1(s step, c claims) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    e claims := meet_1(s, 'unshared behind', c.seq);
BEGIN
    RETURN ARRAY(SELECT seq FROM claims
        WHERE key = s.key AND state = 'waiting' AND mode = 'shared' AND seq > c.seq AND seq < coalesce(e.seq, 9223372036854775807));
END $$;

-- Wakes whom c, which has left the line, kept from holding: the shared ones behind an
-- unshared one, all at once; of others the first. Where that's nobody, the one that waited
-- for c's own turn is woken: it has to learn what it waits for now.
CREATE OR REPLACE FUNCTION freed_1(s step, c claims) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    next claims;
    seqs bigint[];
BEGIN
    s.lenient := true;
    next := meet_1(s, 'behind', c.seq);
    IF next.seq IS NULL THEN
        RETURN;
    END IF;
    IF next.mode = 'exclusive' OR next.mode = 'slots' AND next.state = 'waiting' THEN
        seqs := comes_1(s, next);
    ELSIF next.mode = 'shared' AND c.mode <> 'shared' THEN
        seqs := comes_1(s, next);
        IF seqs <> '{}' THEN
            seqs := shared_1(s, c);
        END IF;
    ELSE
        seqs := comes_1(s, meet_1(s, 'unshared behind', c.seq));
    END IF;
    IF seqs = '{}' AND c.state = 'waiting' AND next.state = 'waiting' AND (c.mode <> 'shared' OR next.mode <> 'shared') THEN
        seqs := ARRAY[next.seq];
    END IF;
    IF seqs <> '{}' THEN
        PERFORM wake_1(s, seqs);
    END IF;
END $$;

-- Takes c out of the line.
CREATE OR REPLACE FUNCTION leave_1(s step, c claims) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM claims WHERE key = c.key AND seq = c.seq;
    PERFORM freed_1(s, c);
END $$;

-- The notice by which an ID was removed or asked to leave the line, '' if it was released,
-- NULL if it isn't forbidden.
CREATE OR REPLACE FUNCTION told_1(s step, me text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    e ended;
BEGIN
    SELECT * INTO e FROM ended WHERE id = me AND (key = s.key) IS TRUE AND until > s.at;
    IF e.v > s.v THEN
        PERFORM newer_1('line', e.v);
    END IF;
    RETURN e.notice;
END $$;

-- Keeps how a hold ended as the key's last run.
CREATE OR REPLACE FUNCTION record_1(s step, c claims, class text, exit bigint, success boolean, notice text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    run text := json_build_object('v', s.v, 'owner', c.owner, 'token', c.token, 'start', c.granted, 'end', s.at,
        'class', class, 'exit', exit, 'notice', notice);
BEGIN
    UPDATE keys k SET last = run, success = CASE WHEN record_1.success THEN run ELSE k.success END, used_day = s.at / 86400000000
    WHERE k.key = s.key;
END $$;

-- A claim as the client is shown it.
CREATE OR REPLACE FUNCTION shown_1(c claims) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT json_build_object('v', c.v, 'id', c.id, 'state', c.state, 'mode', c.mode, 'slots', c.slots, 'slot', c.slot,
        'token', c.token, 'owner', c.owner, 'asked', c.asked, 'granted', c.granted, 'renewed', c.renewed, 'expires', c.expires,
        'kept', c.kept, 'notice', c.notice)::text
$$;

-- The entry of a completed run, or NULL.
CREATE OR REPLACE FUNCTION done_1(s step, which bytea) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    e ledger;
BEGIN
    SELECT * INTO e FROM ledger WHERE key = s.key AND run = which AND (forgets = 0 OR forgets > s.at);
    IF e.v > s.v THEN
        PERFORM newer_1('completed run', e.v);
    END IF;
    RETURN entry_1(e);
END $$;

CREATE OR REPLACE FUNCTION entry_1(e ledger) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT json_build_object('v', e.v, 'run', encode(e.run, 'hex'), 'token', e.token, 'owner', e.owner, 'at', e.at,
        'forgets', e.forgets)::text WHERE e.seq IS NOT NULL
$$;

-- Acquire: what a question comes to.

-- question is what a client asks; acquire_1 says what its parts are.
DO $$ BEGIN
    CREATE TYPE question AS (
        id text, ttl bigint, place bigint, minhold bigint, until bigint,
        once text, run bytea, first bigint, last bigint, keep bigint
    );
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;

-- Who is in the way of c: the answer "held", and who holds or cools, or if nobody does, the
-- first in line. notice is what was left for c's place.
CREATE OR REPLACE FUNCTION held_1(s step, c claims, first claims, made boolean) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    last constant bigint := 9223372036854775807;
    l claims;
    before claims := first;
    soonest bigint;
    listed text[] := '{}';
    n bigint := 0;
    waiters bigint;
    ahead bigint;
BEGIN
    FOR l IN SELECT * FROM claims WHERE key = s.key AND greatest(expires, kept) > s.at ORDER BY seq LOOP
        EXIT WHEN l.seq <> first.seq AND NOT family_1(l, first) OR first.mode = 'slots' AND n = first.slots;
        soonest := least(soonest, ends_1(l));
        n := n + 1;
        IF l.state <> 'waiting' THEN
            listed := listed || shown_1(l);
        END IF;
    END LOOP;
    IF listed = '{}' THEN
        listed := ARRAY[shown_1(first)];
    END IF;
    IF c.seq < last AND c.seq <> first.seq THEN
        before := meet_1(s, CASE c.mode WHEN 'shared' THEN 'unshared in front' ELSE 'in front' END, c.seq);
        IF before.seq IS NULL THEN
            before := first;
        END IF;
    END IF;
    IF c.seq = last OR c.mode <> 'slots' OR before.state = 'waiting' THEN
        soonest := NULL;
    END IF;
    SELECT count(*), count(*) FILTER (WHERE seq < c.seq) INTO waiters, ahead FROM claims
    WHERE key = s.key AND state = 'waiting' AND expires > s.at AND seq <> c.seq;
    RETURN NEXT json_build_object('is', 'held', 'now', s.at, 'waiters', waiters, 'ahead', ahead,
        'retry', greatest(least(soonest, ends_1(before)) - s.at, 0), 'notice', c.notice, 'made', made);
    RETURN QUERY SELECT unnest(listed);
END $$;

-- Makes c, which waits or comes only now, the hold of a slot.
CREATE OR REPLACE FUNCTION grant_1(s step, q question, c claims, slot bigint, made boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    waited constant boolean := c.seq < 9223372036854775807;
    place bigint;
BEGIN
    UPDATE keys SET token = greatest(token + 1, s.at), places = places + CASE WHEN waited THEN 0 ELSE 1 END, used_day = s.at / 86400000000
    WHERE key = s.key RETURNING token, places INTO c.token, place;
    IF c.token > 9007199254740991 THEN -- 2^53 - 1: JSON keeps no larger number
        PERFORM answer_1('{"is":"clock"}');
    END IF;
    c.state := 'holding';
    c.slot := slot;
    c.run := CASE WHEN q.once <> '' THEN q.run END;
    c.keep := q.keep;
    c.granted := s.at;
    c.renewed := s.at;
    c.expires := s.at + q.ttl;
    c.kept := CASE WHEN q.minhold > 0 THEN s.at + q.minhold ELSE 0 END;
    IF waited THEN
        UPDATE claims l SET state = c.state, slot = c.slot, token = c.token, granted = c.granted, renewed = c.renewed,
            expires = c.expires, kept = c.kept, called = false, run = c.run, keep = c.keep
        WHERE l.key = s.key AND l.seq = c.seq;
    ELSE
        c.seq := place;
        INSERT INTO claims SELECT c.*;
    END IF;
    IF waited AND c.mode = 'slots' THEN -- the next one waited for this turn, and another slot may be free
        PERFORM wake_1(s, comes_1(s, meet_1(s, 'unshared behind', c.seq)));
    END IF;
    RETURN granted_1(s, c, made);
END $$;

CREATE OR REPLACE FUNCTION granted_1(s step, c claims, made boolean) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT json_build_object('is', 'granted', 'now', s.at, 'token', c.token, 'granted', c.granted, 'slot', c.slot,
        'mode', c.mode, 'run', coalesce(encode(c.run, 'hex'), ''), 'keep', c.keep, 'made', made)::text
$$;

-- Takes or keeps a place for c, and returns it.
CREATE OR REPLACE FUNCTION stand_1(s step, c claims, place bigint) RETURNS claims LANGUAGE plpgsql AS $$
BEGIN
    c.renewed := s.at;
    c.expires := greatest(c.expires, s.at + place);
    IF c.seq < 9223372036854775807 THEN
        UPDATE claims SET renewed = c.renewed, expires = c.expires, called = false WHERE key = s.key AND seq = c.seq;
    ELSE
        UPDATE keys SET places = places + 1, used_day = s.at / 86400000000 WHERE key = s.key RETURNING places INTO c.seq;
        INSERT INTO claims SELECT c.*;
    END IF;
    RETURN c;
END $$;

-- What doesn't depend on the line: the ID is forbidden, mine cools, the clock is at another
-- run, the run has succeeded. No row where it's none of these.
CREATE OR REPLACE FUNCTION settled_1(s step, q question, mine claims) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    told constant text := told_1(s, q.id);
    waits constant boolean := coalesce(mine.state = 'waiting', false);
    entry text;
BEGIN
    IF told IS NOT NULL AND NOT waits THEN
        RETURN NEXT json_build_object('is', 'lost', 'notice', told);
        RETURN;
    ELSIF q.once <> '' AND s.at NOT BETWEEN q.first AND q.last THEN
        RETURN NEXT json_build_object('is', 'another', 'now', s.at);
        RETURN;
    ELSIF q.once <> '' THEN
        entry := done_1(s, q.run);
    END IF;
    IF entry IS NOT NULL THEN
        IF waits THEN
            PERFORM leave_1(s, mine);
        END IF;
        RETURN QUERY VALUES ('{"is":"done"}'), (entry);
    ELSIF mine.seq IS NOT NULL AND NOT waits THEN
        RETURN NEXT '{"is":"lost","notice":""}';
    END IF;
END $$;

-- The answer for who wants no place and has none, where that takes no more than a look: no
-- row where the key may be free.
CREATE OR REPLACE FUNCTION glance_1(s step, q question, c claims) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    first claims;
BEGIN
    s.reads := true;
    PERFORM FROM claims WHERE id = q.id AND (key = s.key) IS TRUE;
    IF FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT settled_1(s, q, NULL);
    IF FOUND THEN
        RETURN;
    END IF;
    first := meet_1(s, 'behind', 0);
    IF turn_1(s, c, first) IS NULL THEN
        RETURN QUERY SELECT held_1(s, c, first, false);
    END IF;
END $$;

-- c, unless it has ended: then it is removed, and the seq is NULL.
CREATE OR REPLACE FUNCTION live_1(s step, c claims) RETURNS claims LANGUAGE plpgsql AS $$
BEGIN
    IF ends_1(c) <= s.at THEN
        DELETE FROM claims WHERE key = s.key AND seq = c.seq;
        RETURN NULL;
    END IF;
    RETURN c;
END $$;

-- What a question comes to once the key is locked, and mine, the ID's claim; c is the claim of
-- who isn't in line yet.
CREATE OR REPLACE FUNCTION decide_1(s step, q question, mine claims, c claims, made boolean) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    first claims;
    slot bigint;
BEGIN
    IF mine.state = 'holding' AND mine.expires > s.at THEN
        UPDATE claims SET renewed = s.at, expires = s.at + q.ttl WHERE key = s.key AND seq = mine.seq;
        RETURN NEXT granted_1(s, mine, made);
        RETURN;
    END IF;
    RETURN QUERY SELECT settled_1(s, q, mine);
    IF FOUND THEN
        RETURN;
    END IF;
    IF mine.seq IS NOT NULL THEN
        c := mine;
    END IF;
    first := meet_1(s, 'behind', 0);
    slot := turn_1(s, c, first);
    IF slot IS NOT NULL AND c.notice = '' THEN
        RETURN NEXT grant_1(s, q, c, slot, made);
        RETURN;
    END IF;
    IF q.place > 0 THEN
        c := stand_1(s, c, q.place);
    END IF;
    RETURN QUERY SELECT held_1(s, c, CASE WHEN c.seq = first.seq THEN c ELSE first END, made);
END $$;

-- Asks once for a hold. until: the instant from which on nobody waits for the answer (0:
-- unknown). once: '' (a run that may be repeated), i (by its name) or p (by period); then the
-- run, the first and the last instant at which a grant is for that one, and for how long its
-- success is kept. A key that is taken is refused by reads alone where no place is wanted.
CREATE OR REPLACE FUNCTION acquire_1(key bytea, id text, v integer, ttl bigint, place bigint, minhold bigint, mode text, slots bigint,
    owner text, until bigint, once text, run bytea, first bigint, last bigint, keep bigint)
RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    s step := (key, v, clock_1(), 0, false, false);
    q constant question := (id, ttl, place, minhold, until, once, run, first, last, keep);
    c claims := (key, 9223372036854775807, id, v, 'waiting', mode, slots, 0, 0, s.at, 0, s.at, 0, 0, owner, '', false, false,
        CASE once WHEN 'i' THEN run WHEN 'p' THEN '' END, 0);
    mine claims;
    made boolean := false;
BEGIN
    IF place = 0 THEN
        RETURN QUERY SELECT glance_1(s, q, c);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    made := enter_1(key, v);
    mine := mine_1(s, id);
    s.at := clock_1();
    c.asked := s.at;
    RETURN QUERY SELECT decide_1(s, q, live_1(s, mine), c, made);
    IF until > 0 AND clock_1() > until THEN -- a lock may have been waited for
        PERFORM answer_1(json_build_object('is', 'late', 'now', clock_1()));
    END IF;
END $$;

-- The other steps. Each is one statement of the client's, in a transaction of READ COMMITTED, and
-- returns its answer and then what it lists, JSON each.

-- Proves and extends a hold; never makes one. It locks no more than the hold's own row, and
-- looks at the clock once it has it: whoever else had it may have kept it past the hold's end.
CREATE OR REPLACE FUNCTION renew_1(key bytea, id text, v integer, ttl bigint) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    s step := (key, v, 0, 0, false, false);
    c claims;
BEGIN
    PERFORM durably_1();
    c := mine_1(s, id);
    s.at := clock_1();
    IF c.state = 'holding' AND c.expires > s.at THEN
        UPDATE claims l SET renewed = s.at, expires = s.at + ttl, told = c.notice <> '' WHERE l.key = s.key AND l.seq = c.seq;
        RETURN NEXT json_build_object('is', 'renewed', 'notice', c.notice);
    ELSE
        RETURN NEXT json_build_object('is', 'lost', 'notice', coalesce(told_1(s, id), ''));
    END IF;
END $$;

-- Takes c, which has ended, out of the line, or lets it cool. Those whose turn would have
-- come are woken then too, to learn when it will.
CREATE OR REPLACE FUNCTION end_1(s step, c claims) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF c.kept > s.at THEN
        UPDATE claims SET state = 'cooling', expires = least(expires, s.at) WHERE key = s.key AND seq = c.seq;
        s.without := c.seq;
        PERFORM freed_1(s, c);
    ELSE
        PERFORM leave_1(s, c);
    END IF;
END $$;

-- Drops a few of the key's IDs that are forbidden no more, and of its runs that are to be
-- forgotten.
CREATE OR REPLACE FUNCTION tidy_1(s step) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM ended WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ended WHERE key = s.key AND until <= s.at ORDER BY until LIMIT 16));
    DELETE FROM ledger WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ledger WHERE key = s.key AND forgets > 0 AND forgets <= s.at ORDER BY forgets LIMIT 16));
END $$;

-- Ends a hold or a place, and forbids the ID for that long. ran: something did under the
-- hold, which class, exit, success and notice tell of.
CREATE OR REPLACE FUNCTION release_1(key bytea, id text, v integer, tombstone bigint, ran boolean, class text, exit bigint, success boolean,
    notice text)
RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    s step := (key, v, 0, 0, false, false);
    c claims;
    ended boolean;
    said text;
BEGIN
    PERFORM enter_1(key, v);
    c := mine_1(s, id);
    s.at := clock_1();
    c := live_1(s, c);
    ended := c.seq IS NULL OR c.state = 'cooling' OR c.expires <= s.at;
    said := coalesce(told_1(s, id), '');
    INSERT INTO ended AS e (key, id, v, until, notice) VALUES (s.key, id, v, s.at + tombstone, said)
    ON CONFLICT ON CONSTRAINT ended_pkey DO UPDATE SET until = greatest(e.until, excluded.until), notice = excluded.notice;
    IF ran AND NOT ended AND c.state = 'holding' THEN
        PERFORM record_1(s, c, class, exit, success, notice);
    END IF;
    IF c.seq IS NOT NULL THEN
        PERFORM end_1(s, c);
    END IF;
    PERFORM tidy_1(s);
    RETURN NEXT json_build_object('is', CASE WHEN ended THEN 'lost' ELSE 'released' END, 'notice', said);
END $$;

-- Leaves a notice for a claim, or with force removes it. waiting: it is for one that waits
-- alone. remember: for how long what was asked of an ID is told.
CREATE OR REPLACE FUNCTION ask_1(key bytea, id text, v integer, notice text, force boolean, waiting boolean, remember bigint)
RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    s step := (key, v, 0, 0, false, false);
    c claims;
BEGIN
    PERFORM durably_1();
    PERFORM FROM keys k WHERE k.key = s.key FOR NO KEY UPDATE;
    c := mine_1(s, id);
    s.at := clock_1();
    IF told_1(s, id) = notice THEN -- it was asked before
        RETURN NEXT '{"is":"asked"}';
        RETURN;
    END IF;
    c := live_1(s, c);
    IF c.seq IS NULL OR waiting AND c.state <> 'waiting' THEN
        RETURN NEXT '{"is":"missing"}';
        RETURN;
    END IF;
    PERFORM asked_1(s, c, notice, force, remember);
    RETURN NEXT '{"is":"asked"}';
END $$;

CREATE OR REPLACE FUNCTION asked_1(s step, c claims, notice text, force boolean, remember bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF force OR c.state = 'waiting' THEN
        INSERT INTO ended (key, id, v, until, notice) VALUES (s.key, c.id, s.v, s.at + remember, asked_1.notice)
        ON CONFLICT ON CONSTRAINT ended_pkey DO UPDATE SET until = excluded.until, notice = excluded.notice;
    END IF;
    IF force THEN
        IF c.state = 'holding' AND c.expires > s.at THEN
            PERFORM record_1(s, c, 'broken', 0, false, notice);
        END IF;
        PERFORM leave_1(s, c);
    ELSE
        UPDATE claims l SET notice = asked_1.notice, told = false WHERE l.key = s.key AND l.seq = c.seq;
    END IF;
    PERFORM notify_1(c.id);
END $$;

-- Whether something was done to the claim that its client hasn't heard of: the place is gone,
-- or somebody made it its turn or left a notice; the hold is gone, or no renewal has told of
-- its notice. A place without news is told how many wait in front of it, 50 at most: it looks
-- the more seldom.
CREATE OR REPLACE FUNCTION poll_1(key bytea, id text, v integer) RETURNS SETOF text STABLE LANGUAGE plpgsql AS $$
DECLARE
    c claims;
    news boolean;
    front bigint;
BEGIN
    SELECT * INTO c FROM claims l WHERE l.id = poll_1.id AND (l.key = poll_1.key) IS TRUE;
    IF c.v > poll_1.v THEN
        PERFORM newer_1('line', c.v);
    END IF;
    news := CASE
        WHEN c.seq IS NULL OR c.state = 'cooling' OR c.expires <= clock_1() THEN true
        WHEN c.state = 'waiting' THEN c.called OR c.notice <> ''
        ELSE c.notice <> '' AND NOT c.told
    END;
    IF c.state = 'waiting' AND NOT news THEN
        SELECT count(*) INTO front FROM (
            SELECT FROM claims l WHERE l.key = poll_1.key AND l.state = 'waiting' AND l.seq < c.seq LIMIT 50) AS waiters;
    END IF;
    RETURN NEXT json_build_object('news', news, 'front', front);
END $$;

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

-- What flockd's user needs.
GRANT USAGE ON SCHEMA "flockd" TO "flockd";
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "flockd" TO "flockd";
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "flockd" TO "flockd";
COMMIT;
