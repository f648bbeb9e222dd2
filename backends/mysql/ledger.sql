-- The runs that have succeeded and aren't repeated.
-- entry is the answer that a run has succeeded, NULL if it hasn't or that was forgotten.
CREATE PROCEDURE flockd_entry_1(p_key VARBINARY(512), p_v INT, p_now BIGINT, p_run VARBINARY(512),
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
CREATE PROCEDURE flockd_complete_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT,
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
CREATE PROCEDURE flockd_completed_1(p_key VARBINARY(512), p_v INT, p_run VARBINARY(512), p_patience INT)
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
CREATE PROCEDURE flockd_entries_1(p_key VARBINARY(512), p_v INT, p_after BIGINT, p_limit INT, p_patience INT)
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
CREATE PROCEDURE flockd_forget_1(p_key VARBINARY(512), p_v INT, p_run VARBINARY(512), p_patience INT)
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
