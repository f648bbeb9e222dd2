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
