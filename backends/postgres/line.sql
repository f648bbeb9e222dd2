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
