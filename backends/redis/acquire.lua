-- Asks once for a hold. ARGV: ID, version, TTL µs, place µs (0: none), min-hold µs
-- (0: none), mode, slots, owner (JSON), the instant in µs from which on nobody waits for
-- the answer (0: unknown), idle ms, what for ('': a run that may be repeated; i and the
-- run's name; p: by period) and then the run, the first and the last instant in µs at
-- which a grant is for that one, and for how many µs its success is kept (0: for ever).
-- Returns, each with the IDs that have something to hear,
-- {'granted', IDs, token, instant of the grant, slot, run, kept µs, mode} or {'lost', IDs, what it was told} or
-- {'done', IDs, the run's entry, the run} or {'late', {}, now} or {'another', IDs, now}:
-- now is for another run, or
-- {'held', IDs, now, waiters, ahead, µs until the claim in front ends, notice (JSON),
-- {ID, record, … of all who hold or cool, or of the first in line if nobody does}}.

local ttl, place, minhold = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function newcomer()
  return {
    v = version, state = 'waiting', mode = ARGV[6], slots = tonumber(ARGV[7]),
    owner = cjson.decode(ARGV[8]), run = ARGV[11] ~= '' and ARGV[11] or nil,
    asked = text(now), token = '0', granted = '0', renewed = '0', ends = '0', kept = '0',
  }
end

local function token()
  local last = tonumber(redis.call('HGET', KEYS[4], 'token'))
  if not (last and last > -math.huge and last < math.huge) then last = 0 end -- tonumber reads 'nan' and 'inf' too
  local next = math.max(last + 1, now)
  if next >= 9007199254740992 then error('flockd-clock') end -- 2^53: larger numbers aren't exact
  return text(next)
end

-- slot is the lowest that nobody has.
local function slot()
  local free = 0
  for _, entry in ipairs(redis.call('ZRANGEBYLEX', KEYS[6], '[hslots ', '(hslots!')) do
    local taken = tonumber(string.match(entry, '^hslots (%d+)'))
    if taken > free then break end
    free = taken + 1
  end
  return free
end

local function granted(mine)
  mine.renewed, mine.ends = text(now), text(now + ttl)
  put(id, mine)
  return {'granted', hearers(), mine.token, mine.granted, mine.slot or 0, mine.once or '', mine.keep or '0', mine.mode}
end

local function grant(mine, waited, at)
  local next = token()
  if waited then
    admit()
    redis.call('ZREM', KEYS[6], part(id, mine, at))
  else
    redis.call('ZADD', KEYS[1], text(at), id)
  end
  if mine.mode == 'slots' then
    mine.slot = slot()
    left = math.min(left or at, at) -- the next may fit as well
  end
  mine.state, mine.token, mine.granted = 'holding', next, text(now)
  if minhold > 0 then mine.kept = text(now + minhold) end
  if mine.run then mine.once, mine.keep = ARGV[12], ARGV[15] end
  redis.call('ZADD', KEYS[6], 0, kin(mine, at), 0, part(id, mine, at))
  redis.call('HSET', KEYS[4], 'token', next)
  redis.call('PERSIST', KEYS[4])
  return granted(mine)
end

-- stand keeps or takes the place, if one is wanted.
local function stand(mine, waited, at)
  if place == 0 then return end
  if waited then
    admit()
  else
    redis.call('ZADD', KEYS[1], text(at), id)
    redis.call('ZADD', KEYS[6], 0, kin(mine, at), 0, part(id, mine, at))
  end
  mine.ends = text(now + place)
  put(id, mine)
end

-- inTheWay are those who hold or cool, or if nobody does, the first in line.
local function inTheWay()
  local all = {}
  for _, entry in ipairs(redis.call('ZRANGEBYLEX', KEYS[6], '[h', '(i')) do
    local of = string.match(entry, '^h%S+ %d+ (.*)$')
    local json = redis.call('HGET', KEYS[3], of)
    if json then all[#all + 1], all[#all + 2] = of, json end
  end
  if #all > 0 then return all end
  local head = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  return {head, redis.call('HGET', KEYS[3], head)}
end

-- before is the claim in front, its own where there is none. For a slot it is one that
-- waits, if there is any: holders may have come between.
local function before(mine, at, rank)
  if rank == 0 then return mine end
  local of = redis.call('ZRANGE', KEYS[1], rank - 1, rank - 1)[1]
  if mine.mode == 'slots' then
    local waits = redis.call('ZREVRANGEBYLEX', KEYS[6], '(w' .. digits(at), '[w', 'LIMIT', 0, 1)[1]
    if waits then of = select(2, waiter(waits)) end
  end
  return record(of)
end

local function held(mine, at, rank)
  local front = before(mine, at, rank)
  local others = redis.call('ZLEXCOUNT', KEYS[6], '[w', '(x')
  if redis.call('ZSCORE', KEYS[1], id) then others = others - 1 end
  return {
    'held', hearers(), text(now), others, redis.call('ZLEXCOUNT', KEYS[6], '[w', '(w' .. digits(at)),
    text(ends(front) - now), mine.notice and cjson.encode(mine.notice) or '', inTheWay(),
  }
end

-- place in line of who hasn't one yet.
local function last()
  return (tonumber(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]) or 0) + 1
end

-- A question that was held up, in a server that stood still or on the way, may come when
-- whoever asked has gone: to grant it would keep the key taken for nobody.
if tonumber(ARGV[9]) > 0 and now > tonumber(ARGV[9]) then return {'late', {}, text(now)} end
local notice = told()
if notice and not waits(standing(id)) then return {'lost', {}, notice} end
mend()
prune(record) -- a newer one is refused, not removed
local mine = placed(id)
if mine and holds(mine) then
  admit()
  if mine.mode == 'slots' then vacate(0) end -- perhaps the answer to the grant was lost, and with it whom to wake
  return granted(mine)
end
local cools = mine and not waits(mine)
if ARGV[11] ~= '' then
  if now < tonumber(ARGV[13]) or now > tonumber(ARGV[14]) then return {'another', hearers(), text(now)} end
  local entry = completed(ARGV[12])
  if entry then
    if mine and not cools then leave(id, mine) end
    rest(ARGV[10])
    return {'done', hearers(), entry, ARGV[12]}
  end
end
if cools then return {'lost', hearers(), ''} end
local at, rank = tonumber(redis.call('ZSCORE', KEYS[1], id)), redis.call('ZRANK', KEYS[1], id)
if not mine then at, rank = last(), redis.call('ZCARD', KEYS[1]) end
local claim = mine or newcomer()
local noticed = claim.notice and next(claim.notice)
if fits(claim, at, rank) and not noticed then return grant(claim, mine, at) end
stand(claim, mine, at)
return held(claim, at, rank)
