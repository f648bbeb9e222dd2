-- name: application
PRAGMA application_id;

-- name: version
PRAGMA user_version;

-- name: keepLog
PRAGMA journal_mode = WAL;

-- name: tables
SELECT count(*) FROM sqlite_schema;

-- name: tokens
SELECT boot, last, ceiling FROM tokens;

-- name: setTokens
UPDATE tokens SET boot = ?, last = ?, ceiling = ?;

-- name: nextToken
UPDATE tokens SET last = max(last + 1, ?1) WHERE boot = ?2 AND max(last + 1, ?1) <= ceiling RETURNING last;

-- name: first
SELECT * FROM claims WHERE prefix = ? AND key = ? ORDER BY seq LIMIT 1;

-- name: inFront
SELECT * FROM claims WHERE prefix = ? AND key = ? AND seq < ? ORDER BY seq DESC LIMIT 1;

-- name: behind
SELECT * FROM claims WHERE prefix = ? AND key = ? AND seq > ? ORDER BY seq LIMIT 1;

-- name: mine
SELECT * FROM claims WHERE prefix = ? AND key = ? AND id = ?;

-- name: line
SELECT * FROM claims WHERE prefix = ? AND key = ? ORDER BY seq;

-- name: waiters
SELECT count(*), count(*) FILTER (WHERE seq < ?) FROM claims
WHERE prefix = ? AND key = ? AND state = 'waiting' AND id <> ? AND boot = ? AND expires_mono > ?;

-- name: remove
DELETE FROM claims WHERE seq = ?;

-- name: join
INSERT INTO claims (v, prefix, key, id, state, mode, slots, slot, token, boot,
                    asked_mono, granted_mono, renewed_mono, expires_mono, kept_mono, owner)
VALUES (?, ?, ?, ?, 'waiting', ?, 0, 0, 0, ?, ?, 0, ?, ?, 0, ?)
RETURNING *;

-- name: extend
UPDATE claims SET renewed_mono = ?, expires_mono = ? WHERE seq = ?;

-- name: grant
UPDATE claims SET state = 'holding', token = ?, granted_mono = ?, renewed_mono = ?, expires_mono = ?, kept_mono = ?
WHERE seq = ?;

-- name: cool
UPDATE claims SET state = 'cooling', expires_mono = kept_mono WHERE seq = ?;

-- name: notify
UPDATE claims SET notice = ? WHERE seq = ?;

-- name: isEnded
SELECT EXISTS (SELECT 1 FROM ended WHERE id = ?);

-- name: end
INSERT INTO ended (id, boot, until_mono) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET until_mono = excluded.until_mono;

-- name: forgetEnded
DELETE FROM ended WHERE boot <> ? OR until_mono <= ?;

-- name: recordRun
INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: runs
SELECT success, v, owner, token, start_wall, end_wall, class, exit FROM runs WHERE prefix = ? AND key = ?;

-- name: keys
SELECT key FROM claims WHERE prefix = ?1 AND substr(key, 1, length(?2)) = ?2
UNION SELECT key FROM runs WHERE prefix = ?1 AND substr(key, 1, length(?2)) = ?2
ORDER BY key;

-- name: forgetRuns
DELETE FROM runs WHERE end_wall < ?;
