-- The question for a hold.
-- glance answers who wants no place, has no claim and finds the key taken or the run done.
-- NULL: that may not be so.
CREATE PROCEDURE flockd_glance_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
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
CREATE PROCEDURE flockd_grant_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
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
CREATE PROCEDURE flockd_stand_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
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
CREATE PROCEDURE flockd_question_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
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
CREATE PROCEDURE flockd_acquire_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
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
