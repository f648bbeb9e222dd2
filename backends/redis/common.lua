-- What stands before each script that is about a key. All are given the same keys, in one slot:
--   KEYS[1]  line    sorted set: ID → place, the smallest is first in line
--   KEYS[2]  ends    sorted set: ID → µs at which the claim leaves the line unless it is extended
--   KEYS[3]  claims  hash: ID → its record, JSON
--   KEYS[4]  key     hash: token (the counter), last and success (the runs of that name, JSON)
--   KEYS[5]  ended   tombstone: exists when the ID is forbidden, see told
--   KEYS[6]  index   sorted set: two entries for each claim in line, see line.lua
--   KEYS[7]  done    hash: completed run → its entry, JSON
--   KEYS[8]  order   sorted set: completed run → its place among them, oldest first
--   KEYS[9]  forgets sorted set: completed run → µs at which it is forgotten, unless it is kept for ever
-- ARGV[1] is the ID and ARGV[2] the version of the records that the client knows.
-- A key is never computed, so that proxies can route each by what they are told.
--
-- Instants and tokens are decimal strings in records: cjson writes 14 digits of a
-- number, and tostring no more, where µs have 16. A claim is in the line if both its
-- place and its record are there: a store that evicts may have dropped either.

local id, version = ARGV[1], tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

local function text(n) return string.format('%.0f', n) end

-- record decodes what is kept of a claim, nil if nothing is. The client knows these
-- errors by their words.
local function record(of)
  local json = redis.call('HGET', KEYS[3], of)
  if not json then return nil end
  local ok, c = pcall(cjson.decode, json)
  if not ok or type(c) ~= 'table' or not tonumber(c.v) then error('flockd-unreadable') end
  if tonumber(c.v) > version then error('flockd-newer ' .. text(tonumber(c.v))) end
  if not tonumber(c.ends) or not tonumber(c.kept) or type(c.mode) ~= 'string' or not tonumber(c.slots) then
    error('flockd-unreadable')
  end
  return c
end

local function ends(c) return math.max(tonumber(c.ends), tonumber(c.kept)) end

local function leased(c) return tonumber(c.ends) > now end

local function waits(c) return c and c.state == 'waiting' end

local function holds(c) return c.state == 'holding' and leased(c) end

-- placed is the claim of an ID that is in line, dead or alive, or nil.
local function placed(of)
  return redis.call('ZSCORE', KEYS[1], of) and record(of) or nil
end

-- standing is the live claim of an ID, or nil.
local function standing(of)
  local c = placed(of)
  return c and ends(c) > now and c or nil
end

local function put(of, c)
  redis.call('HSET', KEYS[3], of, cjson.encode(c))
  redis.call('ZADD', KEYS[2], text(ends(c)), of)
end

-- admit lets the rest of the script write though Redis has no memory left: it looks
-- at the first write of a script only, and this one, which changes nothing, takes
-- none. Claims that are in line already are worked on like this, so that a full
-- Redis costs no running job its lease.
local function admit() redis.call('PERSIST', KEYS[1]) end

-- told is the notice (JSON) by which the claim was removed or its waiter asked to leave,
-- '' if the ID was released without one, false if it isn't forbidden.
local function told() return redis.call('GET', KEYS[5]) end
