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
-- What the steps have in common.
-- now is the server's clock at this instant. NOW() would be that of the statement's start,
-- and SYSDATE() is by the session's time zone: in one with summer time, an hour a year is
-- there twice. The zone is changed here, for proxies drop what a session has set.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_now_1(OUT p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_zone VARCHAR(64) CHARACTER SET utf8mb4 DEFAULT @@session.time_zone;
    SET SESSION time_zone = '+00:00';
    SET p_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', SYSDATE(6));
    SET SESSION time_zone = v_zone;
END
//
-- primary refuses a server that takes no writes, though it may let this user.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_primary_1()
SQL SECURITY INVOKER
BEGIN
    IF CONCAT(@@global.read_only) NOT IN ('0', 'OFF') THEN
        SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'the server is running with read_only';
    END IF;
END
//
-- look begins to read, all as of one instant, and locks nothing.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_look_1(OUT p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
    ROLLBACK AND NO CHAIN NO RELEASE;
    CALL flockd_primary_1();
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY;
    CALL flockd_now_1(p_now);
END
//
-- start begins a step that writes, and waits for no lock for longer than p_patience s.
-- Each statement sees what was committed before it: what was committed under the lock of
-- the key's row is seen by who has that lock, for InnoDB shows it before it lets go of the
-- lock. Where statements are written to the binary log, only REPEATABLE READ may write: there
-- all is seen as of the first read that locks nothing, which comes after the lock as well.
-- What reads is a SELECT … INTO, never a SET or an IF with a SELECT in it: that would lock
-- what it reads, and so keep renewals waiting.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_start_1(p_patience INT)
SQL SECURITY INVOKER
BEGIN
    ROLLBACK AND NO CHAIN NO RELEASE;
    CALL flockd_primary_1();
    SET SESSION innodb_lock_wait_timeout = p_patience;
    IF @@session.binlog_format = 'STATEMENT' THEN
        SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
    ELSE
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    END IF;
    START TRANSACTION READ WRITE;
END
//
-- lock takes the lock of a key's row, and then looks at the clock. An INSERT that finds the
-- row locks it as one that writes at once: two that shared the lock first would wait for each other.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_lock_1(p_key VARBINARY(512), p_v INT, OUT p_now BIGINT, OUT p_newer INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_v INT;
    INSERT INTO flockd_keys (k, v, token, places, used) VALUES (p_key, p_v, 0, 0, 0)
    ON DUPLICATE KEY UPDATE k = flockd_keys.k;
    SELECT v INTO v_v FROM flockd_keys WHERE k = p_key FOR UPDATE;
    SET p_newer = IF(v_v > p_v, v_v, 0);
    CALL flockd_now_1(p_now);
END
//
-- told is the notice by which an ID was removed or asked to leave, '' if it was released,
-- NULL if it isn't forbidden.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_told_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    p_now BIGINT, OUT p_told TEXT CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER
BEGIN
    SET p_told = NULL;
    SELECT notice INTO p_told FROM flockd_ended WHERE k = p_key AND id = p_id AND forbidden > p_now;
END
//
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_forbid_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    p_until BIGINT, p_notice TEXT CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER
BEGIN
    INSERT INTO flockd_ended (k, id, forbidden, notice) VALUES (p_key, p_id, p_until, p_notice)
    ON DUPLICATE KEY UPDATE forbidden = GREATEST(forbidden, p_until), notice = IF(p_notice = '', notice, p_notice);
END
//
-- The line as a whole, for the steps that move it. None of what follows takes longer in a
-- longer line, except to take out the dead, to count who waits and to call those whose turn
-- has come.
-- fits tells whether a claim may hold beside those in front of it, and which slot it would
-- get: the lowest that nobody has. The line is looked at as it is without one claim (0:
-- without none), and without what has ended by p_dead (0: that has been dropped). Few claims
-- are looked at, however many wait: who holds is in front of those who wait, and all are of
-- one family.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_fits_1(p_key VARBINARY(512), p_seq BIGINT, p_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin,
    p_slots INT, p_without BIGINT, p_dead BIGINT, OUT p_fits TINYINT, OUT p_slot INT)
SQL SECURITY INVOKER
this: BEGIN
    DECLARE v_first BIGINT;
    DECLARE v_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_slots, v_front, v_others INT;
    SET p_fits = 1, p_slot = 0;
    SELECT seq, mode, slots INTO v_first, v_mode, v_slots FROM flockd_claims FORCE INDEX (line)
    WHERE k = p_key AND seq <> p_without AND ends > p_dead ORDER BY seq LIMIT 1;
    IF v_first IS NULL OR v_first = p_seq AND p_mode <> 'slots' THEN
        LEAVE this;
    END IF;
    IF p_mode = 'exclusive' OR p_mode <> v_mode OR p_slots <> v_slots THEN
        SET p_fits = v_first = p_seq;
        LEAVE this;
    END IF;
    IF p_mode = 'shared' THEN
        SELECT NOT EXISTS (
            SELECT 1 FROM flockd_claims FORCE INDEX (places)
            WHERE k = p_key AND waits = 1 AND unshared = 1 AND seq < p_seq AND seq <> p_without AND ends > p_dead) INTO p_fits;
        LEAVE this;
    END IF;
    SELECT COUNT(*), IFNULL(SUM(mode <> p_mode OR slots <> p_slots), 0) INTO v_front, v_others FROM (
        SELECT mode, slots FROM flockd_claims FORCE INDEX (line)
        WHERE k = p_key AND seq < p_seq AND seq <> p_without AND ends > p_dead ORDER BY seq LIMIT p_slots) AS front;
    SET p_fits = v_front < p_slots AND v_others = 0;
    IF p_fits AND p_dead = 0 AND p_without = 0 THEN
        CALL flockd_slot_1(p_key, p_slot);
    END IF;
END
//
-- slot is the lowest that nobody has.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_slot_1(p_key VARBINARY(512), OUT p_slot INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_taken INT;
    DECLARE v_end TINYINT DEFAULT 0;
    DECLARE v_all CURSOR FOR SELECT slot FROM flockd_claims FORCE INDEX (places) WHERE k = p_key AND waits = 0 ORDER BY slot;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_end = 1;
    SET p_slot = 0;
    OPEN v_all;
    search: LOOP
        FETCH v_all INTO v_taken;
        IF v_end OR v_taken > p_slot THEN
            LEAVE search;
        END IF;
        SET p_slot = v_taken + 1;
    END LOOP;
    CLOSE v_all;
END
//
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_call_1(p_key VARBINARY(512), p_seq BIGINT)
SQL SECURITY INVOKER
BEGIN
    UPDATE flockd_claims SET called = 1 WHERE k = p_key AND seq = p_seq AND waits = 1;
END
//
-- next calls the first behind a place that waits for an unshared hold, if its turn has come.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_next_1(p_key VARBINARY(512), p_seq BIGINT, p_without BIGINT, OUT p_called TINYINT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_next BIGINT;
    DECLARE v_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_slots, v_slot INT;
    SET p_called = 0;
    SELECT seq, mode, slots INTO v_next, v_mode, v_slots FROM flockd_claims FORCE INDEX (places)
    WHERE k = p_key AND waits = 1 AND unshared = 1 AND seq > p_seq ORDER BY seq LIMIT 1;
    IF v_next IS NOT NULL THEN
        CALL flockd_fits_1(p_key, v_next, v_mode, v_slots, p_without, 0, p_called, v_slot);
        IF p_called THEN
            CALL flockd_call_1(p_key, v_next);
        END IF;
    END IF;
END
//
-- together calls those who wait behind a place for a shared hold, up to the next unshared
-- claim, if the turn of the first of them has come.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_together_1(p_key VARBINARY(512), p_seq BIGINT, p_first BIGINT, p_without BIGINT, OUT p_called TINYINT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_slot INT;
    DECLARE v_end BIGINT;
    CALL flockd_fits_1(p_key, p_first, 'shared', 0, p_without, 0, p_called, v_slot);
    IF p_called THEN
        SELECT MIN(seq) INTO v_end FROM flockd_claims FORCE INDEX (places)
        WHERE k = p_key AND waits = 1 AND unshared = 1 AND seq > p_seq;
        UPDATE flockd_claims FORCE INDEX (places) SET called = 1
        WHERE k = p_key AND waits = 1 AND unshared = 0 AND seq > p_seq AND seq < IFNULL(v_end, 9223372036854775807);
    END IF;
END
//
-- freed calls those whom a claim kept from holding, which has left the line or is the one
-- without which it is looked at: the shared ones behind an unshared one, all at once; of
-- others the first. Where that is nobody, the one that waited for a waiter's own turn is
-- called: it has to learn what it waits for now.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_freed_1(p_key VARBINARY(512), p_seq BIGINT, p_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin,
    p_waited TINYINT, p_without BIGINT)
SQL SECURITY INVOKER
this: BEGIN
    DECLARE v_next BIGINT;
    DECLARE v_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_slots, v_slot INT;
    DECLARE v_waits, v_called TINYINT DEFAULT 0;
    SELECT seq, mode, slots, waits INTO v_next, v_mode, v_slots, v_waits FROM flockd_claims FORCE INDEX (line)
    WHERE k = p_key AND seq > p_seq ORDER BY seq LIMIT 1;
    IF v_next IS NULL THEN
        LEAVE this;
    END IF;
    IF v_mode = 'exclusive' OR v_mode = 'slots' AND v_waits THEN
        CALL flockd_fits_1(p_key, v_next, v_mode, v_slots, p_without, 0, v_called, v_slot);
        IF v_called THEN
            CALL flockd_call_1(p_key, v_next);
        END IF;
    ELSEIF v_mode = 'shared' AND p_mode <> 'shared' THEN
        CALL flockd_together_1(p_key, p_seq, v_next, p_without, v_called);
    ELSE
        CALL flockd_next_1(p_key, p_seq, p_without, v_called);
    END IF;
    IF NOT v_called AND p_waited AND v_waits AND (p_mode <> 'shared' OR v_mode <> 'shared') THEN
        CALL flockd_call_1(p_key, v_next);
    END IF;
END
//
-- leave takes a claim out of the line.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_leave_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_seq BIGINT,
    p_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin, p_waited TINYINT)
SQL SECURITY INVOKER
BEGIN
    DELETE FROM flockd_claims WHERE k = p_key AND id = p_id;
    CALL flockd_freed_1(p_key, p_seq, p_mode, p_waited, 0);
END
//
-- prune takes out of a key's line what has ended. The DELETE waits for a renewal in flight
-- and looks again: what is still there after it is alive. Of thousands that died at once only
-- the first few are asked whom they kept waiting, and then the front of the line. Rows of a
-- newer version stay; the version is that of one of them, or 0.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_prune_1(p_key VARBINARY(512), p_v INT, p_now BIGINT, OUT p_newer INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_seq BIGINT;
    DECLARE v_waited, v_end TINYINT DEFAULT 0;
    DECLARE v_gone INT DEFAULT 0;
    DECLARE v_dead CURSOR FOR
        SELECT id, seq, mode, waits FROM flockd_claims WHERE k = p_key AND ends <= p_now AND v <= p_v ORDER BY seq;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_end = 1;
    SELECT IFNULL(MAX(v), 0) INTO p_newer FROM flockd_claims FORCE INDEX (endings) WHERE k = p_key AND ends <= p_now AND v > p_v;
    OPEN v_dead;
    FETCH v_dead INTO v_id, v_seq, v_mode, v_waited;
    WHILE NOT v_end DO
        DELETE FROM flockd_claims WHERE k = p_key AND id = v_id AND ends <= p_now;
        IF ROW_COUNT() > 0 THEN
            SET v_gone = v_gone + 1;
            IF v_gone <= 16 THEN
                CALL flockd_freed_1(p_key, v_seq, v_mode, v_waited, 0);
            END IF;
        END IF;
        SET v_end = 0; -- what found nothing in there is no end here
        FETCH v_dead INTO v_id, v_seq, v_mode, v_waited;
    END WHILE;
    CLOSE v_dead;
    IF v_gone > 16 THEN
        CALL flockd_freed_1(p_key, 0, 'exclusive', 1, 0);
    END IF;
END
//
-- held is the answer that somebody is in the way of who has the place p_seq (NULL: none),
-- and lists who holds or cools, or the first in line if nobody does. What ended by p_dead counts for
-- nothing (0: it has been dropped).
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_held_1(p_key VARBINARY(512), p_v INT, p_now BIGINT, p_dead BIGINT, p_seq BIGINT,
    p_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin, p_notice TEXT CHARACTER SET ascii COLLATE ascii_bin,
    p_made TINYINT, OUT p_answer LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_first, v_before, v_ends BIGINT;
    DECLARE v_waits TINYINT;
    DECLARE v_waiters, v_ahead, v_newer INT;
    DECLARE v_list LONGTEXT CHARACTER SET utf8mb4;
    SELECT seq INTO v_first FROM flockd_claims FORCE INDEX (line) WHERE k = p_key AND ends > p_dead ORDER BY seq LIMIT 1;
    IF p_mode = 'shared' THEN
        SELECT seq INTO v_before FROM flockd_claims FORCE INDEX (places)
        WHERE k = p_key AND waits = 1 AND unshared = 1 AND seq < p_seq AND ends > p_dead ORDER BY seq DESC LIMIT 1;
    ELSE
        SELECT seq INTO v_before FROM flockd_claims FORCE INDEX (line)
        WHERE k = p_key AND seq < p_seq AND ends > p_dead ORDER BY seq DESC LIMIT 1;
    END IF;
    SELECT ends, waits INTO v_ends, v_waits FROM flockd_claims WHERE k = p_key AND seq = IFNULL(v_before, v_first);
    IF p_mode = 'slots' AND p_seq IS NOT NULL AND NOT v_waits THEN
        SELECT MIN(ends) INTO v_ends FROM flockd_claims FORCE INDEX (places) WHERE k = p_key AND waits = 0 AND ends > p_dead;
    END IF;
    SELECT COUNT(*), IFNULL(SUM(seq < p_seq OR p_seq IS NULL), 0) INTO v_waiters, v_ahead
    FROM flockd_claims FORCE INDEX (places) WHERE k = p_key AND waits = 1 AND ends > p_dead AND seq <> IFNULL(p_seq, 0);
    CALL flockd_holders_1(p_key, p_dead, v_first, v_newer, v_list);
    IF v_newer > p_v THEN
        SET p_answer = JSON_OBJECT('is', 'newer', 'what', 'line', 'v', v_newer + 0);
    ELSE
        SET p_answer = CONCAT(JSON_OBJECT('is', 'held', 'now', p_now + 0, 'waiters', v_waiters + 0, 'ahead', v_ahead + 0,
            'retry', GREATEST(v_ends - p_now, 0), 'notice', p_notice, 'made', p_made + 0), '\n', v_list);
    END IF;
END
//
-- holders are those who hold or cool, one to a line, or if nobody does, the first in line;
-- and the highest version among them. They are put together before they are sent: a client
-- that reads slowly must not keep the lock of the key waiting.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_holders_1(p_key VARBINARY(512), p_dead BIGINT, p_first BIGINT, OUT p_v INT,
    OUT p_list LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_most BIGINT DEFAULT @@session.group_concat_max_len;
    SET SESSION group_concat_max_len = 1073741824;
    SELECT MAX(v), GROUP_CONCAT(
        JSON_OBJECT('v', v, 'id', id, 'state', state, 'mode', mode, 'slots', slots, 'slot', slot, 'token', token, 'owner', owner,
            'asked', asked, 'granted', granted, 'renewed', renewed, 'expires', expires, 'kept', kept, 'notice', notice)
        ORDER BY seq SEPARATOR '\n')
    INTO p_v, p_list FROM flockd_claims FORCE INDEX (places) WHERE k = p_key AND waits = 0 AND ends > p_dead;
    IF p_list IS NULL THEN
        SELECT v,
            JSON_OBJECT('v', v, 'id', id, 'state', state, 'mode', mode, 'slots', slots, 'slot', slot, 'token', token, 'owner', owner,
                'asked', asked, 'granted', granted, 'renewed', renewed, 'expires', expires, 'kept', kept, 'notice', notice)
        INTO p_v, p_list FROM flockd_claims WHERE k = p_key AND seq = p_first;
    END IF;
    SET SESSION group_concat_max_len = v_most;
END
//
-- The question for a hold.
-- glance answers who wants no place, has no claim and finds the key taken or the run done.
-- NULL: that may not be so.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_glance_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
    p_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin, p_slots INT, p_once VARCHAR(1), p_run VARBINARY(512),
    p_first BIGINT, p_last BIGINT, OUT p_answer LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now BIGINT;
    DECLARE v_known, v_fits TINYINT;
    DECLARE v_slot INT;
    SET p_answer = NULL;
    CALL flockd_look_1(v_now);
    SELECT EXISTS (SELECT 1 FROM flockd_claims WHERE k = p_key AND id = p_id)
        OR EXISTS (SELECT 1 FROM flockd_ended WHERE k = p_key AND id = p_id AND forbidden > v_now) INTO v_known;
    IF NOT v_known AND (p_once = '' OR v_now BETWEEN p_first AND p_last) THEN
        IF p_once <> '' THEN
            CALL flockd_entry_1(p_key, p_v, v_now, p_run, p_answer);
        END IF;
        IF p_answer IS NULL THEN
            CALL flockd_fits_1(p_key, 9223372036854775807, p_mode, p_slots, 0, v_now, v_fits, v_slot);
            IF NOT v_fits THEN
                CALL flockd_held_1(p_key, p_v, v_now, v_now, NULL, p_mode, '', 0, p_answer);
            END IF;
        END IF;
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
END
//
-- grant makes a claim, which waits or (p_seq NULL) comes only now, the hold of a slot.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_grant_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
    p_now BIGINT, p_ttl BIGINT, p_minhold BIGINT, p_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin, p_slots INT,
    p_owner TEXT CHARACTER SET ascii COLLATE ascii_bin, p_run VARBINARY(512), p_keep BIGINT, p_seq BIGINT, p_slot INT,
    p_token BIGINT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_kept BIGINT DEFAULT IF(p_minhold > 0, p_now + p_minhold, 0);
    DECLARE v_called TINYINT;
    UPDATE flockd_keys SET token = p_token, used = p_now DIV 86400000000, places = places + (p_seq IS NULL) WHERE k = p_key;
    IF p_seq IS NULL THEN
        INSERT INTO flockd_claims (k, id, seq, v, state, mode, slots, slot, token, asked, granted, renewed, expires, kept, ends,
            waits, unshared, owner, notice, told, called, run, keep)
        SELECT k, p_id, places, p_v, 'holding', p_mode, p_slots, p_slot, p_token, p_now, p_now, p_now, p_now + p_ttl, v_kept,
            GREATEST(p_now + p_ttl, v_kept), 0, p_mode <> 'shared', p_owner, '', 0, 0, p_run, p_keep
        FROM flockd_keys WHERE k = p_key;
    ELSE
        UPDATE flockd_claims SET state = 'holding', waits = 0, called = 0, slot = p_slot, token = p_token, granted = p_now,
            renewed = p_now, expires = p_now + p_ttl, kept = v_kept, ends = GREATEST(p_now + p_ttl, v_kept), run = p_run, keep = p_keep
        WHERE k = p_key AND id = p_id;
        IF p_mode = 'slots' THEN -- the next one waited for this turn, and another slot may be free
            CALL flockd_next_1(p_key, p_seq, 0, v_called);
        END IF;
    END IF;
END
//
-- stand keeps or takes a place for a claim; p_seq is NULL before it has one.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_stand_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
    p_now BIGINT, p_place BIGINT, p_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin, p_slots INT,
    p_owner TEXT CHARACTER SET ascii COLLATE ascii_bin, p_run VARBINARY(512), INOUT p_seq BIGINT)
SQL SECURITY INVOKER
BEGIN
    IF p_seq IS NULL THEN
        UPDATE flockd_keys SET places = places + 1 WHERE k = p_key;
        SELECT places INTO p_seq FROM flockd_keys WHERE k = p_key FOR UPDATE;
        INSERT INTO flockd_claims (k, id, seq, v, state, mode, slots, slot, token, asked, granted, renewed, expires, kept, ends,
            waits, unshared, owner, notice, told, called, run, keep)
        VALUES (p_key, p_id, p_seq, p_v, 'waiting', p_mode, p_slots, 0, 0, p_now, 0, p_now, p_now + p_place, 0, p_now + p_place,
            1, p_mode <> 'shared', p_owner, '', 0, 0, p_run, 0);
    ELSE
        UPDATE flockd_claims SET renewed = p_now, called = 0, expires = GREATEST(expires, p_now + p_place), ends = GREATEST(ends, p_now + p_place)
        WHERE k = p_key AND id = p_id;
    END IF;
END
//
-- question is what acquire answers under the lock of the key's row.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_question_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
    p_now BIGINT, p_ttl BIGINT, p_place BIGINT, p_minhold BIGINT, p_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin,
    p_slots INT, p_owner TEXT CHARACTER SET ascii COLLATE ascii_bin, p_once VARCHAR(1), p_run VARBINARY(512),
    p_first BIGINT, p_last BIGINT, p_keep BIGINT, OUT p_answer LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER
this: BEGIN
    DECLARE v_seq, v_expires, v_token, v_granted, v_keep BIGINT;
    DECLARE v_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin DEFAULT p_mode;
    DECLARE v_notice TEXT CHARACTER SET ascii COLLATE ascii_bin DEFAULT '';
    DECLARE v_told TEXT CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_run VARBINARY(512);
    DECLARE v_slots INT DEFAULT p_slots;
    DECLARE v_newer, v_slot INT;
    DECLARE v_fits, v_made TINYINT;
    CALL flockd_prune_1(p_key, p_v, p_now, v_newer);
    IF v_newer > 0 THEN
        SET p_answer = JSON_OBJECT('is', 'newer', 'what', 'line', 'v', v_newer + 0);
        LEAVE this;
    END IF;
    SELECT seq, v, state, mode, slots, slot, token, granted, expires, notice, run, keep
    INTO v_seq, v_newer, v_state, v_mode, v_slots, v_slot, v_token, v_granted, v_expires, v_notice, v_run, v_keep
    FROM flockd_claims WHERE k = p_key AND id = p_id;
    IF v_newer > p_v THEN
        SET p_answer = JSON_OBJECT('is', 'newer', 'what', 'line', 'v', v_newer + 0);
        LEAVE this;
    END IF;
    CALL flockd_told_1(p_key, p_id, p_now, v_told);
    IF v_told IS NOT NULL AND (v_state IS NULL OR v_state <> 'waiting') THEN
        SET p_answer = JSON_OBJECT('is', 'lost', 'notice', v_told);
        LEAVE this;
    END IF;
    IF v_state = 'holding' AND v_expires > p_now THEN
        UPDATE flockd_claims SET renewed = p_now, expires = p_now + p_ttl, ends = GREATEST(p_now + p_ttl, kept)
        WHERE k = p_key AND id = p_id;
        SET p_answer = JSON_OBJECT('is', 'granted', 'now', p_now + 0, 'token', v_token + 0, 'granted', v_granted + 0, 'slot', v_slot + 0,
            'mode', v_mode, 'run', IFNULL(LOWER(HEX(v_run)), ''), 'keep', v_keep + 0, 'made', 0);
        LEAVE this;
    END IF;
    IF p_once <> '' THEN
        IF p_now NOT BETWEEN p_first AND p_last THEN
            SET p_answer = JSON_OBJECT('is', 'another', 'now', p_now + 0);
            LEAVE this;
        END IF;
        CALL flockd_entry_1(p_key, p_v, p_now, p_run, p_answer);
        IF p_answer IS NOT NULL THEN
            IF v_state = 'waiting' THEN
                CALL flockd_leave_1(p_key, p_id, v_seq, v_mode, 1);
            END IF;
            LEAVE this;
        END IF;
    END IF;
    IF v_state IS NOT NULL AND v_state <> 'waiting' THEN -- it cools
        SET p_answer = JSON_OBJECT('is', 'lost', 'notice', '');
        LEAVE this;
    END IF;
    CALL flockd_fits_1(p_key, IFNULL(v_seq, 9223372036854775807), v_mode, v_slots, 0, 0, v_fits, v_slot);
    SELECT GREATEST(token + 1, p_now), token = 0 INTO v_token, v_made FROM flockd_keys WHERE k = p_key;
    IF v_fits AND v_notice = '' AND v_token > 9007199254740991 THEN -- 2^53 - 1
        SET p_answer = JSON_OBJECT('is', 'clock');
    ELSEIF v_fits AND v_notice = '' THEN
        CALL flockd_grant_1(p_key, p_id, p_v, p_now, p_ttl, p_minhold, v_mode, v_slots, p_owner,
            IF(p_once = '', NULL, p_run), p_keep, v_seq, v_slot, v_token);
        SET p_answer = JSON_OBJECT('is', 'granted', 'now', p_now + 0, 'token', v_token + 0, 'granted', p_now + 0, 'slot', v_slot + 0,
            'mode', v_mode, 'run', IF(p_once = '', '', LOWER(HEX(p_run))), 'keep', p_keep + 0, 'made', v_made + 0);
    ELSE
        IF p_place > 0 THEN
            CALL flockd_stand_1(p_key, p_id, p_v, p_now, p_place, v_mode, v_slots, p_owner,
                CASE p_once WHEN '' THEN NULL WHEN 'i' THEN p_run ELSE '' END, v_seq);
        END IF;
        CALL flockd_held_1(p_key, p_v, p_now, 0, v_seq, v_mode, v_notice, v_made, p_answer);
    END IF;
END
//
-- acquire asks once for a hold: granted, held, done, lost, late, another, newer or clock. p_until is the
-- instant from which on nobody waits for the answer (0: unknown); p_once what for ('': a run
-- that may be repeated, i: by its ID, p: by period), p_first and p_last the instants between
-- which a grant is for that run, p_keep for how long its success is kept (0: for ever).
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_acquire_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
    p_ttl BIGINT, p_place BIGINT, p_minhold BIGINT, p_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin, p_slots INT,
    p_owner TEXT CHARACTER SET ascii COLLATE ascii_bin, p_until BIGINT, p_once VARCHAR(1), p_run VARBINARY(512),
    p_first BIGINT, p_last BIGINT, p_keep BIGINT, p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now BIGINT;
    DECLARE v_newer INT;
    DECLARE v_answer LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_patience INT DEFAULT @@session.innodb_lock_wait_timeout;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = v_patience;
        RESIGNAL;
    END;
    IF p_place = 0 THEN
        CALL flockd_glance_1(p_key, p_id, p_v, p_mode, p_slots, p_once, p_run, p_first, p_last, v_answer);
    END IF;
    IF v_answer IS NULL THEN
        CALL flockd_start_1(p_patience);
        CALL flockd_lock_1(p_key, p_v, v_now, v_newer);
        IF v_newer > 0 THEN
            SET v_answer = JSON_OBJECT('is', 'newer', 'what', 'line', 'v', v_newer + 0);
        ELSE
            CALL flockd_question_1(p_key, p_id, p_v, v_now, p_ttl, p_place, p_minhold, p_mode, p_slots, p_owner, p_once, p_run,
                p_first, p_last, p_keep, v_answer);
        END IF;
        CALL flockd_now_1(v_now); -- a renewal in flight, or a table that is altered, may have been waited for
        IF p_until > 0 AND v_now > p_until THEN
            ROLLBACK AND NO CHAIN NO RELEASE;
            SET v_answer = JSON_OBJECT('is', 'late', 'now', v_now + 0);
        END IF;
        COMMIT AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = v_patience;
    END IF;
    SELECT CAST(v_answer AS BINARY);
END
//
-- What is done to a hold or a place, by its own client or by another.
-- record keeps the run of a hold as the key's last one, and as its last success if it is one.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_record_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
    p_now BIGINT, p_class VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, p_exit INT, p_success TINYINT,
    p_notice TEXT CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER
BEGIN
    DELETE FROM flockd_runs WHERE k = p_key AND (success = 0 OR p_success);
    INSERT INTO flockd_runs (k, success, v, owner, token, began, ended, class, status, notice)
    SELECT k, 0, p_v, owner, token, granted, p_now, p_class, p_exit, p_notice
    FROM flockd_claims WHERE k = p_key AND id = p_id;
    IF p_success THEN
        INSERT INTO flockd_runs (k, success, v, owner, token, began, ended, class, status, notice)
        SELECT k, 1, p_v, owner, token, granted, p_now, p_class, p_exit, p_notice
        FROM flockd_claims WHERE k = p_key AND id = p_id;
    END IF;
END
//
-- tidy drops some of what is to be forgotten of a key.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_tidy_1(p_key VARBINARY(512), p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_until BIGINT;
    SELECT MAX(forbidden) INTO v_until FROM (
        SELECT forbidden FROM flockd_ended FORCE INDEX (forgotten)
        WHERE k = p_key AND forbidden <= p_now ORDER BY forbidden LIMIT 16) AS some;
    IF v_until IS NOT NULL THEN
        DELETE FROM flockd_ended WHERE k = p_key AND forbidden <= v_until;
    END IF;
    SELECT MAX(forgets) INTO v_until FROM (
        SELECT forgets FROM flockd_ledger FORCE INDEX (forgotten)
        WHERE k = p_key AND forgets > 0 AND forgets <= p_now ORDER BY forgets LIMIT 16) AS some;
    IF v_until IS NOT NULL THEN
        DELETE FROM flockd_ledger WHERE k = p_key AND forgets > 0 AND forgets <= v_until;
    END IF;
END
//
-- renew proves and extends a hold, and never makes one: renewed or lost.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_renew_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
    p_ttl BIGINT, p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now, v_expires BIGINT;
    DECLARE v_newer INT;
    DECLARE v_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_notice TEXT CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_answer LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_patience INT DEFAULT @@session.innodb_lock_wait_timeout;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = v_patience;
        RESIGNAL;
    END;
    CALL flockd_start_1(p_patience);
    SELECT v, state, expires, notice INTO v_newer, v_state, v_expires, v_notice
    FROM flockd_claims WHERE k = p_key AND id = p_id FOR UPDATE;
    CALL flockd_now_1(v_now);
    IF v_newer > p_v THEN
        SET v_answer = JSON_OBJECT('is', 'newer', 'what', 'line', 'v', v_newer + 0);
    ELSEIF v_state = 'holding' AND v_expires > v_now THEN
        UPDATE flockd_claims SET renewed = v_now, expires = v_now + p_ttl, ends = GREATEST(v_now + p_ttl, kept), told = v_notice <> ''
        WHERE k = p_key AND id = p_id;
        SET v_answer = JSON_OBJECT('is', 'renewed', 'notice', v_notice);
    ELSE
        CALL flockd_told_1(p_key, p_id, v_now, v_notice);
        SET v_answer = JSON_OBJECT('is', 'lost', 'notice', IFNULL(v_notice, ''));
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = v_patience;
    SELECT CAST(v_answer AS BINARY);
END
//
-- release ends a hold or a place, and forbids the ID: released or lost.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_release_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
    p_tombstone BIGINT, p_ran TINYINT, p_class VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, p_exit INT, p_success TINYINT,
    p_notice TEXT CHARACTER SET ascii COLLATE ascii_bin, p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now, v_seq, v_expires, v_kept BIGINT;
    DECLARE v_newer, v_dead INT;
    DECLARE v_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_told TEXT CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_is VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin DEFAULT 'lost';
    DECLARE v_answer LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_patience INT DEFAULT @@session.innodb_lock_wait_timeout;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = v_patience;
        RESIGNAL;
    END;
    CALL flockd_start_1(p_patience);
    CALL flockd_lock_1(p_key, p_v, v_now, v_newer);
    CALL flockd_prune_1(p_key, p_v, v_now, v_dead);
    SELECT GREATEST(v, v_newer), seq, state, mode, expires, kept INTO v_newer, v_seq, v_state, v_mode, v_expires, v_kept
    FROM flockd_claims WHERE k = p_key AND id = p_id;
    IF v_newer > p_v THEN
        SET v_answer = JSON_OBJECT('is', 'newer', 'what', 'line', 'v', v_newer + 0);
    ELSE
        IF v_expires > v_now AND v_state <> 'cooling' THEN
            SET v_is = 'released';
        END IF;
        IF v_is = 'released' AND v_state = 'holding' AND p_ran THEN
            CALL flockd_record_1(p_key, p_id, p_v, v_now, p_class, p_exit, p_success, p_notice);
        END IF;
        IF v_kept > v_now THEN
            UPDATE flockd_claims SET state = 'cooling', expires = v_now, ends = kept WHERE k = p_key AND id = p_id;
            CALL flockd_freed_1(p_key, v_seq, v_mode, 0, v_seq);
        ELSEIF v_state IS NOT NULL THEN
            CALL flockd_leave_1(p_key, p_id, v_seq, v_mode, v_state = 'waiting');
        END IF;
        CALL flockd_forbid_1(p_key, p_id, v_now + p_tombstone, '');
        CALL flockd_told_1(p_key, p_id, v_now, v_told);
        CALL flockd_tidy_1(p_key, v_now);
        SET v_answer = JSON_OBJECT('is', v_is, 'notice', v_told);
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = v_patience;
    SELECT CAST(v_answer AS BINARY);
END
//
-- ask leaves a notice for a claim, or with p_force removes it: asked or missing. With
-- p_waiting it is for one that waits alone.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_ask_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
    p_notice TEXT CHARACTER SET ascii COLLATE ascii_bin, p_force TINYINT, p_waiting TINYINT, p_remember BIGINT, p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now, v_seq, v_expires BIGINT;
    DECLARE v_newer, v_dead INT;
    DECLARE v_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_told TEXT CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_answer LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_patience INT DEFAULT @@session.innodb_lock_wait_timeout;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = v_patience;
        RESIGNAL;
    END;
    CALL flockd_start_1(p_patience);
    CALL flockd_lock_1(p_key, p_v, v_now, v_newer);
    CALL flockd_prune_1(p_key, p_v, v_now, v_dead);
    SELECT GREATEST(v, v_newer), seq, state, mode, expires INTO v_newer, v_seq, v_state, v_mode, v_expires
    FROM flockd_claims WHERE k = p_key AND id = p_id;
    CALL flockd_told_1(p_key, p_id, v_now, v_told);
    IF v_newer > p_v THEN
        SET v_answer = JSON_OBJECT('is', 'newer', 'what', 'line', 'v', v_newer + 0);
    ELSEIF v_told = p_notice THEN -- asked before
        SET v_answer = JSON_OBJECT('is', 'asked');
    ELSEIF v_state IS NULL OR p_waiting AND v_state <> 'waiting' THEN
        SET v_answer = JSON_OBJECT('is', 'missing');
    ELSE
        IF p_force OR v_state = 'waiting' THEN
            CALL flockd_forbid_1(p_key, p_id, v_now + p_remember, p_notice);
        END IF;
        IF p_force THEN
            IF v_state = 'holding' AND v_expires > v_now THEN
                CALL flockd_record_1(p_key, p_id, p_v, v_now, 'broken', 0, 0, p_notice);
            END IF;
            CALL flockd_leave_1(p_key, p_id, v_seq, v_mode, v_state = 'waiting');
        ELSE
            UPDATE flockd_claims SET notice = p_notice, told = 0 WHERE k = p_key AND id = p_id;
        END IF;
        SET v_answer = JSON_OBJECT('is', 'asked');
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = v_patience;
    SELECT CAST(v_answer AS BINARY);
END
//
-- The runs that have succeeded and aren't repeated.
-- entry is the answer that a run has succeeded, NULL if it hasn't or that was forgotten.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_entry_1(p_key VARBINARY(512), p_v INT, p_now BIGINT, p_run VARBINARY(512),
    OUT p_answer LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER
BEGIN
    SET p_answer = NULL;
    SELECT IF(v > p_v, JSON_OBJECT('is', 'newer', 'what', 'completed run', 'v', v), CONCAT(JSON_OBJECT('is', 'done'), '\n',
        JSON_OBJECT('v', v, 'run', LOWER(HEX(run)), 'token', token, 'owner', owner, 'at', completed, 'forgets', forgets)))
    INTO p_answer FROM flockd_ledger WHERE k = p_key AND run = p_run AND (forgets = 0 OR forgets > p_now);
END
//
-- complete records that a run has succeeded, and proves the hold: completed or lost.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_complete_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
    p_run VARBINARY(512), p_keep BIGINT, p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now, v_expires, v_token BIGINT;
    DECLARE v_newer INT;
    DECLARE v_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_owner, v_told TEXT CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_answer LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_patience INT DEFAULT @@session.innodb_lock_wait_timeout;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = v_patience;
        RESIGNAL;
    END;
    CALL flockd_start_1(p_patience);
    CALL flockd_lock_1(p_key, p_v, v_now, v_newer);
    SELECT GREATEST(v, v_newer), state, token, expires, owner INTO v_newer, v_state, v_token, v_expires, v_owner
    FROM flockd_claims WHERE k = p_key AND id = p_id FOR UPDATE;
    IF v_newer > p_v THEN
        SET v_answer = JSON_OBJECT('is', 'newer', 'what', 'line', 'v', v_newer + 0);
    ELSEIF v_state = 'holding' AND v_expires > v_now THEN
        CALL flockd_tidy_1(p_key, v_now);
        CALL flockd_entry_1(p_key, p_v, v_now, p_run, v_answer);
        IF v_answer IS NULL THEN
            UPDATE flockd_keys SET places = places + 1 WHERE k = p_key;
            DELETE FROM flockd_ledger WHERE k = p_key AND run = p_run;
            INSERT INTO flockd_ledger (k, run, seq, v, token, owner, completed, forgets)
            SELECT k, p_run, places, p_v, v_token, v_owner, v_now, IF(p_keep > 0, v_now + p_keep, 0) FROM flockd_keys WHERE k = p_key;
        END IF;
        UPDATE flockd_claims FORCE INDEX (places) SET called = 1 WHERE k = p_key AND waits = 1 AND (run = p_run OR run = '');
        SET v_answer = JSON_OBJECT('is', 'completed');
    ELSE
        CALL flockd_told_1(p_key, p_id, v_now, v_told);
        SET v_answer = JSON_OBJECT('is', 'lost', 'notice', IFNULL(v_told, ''));
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = v_patience;
    SELECT CAST(v_answer AS BINARY);
END
//
-- completed looks a run up, and changes nothing.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_completed_1(p_key VARBINARY(512), p_v INT, p_run VARBINARY(512), p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now BIGINT;
    DECLARE v_answer LONGTEXT CHARACTER SET utf8mb4;
    CALL flockd_look_1(v_now);
    CALL flockd_entry_1(p_key, p_v, v_now, p_run, v_answer);
    COMMIT AND NO CHAIN NO RELEASE;
    SELECT CAST(IFNULL(v_answer, JSON_OBJECT()) AS BINARY);
END
//
-- entries reads completed runs, oldest first, from behind the place p_after, and changes
-- nothing.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_entries_1(p_key VARBINARY(512), p_v INT, p_after BIGINT, p_limit INT, p_patience INT)
SQL SECURITY INVOKER
this: BEGIN
    DECLARE v_now, v_place BIGINT;
    DECLARE v_n, v_newer INT;
    CALL flockd_look_1(v_now);
    SELECT COUNT(*), MAX(seq), MAX(v) INTO v_n, v_place, v_newer FROM (
        SELECT seq, v FROM flockd_ledger FORCE INDEX (line)
        WHERE k = p_key AND seq > p_after ORDER BY seq LIMIT p_limit) AS page;
    IF v_newer > p_v THEN
        COMMIT AND NO CHAIN NO RELEASE;
        SELECT CAST(JSON_OBJECT('is', 'newer', 'what', 'completed run', 'v', v_newer + 0) AS BINARY);
        LEAVE this;
    END IF;
    SELECT CAST(JSON_OBJECT('place', IFNULL(v_place, p_after), 'n', v_n + 0) AS BINARY);
    SELECT CAST(
        JSON_OBJECT('v', v, 'run', LOWER(HEX(run)), 'token', token, 'owner', owner, 'at', completed, 'forgets', forgets) AS BINARY)
    FROM flockd_ledger FORCE INDEX (line)
    WHERE k = p_key AND seq > p_after AND seq <= v_place AND (forgets = 0 OR forgets > v_now) ORDER BY seq;
    COMMIT AND NO CHAIN NO RELEASE;
END
//
-- forget drops a completed run: forgotten or missing.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_forget_1(p_key VARBINARY(512), p_v INT, p_run VARBINARY(512), p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now BIGINT;
    DECLARE v_newer INT;
    DECLARE v_answer LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_patience INT DEFAULT @@session.innodb_lock_wait_timeout;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = v_patience;
        RESIGNAL;
    END;
    CALL flockd_start_1(p_patience);
    CALL flockd_lock_1(p_key, p_v, v_now, v_newer);
    CALL flockd_entry_1(p_key, p_v, v_now, p_run, v_answer);
    IF v_newer > 0 THEN
        SET v_answer = JSON_OBJECT('is', 'newer', 'what', 'line', 'v', v_newer + 0);
    ELSEIF v_answer IS NULL THEN
        SET v_answer = JSON_OBJECT('is', 'missing');
    ELSEIF v_answer LIKE '%"done"%' THEN
        SET v_answer = JSON_OBJECT('is', 'forgotten');
        DELETE FROM flockd_ledger WHERE k = p_key AND run = p_run;
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = v_patience;
    SELECT CAST(v_answer AS BINARY);
END
//
-- What is read alone, all as of one instant.
-- inspect reads a key, and changes nothing.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_inspect_1(p_key VARBINARY(512), p_v INT, p_patience INT)
SQL SECURITY INVOKER
this: BEGIN
    DECLARE v_now BIGINT;
    DECLARE v_newer INT;
    DECLARE v_last, v_success LONGTEXT CHARACTER SET utf8mb4;
    CALL flockd_look_1(v_now);
    SELECT MAX(v) INTO v_newer FROM flockd_claims WHERE k = p_key AND ends > v_now;
    IF v_newer > p_v THEN
        COMMIT AND NO CHAIN NO RELEASE;
        SELECT CAST(JSON_OBJECT('is', 'newer', 'what', 'line', 'v', v_newer + 0) AS BINARY);
        LEAVE this;
    END IF;
    SELECT MAX(v) INTO v_newer FROM flockd_runs WHERE k = p_key;
    IF v_newer > p_v THEN
        COMMIT AND NO CHAIN NO RELEASE;
        SELECT CAST(JSON_OBJECT('is', 'newer', 'what', 'last run', 'v', v_newer + 0) AS BINARY);
        LEAVE this;
    END IF;
    SELECT JSON_OBJECT('v', v, 'owner', owner, 'token', token, 'start', began, 'end', ended, 'class', class, 'exit', status, 'notice', notice)
    INTO v_last FROM flockd_runs WHERE k = p_key AND success = 0;
    SELECT JSON_OBJECT('v', v, 'owner', owner, 'token', token, 'start', began, 'end', ended, 'class', class, 'exit', status, 'notice', notice)
    INTO v_success FROM flockd_runs WHERE k = p_key AND success = 1;
    SELECT CAST(CONCAT('{"now":', v_now, ',"last":', IFNULL(v_last, 'null'), ',"success":', IFNULL(v_success, 'null'), '}') AS BINARY);
    SELECT CAST(
        JSON_OBJECT('v', v, 'id', id, 'state', state, 'mode', mode, 'slots', slots, 'slot', slot, 'token', token, 'owner', owner,
            'asked', asked, 'granted', granted, 'renewed', renewed, 'expires', expires, 'kept', kept, 'notice', notice) AS BINARY)
    FROM flockd_claims FORCE INDEX (line) WHERE k = p_key AND ends > v_now ORDER BY seq;
    COMMIT AND NO CHAIN NO RELEASE;
END
//
-- keys lists those that begin with p_prefix and have a claim or a last run, in the order of
-- their bytes. No key has a byte FF.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_keys_1(p_prefix VARBINARY(512), p_after VARBINARY(512), p_limit INT, p_v INT, p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now BIGINT;
    CALL flockd_look_1(v_now);
    SELECT CAST(JSON_OBJECT('now', v_now + 0) AS BINARY);
    SELECT CAST(JSON_OBJECT('key', LOWER(HEX(k))) AS BINARY) FROM flockd_keys AS named
    WHERE k > p_after AND k >= p_prefix AND k < CONCAT(p_prefix, X'FF')
        AND (EXISTS (SELECT 1 FROM flockd_claims AS c WHERE c.k = named.k)
            OR EXISTS (SELECT 1 FROM flockd_runs AS r WHERE r.k = named.k))
    ORDER BY k LIMIT p_limit;
    COMMIT AND NO CHAIN NO RELEASE;
END
//
-- poll tells whether a claim has something to hear, and changes nothing: whoever waits, that
-- its turn has come, a notice, or that the place is gone; whoever holds, that the hold is
-- gone, or a notice that no renewal has told of. A place without news is told how many wait
-- in front of it, 50 at most: it looks the more seldom.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_poll_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT, p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now, v_seq BIGINT;
    DECLARE v_v, v_front INT;
    DECLARE v_waits, v_news TINYINT DEFAULT 1; -- news: the claim is gone
    CALL flockd_look_1(v_now);
    SELECT v, seq, waits, expires <= v_now OR state = 'cooling' OR called = 1 OR notice <> '' AND told = 0
    INTO v_v, v_seq, v_waits, v_news FROM flockd_claims WHERE k = p_key AND id = p_id;
    IF v_waits AND NOT v_news THEN
        SELECT COUNT(*) INTO v_front FROM (
            SELECT 1 FROM flockd_claims FORCE INDEX (places)
            WHERE k = p_key AND waits = 1 AND unshared IN (0, 1) AND seq < v_seq LIMIT 50) AS front;
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    IF v_v > p_v THEN
        SELECT CAST(JSON_OBJECT('is', 'newer', 'what', 'line', 'v', v_v + 0) AS BINARY);
    ELSE
        SELECT CAST(JSON_OBJECT('news', v_news + 0, 'front', v_front + 0) AS BINARY);
    END IF;
END
//
-- What drops the keys that nobody uses.
-- drop drops a key, unless it is in use again once its row is locked. One that has claims,
-- completed runs or forbidden IDs is looked at again in 100 days.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_drop_1(p_key VARBINARY(512), p_now BIGINT)
SQL SECURITY INVOKER
this: BEGIN
    DECLARE v_used INT;
    DECLARE v_needed TINYINT;
    SELECT used INTO v_used FROM flockd_keys WHERE k = p_key FOR UPDATE;
    IF v_used IS NULL OR v_used >= p_now DIV 86400000000 - 100 THEN
        LEAVE this;
    END IF;
    SELECT EXISTS (SELECT 1 FROM flockd_claims WHERE k = p_key)
        OR EXISTS (SELECT 1 FROM flockd_ledger WHERE k = p_key)
        OR EXISTS (SELECT 1 FROM flockd_ended WHERE k = p_key AND forbidden > p_now) INTO v_needed;
    IF v_needed THEN
        UPDATE flockd_keys SET used = p_now DIV 86400000000 WHERE k = p_key;
    ELSE
        DELETE FROM flockd_ended WHERE k = p_key;
        DELETE FROM flockd_runs WHERE k = p_key;
        DELETE FROM flockd_keys WHERE k = p_key;
    END IF;
END
//
-- sweep looks at a few of the keys that were last granted 100 days ago: tokens grow on
-- without them.
CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ flockd_sweep_1(p_v INT, p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now BIGINT;
    DECLARE v_key VARBINARY(512);
    DECLARE v_end TINYINT DEFAULT 0;
    DECLARE v_patience INT DEFAULT @@session.innodb_lock_wait_timeout;
    DECLARE v_idle CURSOR FOR
        SELECT k FROM flockd_keys FORCE INDEX (used)
        WHERE used < v_now DIV 86400000000 - 100 AND v <= p_v ORDER BY used LIMIT 16;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_end = 1;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = v_patience;
        RESIGNAL;
    END;
    CALL flockd_start_1(1);
    CALL flockd_now_1(v_now);
    OPEN v_idle;
    FETCH v_idle INTO v_key;
    WHILE NOT v_end DO
        CALL flockd_drop_1(v_key, v_now);
        SET v_end = 0; -- what found nothing in there is no end here
        FETCH v_idle INTO v_key;
    END WHILE;
    CLOSE v_idle;
    COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = v_patience;
    SELECT CAST(JSON_OBJECT() AS BINARY);
END
//
SET SESSION sql_mode = IF(VERSION() LIKE '%MariaDB%' OR VERSION() LIKE '5.%', 'NO_AUTO_CREATE_USER', '')
//
GRANT SELECT, INSERT, UPDATE, DELETE ON flockd_keys TO 'flockd'@'%'
//
GRANT SELECT, INSERT, UPDATE, DELETE ON flockd_claims TO 'flockd'@'%'
//
GRANT SELECT, INSERT, UPDATE, DELETE ON flockd_ended TO 'flockd'@'%'
//
GRANT SELECT, INSERT, UPDATE, DELETE ON flockd_runs TO 'flockd'@'%'
//
GRANT SELECT, INSERT, UPDATE, DELETE ON flockd_ledger TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_now_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_primary_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_look_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_start_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_lock_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_told_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_forbid_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_fits_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_slot_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_call_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_next_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_together_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_freed_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_leave_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_prune_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_held_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_holders_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_glance_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_grant_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_stand_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_question_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_acquire_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_record_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_tidy_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_renew_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_release_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_ask_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_entry_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_complete_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_completed_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_entries_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_forget_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_inspect_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_keys_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_poll_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_drop_1 TO 'flockd'@'%'
//
GRANT EXECUTE ON PROCEDURE flockd_sweep_1 TO 'flockd'@'%'
//
