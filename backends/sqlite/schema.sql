-- What the sqlite driver keeps. Durations and instants end in what they are
-- of: mono is nanoseconds of the host's CLOCK_MONOTONIC, which mean something
-- only within one boot; wall is microseconds since 1970, for display and for what
-- outlasts a boot.

-- The one counter that every token comes from: token.go says how.
CREATE TABLE tokens (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    boot    TEXT    NOT NULL,
    last    INTEGER NOT NULL, -- the largest token handed out in this boot
    ceiling INTEGER NOT NULL  -- no larger token is handed out before this is raised, durably
);
INSERT INTO tokens VALUES (1, '', 0, 0);

-- The lines of all keys, in the order of seq.
CREATE TABLE claims (
    seq          INTEGER PRIMARY KEY,
    v            INTEGER NOT NULL, -- version of this record
    prefix       TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    id           TEXT    NOT NULL UNIQUE,
    state        TEXT    NOT NULL, -- waiting, holding or cooling
    mode         TEXT    NOT NULL,
    slots        INTEGER NOT NULL,
    slot         INTEGER NOT NULL,
    token        INTEGER NOT NULL, -- 0 while waiting
    boot         TEXT    NOT NULL, -- whose clock the next five are of
    asked_mono   INTEGER NOT NULL,
    granted_mono INTEGER NOT NULL,
    renewed_mono INTEGER NOT NULL,
    expires_mono INTEGER NOT NULL, -- of the place, the lease or the cooling
    kept_mono    INTEGER NOT NULL, -- grant + min-hold: taken until then, even if the lease ends; 0: no longer
    owner        TEXT    NOT NULL, -- JSON
    notice       TEXT    NOT NULL DEFAULT '', -- JSON; empty: none
    told         INTEGER NOT NULL DEFAULT 0, -- 1: a renewal has told of the notice
    run          TEXT,                       -- which isn't repeated; NULL: none; empty while it waits: that of the period by then
    keep         INTEGER NOT NULL DEFAULT 0  -- how long the run's success is kept, in ns; 0: for ever
);
CREATE INDEX line ON claims (prefix, key, seq);
-- Who waits, those for an unshared hold first: to count them, and to find the next one of a kind.
CREATE INDEX places ON claims (prefix, key, mode = 'shared', seq, expires_mono) WHERE state = 'waiting';

-- IDs that were released: an acquire overtaken by its own release finds itself here. And those
-- that were removed, or asked to leave the line: they are told by whom.
CREATE TABLE ended (
    id         TEXT    PRIMARY KEY,
    boot       TEXT    NOT NULL,
    until_mono INTEGER NOT NULL,
    seq        INTEGER NOT NULL DEFAULT 0, -- the place of its claim; 0: released
    notice     TEXT    NOT NULL DEFAULT '' -- JSON; empty: released
) WITHOUT ROWID;
CREATE INDEX forgotten ON ended (until_mono);

-- Each key's last run, and its last one that succeeded.
CREATE TABLE runs (
    prefix     TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    success    INTEGER NOT NULL, -- 0: the last run; 1: the last success
    v          INTEGER NOT NULL,
    owner      TEXT    NOT NULL, -- JSON
    token      INTEGER NOT NULL,
    start_wall INTEGER NOT NULL,
    end_wall   INTEGER NOT NULL,
    class      TEXT    NOT NULL,
    exit       INTEGER NOT NULL,
    notice     TEXT    NOT NULL DEFAULT '', -- JSON; empty: none
    PRIMARY KEY (prefix, key, success)
) WITHOUT ROWID;

-- Each key's runs that have succeeded and aren't repeated.
CREATE TABLE ledger (
    prefix       TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    run          TEXT    NOT NULL,
    v            INTEGER NOT NULL,
    token        INTEGER NOT NULL,
    owner        TEXT    NOT NULL, -- JSON
    at_wall      INTEGER NOT NULL,
    forgets_wall INTEGER NOT NULL, -- 0: kept for ever
    PRIMARY KEY (prefix, key, run)
) WITHOUT ROWID;
CREATE INDEX forgets ON ledger (forgets_wall) WHERE forgets_wall > 0;
