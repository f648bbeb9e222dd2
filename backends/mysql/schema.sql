-- What flockd keeps in MySQL or MariaDB. The procedures by which it does each step are in the
-- other files, which follow this one.
--
-- The tables are InnoDB's, whatever the default engine: no other has transactions and locks
-- of rows. Keys and runs are binary, so that no collation takes two of them for one; all
-- else is ASCII and compared by its bytes. Rows are DYNAMIC, for the older formats index no
-- more than 767 bytes and a key has up to 512.
--
-- Instants are µs since 1970, by the server's clock; 0 is none. Durations are µs. owner and
-- notice are JSON in a text, of which nothing is decided here. v is the version of a row.
-- Parameters begin with p_ and variables with v_, for a procedure takes columns of the same
-- names for them otherwise. + 0 is for MariaDB, to which a variable is text in JSON. Answers
-- are sent as BINARY: in what character set a session wants (sjis, say), JSON may be none.
DELIMITER //
SET NAMES utf8mb4
//
SET SESSION TRANSACTION READ WRITE
//
-- What a procedure was created with, it keeps: so the session's mode is of no matter later.
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'
//
-- The keys. Whoever changes a line or the ledger locks the key's row first.
CREATE TABLE IF NOT EXISTS flockd_keys (
    k      VARBINARY(512) NOT NULL PRIMARY KEY,
    v      INT            NOT NULL,
    token  BIGINT         NOT NULL, -- the last one; 0: none yet
    places BIGINT         NOT NULL, -- the last seq given to a claim or an entry of the ledger
    used   INT            NOT NULL, -- the day of the last grant, since 1970; see drop
    KEY used (used)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin COMMENT = 'flockd schema 1'
//
-- The lines, in the order of seq. The primary key is what a renewal finds its row by, so
-- that it locks nothing else; no lock is taken by way of the index of what it changes.
CREATE TABLE IF NOT EXISTS flockd_claims (
    k        VARBINARY(512) NOT NULL,
    id       VARCHAR(64)    NOT NULL,
    seq      BIGINT         NOT NULL,
    v        INT            NOT NULL,
    state    VARCHAR(8)     NOT NULL, -- waiting, holding or cooling
    mode     VARCHAR(9)     NOT NULL,
    slots    INT            NOT NULL,
    slot     INT            NOT NULL,
    token    BIGINT         NOT NULL, -- 0 while waiting
    asked    BIGINT         NOT NULL,
    granted  BIGINT         NOT NULL,
    renewed  BIGINT         NOT NULL,
    expires  BIGINT         NOT NULL, -- of the place or the lease
    kept     BIGINT         NOT NULL, -- grant + min-hold: taken until then, even if the lease ends
    ends     BIGINT         NOT NULL, -- the later of the two: when the claim leaves the line
    waits    TINYINT        NOT NULL, -- 1: state is waiting
    unshared TINYINT        NOT NULL, -- 0: mode is shared
    owner    TEXT           NOT NULL,
    notice   TEXT           NOT NULL, -- empty: none
    told     TINYINT        NOT NULL, -- 1: a renewal has told of the notice
    called   TINYINT        NOT NULL, -- 1: its turn has come, or it has something else to hear
    run      VARBINARY(512),          -- which isn't repeated; NULL: none; empty while it waits: that of the period by then
    keep     BIGINT         NOT NULL, -- how long the run's success is kept; 0: for ever
    PRIMARY KEY (k, id),
    UNIQUE KEY line (k, seq),
    KEY places (k, waits, unshared, seq),
    KEY endings (k, ends)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin COMMENT = 'flockd schema 1'
//
-- IDs that were released: an acquire overtaken by its own release finds itself here. And those
-- that were removed, or asked to leave the line: they are told by whom.
CREATE TABLE IF NOT EXISTS flockd_ended (
    k         VARBINARY(512) NOT NULL,
    id        VARCHAR(64)    NOT NULL,
    forbidden BIGINT         NOT NULL, -- until when
    notice    TEXT           NOT NULL, -- empty: released
    PRIMARY KEY (k, id),
    KEY forgotten (k, forbidden)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin COMMENT = 'flockd schema 1'
//
-- Each key's last run, and its last one that succeeded.
CREATE TABLE IF NOT EXISTS flockd_runs (
    k       VARBINARY(512) NOT NULL,
    success TINYINT        NOT NULL, -- 0: the last run; 1: the last success
    v       INT            NOT NULL,
    owner   TEXT           NOT NULL,
    token   BIGINT         NOT NULL,
    began   BIGINT         NOT NULL,
    ended   BIGINT         NOT NULL,
    class   VARCHAR(255)   NOT NULL,
    status  INT            NOT NULL, -- exit status
    notice  TEXT           NOT NULL, -- empty: none
    PRIMARY KEY (k, success)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin COMMENT = 'flockd schema 1'
//
-- Each key's runs that have succeeded and aren't repeated, in the order of seq.
CREATE TABLE IF NOT EXISTS flockd_ledger (
    k         VARBINARY(512) NOT NULL,
    run       VARBINARY(512) NOT NULL,
    seq       BIGINT         NOT NULL,
    v         INT            NOT NULL,
    token     BIGINT         NOT NULL,
    owner     TEXT           NOT NULL,
    completed BIGINT         NOT NULL,
    forgets   BIGINT         NOT NULL, -- 0: kept for ever
    PRIMARY KEY (k, run),
    UNIQUE KEY line (k, seq),
    KEY forgotten (k, forgets)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin COMMENT = 'flockd schema 1'
//
