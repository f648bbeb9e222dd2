-- What drops the keys that nobody uses.
-- drop drops a key, unless it is in use again once its row is locked. One that has claims,
-- completed runs or forbidden IDs is looked at again in 100 days.
CREATE PROCEDURE flockd_drop_1(p_key VARBINARY(512), p_now BIGINT)
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
CREATE PROCEDURE flockd_sweep_1(p_v INT, p_patience INT)
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
