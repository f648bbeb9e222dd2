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

-- name: line
SELECT * FROM claims WHERE prefix = ? AND key = ? ORDER BY seq;

-- name: inFront
SELECT * FROM claims WHERE prefix = ? AND key = ? AND seq < ? ORDER BY seq DESC;

-- name: behind
SELECT * FROM claims WHERE prefix = ? AND key = ? AND seq > ? ORDER BY seq;

-- name: unsharedInFront
SELECT * FROM claims INDEXED BY places
WHERE prefix = ? AND key = ? AND state = 'waiting' AND (mode = 'shared') = 0 AND seq < ? ORDER BY seq DESC;

-- name: unsharedBehind
SELECT * FROM claims INDEXED BY places
WHERE prefix = ? AND key = ? AND state = 'waiting' AND (mode = 'shared') = 0 AND seq > ? ORDER BY seq;

-- name: sharedBetween
SELECT seq FROM claims INDEXED BY places
WHERE prefix = ? AND key = ? AND state = 'waiting' AND (mode = 'shared') = 1 AND seq > ? AND seq < ?;

-- name: waiters
SELECT count(*), count(*) FILTER (WHERE seq < ?1) FROM claims INDEXED BY places
WHERE prefix = ?2 AND key = ?3 AND state = 'waiting' AND expires_mono > ?4 AND seq <> ?1;

-- name: mine
SELECT * FROM claims WHERE prefix = ? AND key = ? AND id = ?;

-- name: remove
DELETE FROM claims WHERE seq = ?;

-- name: join
INSERT INTO claims (v, prefix, key, id, state, mode, slots, slot, token, boot, asked_mono, granted_mono,
                    renewed_mono, expires_mono, kept_mono, owner, run, keep)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING seq;

-- name: stay
UPDATE claims SET renewed_mono = ?, expires_mono = max(expires_mono, ?) WHERE seq = ?;

-- name: grant
UPDATE claims SET state = 'holding', slot = ?, token = ?, granted_mono = ?, renewed_mono = ?, expires_mono = ?,
                  kept_mono = ?, run = ?, keep = ?
WHERE seq = ?;

-- name: extend
UPDATE claims SET renewed_mono = ?, expires_mono = ? WHERE seq = ?;

-- name: renew
UPDATE claims SET renewed_mono = ?, expires_mono = ?, told = (notice <> '') WHERE seq = ?;

-- name: cool
UPDATE claims SET state = 'cooling', expires_mono = kept_mono WHERE seq = ?;

-- name: notify
UPDATE claims SET notice = ?, told = 0 WHERE seq = ?;

-- name: forgetClaims
DELETE FROM claims WHERE boot <> ?;

-- name: ended
SELECT seq, notice FROM ended WHERE id = ?;

-- name: end
INSERT INTO ended (id, boot, until_mono) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET until_mono = max(until_mono, excluded.until_mono);

-- name: forbid
INSERT OR REPLACE INTO ended (id, boot, until_mono, seq, notice) VALUES (?, ?, ?, ?, ?);

-- name: forgetEnded
DELETE FROM ended WHERE boot <> ? OR until_mono <= ?;

-- name: recordRun
INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: runs
SELECT success, v, owner, token, start_wall, end_wall, class, exit, notice FROM runs WHERE prefix = ? AND key = ?;

-- name: keys
SELECT key FROM claims WHERE prefix = ?1 AND substr(key, 1, length(?2)) = ?2
UNION SELECT key FROM runs WHERE prefix = ?1 AND substr(key, 1, length(?2)) = ?2
ORDER BY key;

-- name: forgetRuns
DELETE FROM runs WHERE end_wall < ?;

-- name: completed
SELECT run, v, token, owner, at_wall, forgets_wall FROM ledger
WHERE prefix = ? AND key = ? AND run = ? AND (forgets_wall = 0 OR forgets_wall > ?);

-- name: entries
SELECT run, v, token, owner, at_wall, forgets_wall FROM ledger
WHERE prefix = ? AND key = ? AND (forgets_wall = 0 OR forgets_wall > ?) ORDER BY token;

-- name: complete
INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (prefix, key, run) DO UPDATE
SET v = excluded.v, token = excluded.token, owner = excluded.owner, at_wall = excluded.at_wall, forgets_wall = excluded.forgets_wall
WHERE ledger.forgets_wall > 0 AND ledger.forgets_wall <= excluded.at_wall;

-- name: forget
DELETE FROM ledger WHERE prefix = ? AND key = ? AND run = ?;

-- name: forgetDone
DELETE FROM ledger WHERE (prefix, key, run) IN
    (SELECT prefix, key, run FROM ledger INDEXED BY forgets WHERE forgets_wall > 0 AND forgets_wall <= ? LIMIT 16);

-- name: waitFor
SELECT seq FROM claims INDEXED BY places WHERE prefix = ? AND key = ? AND state = 'waiting' AND (run = ? OR run = '');

-- name: registerMade
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'register';

-- name: makeRegister
CREATE TABLE IF NOT EXISTS register ( -- of each resource the highest token that it has seen
    prefix   TEXT    NOT NULL,
    resource TEXT    NOT NULL,
    v        INTEGER NOT NULL, -- version of this record
    token    INTEGER NOT NULL,
    PRIMARY KEY (prefix, resource)
) WITHOUT ROWID;

-- name: highest
SELECT v, token FROM register WHERE prefix = ? AND resource = ?;

-- name: setHighest
INSERT INTO register VALUES (?, ?, ?, ?)
ON CONFLICT (prefix, resource) DO UPDATE SET v = excluded.v, token = excluded.token;

-- name: from1
ALTER TABLE claims ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
ALTER TABLE claims ADD COLUMN run TEXT;
ALTER TABLE claims ADD COLUMN keep INTEGER NOT NULL DEFAULT 0;
CREATE INDEX places ON claims (prefix, key, mode = 'shared', seq, expires_mono) WHERE state = 'waiting';
ALTER TABLE runs ADD COLUMN notice TEXT NOT NULL DEFAULT '';
ALTER TABLE ended ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ended ADD COLUMN notice TEXT NOT NULL DEFAULT '';
CREATE TABLE ledger (
    prefix       TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    run          TEXT    NOT NULL,
    v            INTEGER NOT NULL,
    token        INTEGER NOT NULL,
    owner        TEXT    NOT NULL,
    at_wall      INTEGER NOT NULL,
    forgets_wall INTEGER NOT NULL,
    PRIMARY KEY (prefix, key, run)
) WITHOUT ROWID;
CREATE INDEX forgets ON ledger (forgets_wall) WHERE forgets_wall > 0;
