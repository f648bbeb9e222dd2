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
