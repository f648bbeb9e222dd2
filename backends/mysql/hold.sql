-- What is done to a hold or a place, by its own client or by another.
-- record keeps the run of a hold as the key's last one, and as its last success if it is one.
CREATE PROCEDURE flockd_record_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
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
CREATE PROCEDURE flockd_tidy_1(p_key VARBINARY(512), p_now BIGINT)
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
CREATE PROCEDURE flockd_renew_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
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
CREATE PROCEDURE flockd_release_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
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
CREATE PROCEDURE flockd_ask_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
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
