-- What is read alone, all as of one instant.
-- inspect reads a key, and changes nothing.
CREATE PROCEDURE flockd_inspect_1(p_key VARBINARY(512), p_v INT, p_patience INT)
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
CREATE PROCEDURE flockd_keys_1(p_prefix VARBINARY(512), p_after VARBINARY(512), p_limit INT, p_v INT, p_patience INT)
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
CREATE PROCEDURE flockd_poll_1(p_key VARBINARY(512), p_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, p_v INT, p_patience INT)
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
