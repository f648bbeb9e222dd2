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
