-- What the steps have in common.
-- now is the server's clock at this instant. NOW() would be that of the statement's start,
-- and SYSDATE() is by the session's time zone: in one with summer time, an hour a year is
-- there twice. The zone is changed here, for proxies drop what a session has set.
CREATE PROCEDURE flockd_now_1(OUT p_now BIGINT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_zone VARCHAR(64) CHARACTER SET utf8mb4 DEFAULT @@session.time_zone;
    SET SESSION time_zone = '+00:00';
    SET p_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', SYSDATE(6));
    SET SESSION time_zone = v_zone;
END
//
-- primary refuses a server that takes no writes, though it may let this user.
CREATE PROCEDURE flockd_primary_1()
SQL SECURITY INVOKER
BEGIN
    IF CONCAT(@@global.read_only) NOT IN ('0', 'OFF') THEN
        SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'the server is running with read_only';
    END IF;
END
//
-- look begins to read, all as of one instant, and locks nothing.
CREATE PROCEDURE flockd_look_1(OUT p_now BIGINT)
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
CREATE PROCEDURE flockd_start_1(p_patience INT)
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
CREATE PROCEDURE flockd_lock_1(p_key VARBINARY(512), p_v INT, OUT p_now BIGINT, OUT p_newer INT)
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
CREATE PROCEDURE flockd_told_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    p_now BIGINT, OUT p_told TEXT CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER
BEGIN
    SET p_told = NULL;
    SELECT notice INTO p_told FROM flockd_ended WHERE k = p_key AND id = p_id AND forbidden > p_now;
END
//
CREATE PROCEDURE flockd_forbid_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    p_until BIGINT, p_notice TEXT CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER
BEGIN
    INSERT INTO flockd_ended (k, id, forbidden, notice) VALUES (p_key, p_id, p_until, p_notice)
    ON DUPLICATE KEY UPDATE forbidden = GREATEST(forbidden, p_until), notice = IF(p_notice = '', notice, p_notice);
END
//
