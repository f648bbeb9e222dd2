-- The register: the highest token that each resource has seen, for ever. The first flockd had
-- none, so this is added to databases that are in use.
CREATE TABLE IF NOT EXISTS flockd_fences (
    resource VARBINARY(512) NOT NULL PRIMARY KEY,
    v        INT            NOT NULL,
    token    BIGINT         NOT NULL, -- the highest one
    at       BIGINT         NOT NULL  -- when it was last admitted; never twice the same
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin COMMENT = 'flockd schema 1'
//
-- fence answers what can't be admitted: newer or stale; NULL: it can.
CREATE PROCEDURE flockd_fence_1(p_v INT, p_token BIGINT, p_down TINYINT, p_known_v INT, p_known BIGINT,
    OUT p_answer LONGTEXT CHARACTER SET utf8mb4)
SQL SECURITY INVOKER
BEGIN
    SET p_answer = NULL;
    IF p_known_v > p_v THEN
        SET p_answer = JSON_OBJECT('is', 'newer', 'what', 'register', 'v', p_known_v + 0);
    ELSEIF p_known > p_token AND NOT p_down THEN
        SET p_answer = JSON_OBJECT('is', 'stale', 'token', p_known + 0);
    END IF;
END
//
-- admit admits a token unless a higher one came before; p_down: even then. It decides under the
-- lock of the resource's row; what is stale by a look is answered by that, and writes nothing. An
-- equal token is written as well, by its instant: so whoever is told that it is admitted has
-- waited for the disk, whatever became of who wrote it first.
CREATE PROCEDURE flockd_admit_1(p_resource VARBINARY(512), p_v INT, p_token BIGINT, p_down TINYINT, p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now, v_token BIGINT;
    DECLARE v_v INT;
    DECLARE v_answer LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_patience INT DEFAULT @@session.innodb_lock_wait_timeout;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = v_patience;
        RESIGNAL;
    END;
    CALL flockd_look_1(v_now);
    SELECT v, token INTO v_v, v_token FROM flockd_fences WHERE resource = p_resource;
    COMMIT AND NO CHAIN NO RELEASE;
    CALL flockd_fence_1(p_v, p_token, p_down, v_v, v_token, v_answer);
    IF v_answer IS NULL THEN
        CALL flockd_start_1(p_patience);
        INSERT INTO flockd_fences (resource, v, token, at) VALUES (p_resource, p_v, p_token, 0)
        ON DUPLICATE KEY UPDATE resource = flockd_fences.resource;
        SELECT v, token INTO v_v, v_token FROM flockd_fences WHERE resource = p_resource FOR UPDATE;
        CALL flockd_fence_1(p_v, p_token, p_down, v_v, v_token, v_answer);
        IF v_answer IS NULL THEN
            UPDATE flockd_fences SET v = p_v, token = p_token, at = GREATEST(at + 1, v_now) WHERE resource = p_resource;
            SET v_answer = JSON_OBJECT('is', 'admitted');
        END IF;
        COMMIT AND NO CHAIN NO RELEASE;
        SET SESSION innodb_lock_wait_timeout = v_patience;
    END IF;
    SELECT CAST(v_answer AS BINARY);
END
//
-- highest looks up the highest token of a resource, and changes nothing: admitted or missing.
CREATE PROCEDURE flockd_highest_1(p_resource VARBINARY(512), p_v INT, p_patience INT)
SQL SECURITY INVOKER
BEGIN
    DECLARE v_now BIGINT;
    DECLARE v_answer LONGTEXT CHARACTER SET utf8mb4;
    CALL flockd_look_1(v_now);
    SELECT IF(v > p_v, JSON_OBJECT('is', 'newer', 'what', 'register', 'v', v), JSON_OBJECT('is', 'admitted', 'token', token))
    INTO v_answer FROM flockd_fences WHERE resource = p_resource;
    COMMIT AND NO CHAIN NO RELEASE;
    SELECT CAST(IFNULL(v_answer, JSON_OBJECT('is', 'missing')) AS BINARY);
END
//
