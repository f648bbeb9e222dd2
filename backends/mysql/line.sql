-- The line as a whole, for the steps that move it. None of what follows takes longer in a
-- longer line, except to take out the dead, to count who waits and to call those whose turn
-- has come.
-- fits tells whether a claim may hold beside those in front of it, and which slot it would
-- get: the lowest that nobody has. The line is looked at as it is without one claim (0:
-- without none), and without what has ended by p_dead (0: that has been dropped). Few claims
-- are looked at, however many wait: who holds is in front of those who wait, and all are of
-- one family.
CREATE PROCEDURE flockd_fits_1(p_key VARBINARY(512), p_seq BIGINT, p_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin,
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
CREATE PROCEDURE flockd_slot_1(p_key VARBINARY(512), OUT p_slot INT)
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
CREATE PROCEDURE flockd_call_1(p_key VARBINARY(512), p_seq BIGINT)
SQL SECURITY INVOKER
BEGIN
    UPDATE flockd_claims SET called = 1 WHERE k = p_key AND seq = p_seq AND waits = 1;
END
//
-- next calls the first behind a place that waits for an unshared hold, if its turn has come.
CREATE PROCEDURE flockd_next_1(p_key VARBINARY(512), p_seq BIGINT, p_without BIGINT, OUT p_called TINYINT)
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
CREATE PROCEDURE flockd_together_1(p_key VARBINARY(512), p_seq BIGINT, p_first BIGINT, p_without BIGINT, OUT p_called TINYINT)
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
CREATE PROCEDURE flockd_freed_1(p_key VARBINARY(512), p_seq BIGINT, p_mode VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin,
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
CREATE PROCEDURE flockd_leave_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_seq BIGINT,
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
CREATE PROCEDURE flockd_prune_1(p_key VARBINARY(512), p_v INT, p_now BIGINT, OUT p_newer INT)
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
CREATE PROCEDURE flockd_held_1(p_key VARBINARY(512), p_v INT, p_now BIGINT, p_dead BIGINT, p_seq BIGINT,
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
CREATE PROCEDURE flockd_holders_1(p_key VARBINARY(512), p_dead BIGINT, p_first BIGINT, OUT p_v INT,
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
