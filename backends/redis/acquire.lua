-- Asks once for a hold. ARGV: ID, version, TTL µs, place µs (0: none), min-hold µs
-- (0: none), mode, slots, owner (JSON), the instant in µs from which on nobody waits for
-- the answer (0: unknown).
-- Returns {'granted', token, instant of the grant} or {'lost'} or {'late', now} or
-- {'held', now, waiters, ahead, µs until the claim in front ends, first ID, its record}.

local ttl, place, minhold = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- prune takes dead claims out, wherever in the line they are. A hundred a call is
-- more than can die between two calls in the long run, and costs well under 1 ms.
local function prune()
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now), 'LIMIT', 0, 100)) do
    record(dead) -- a newer one is refused, not removed
    remove(dead)
  end
end

local function join()
  local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', KEYS[1], text((tonumber(last) or 0) + 1), id)
  return {
    v = version, state = 'waiting', mode = ARGV[6], slots = tonumber(ARGV[7]), owner = cjson.decode(ARGV[8]),
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

local function grant(mine)
  if mine then admit() end
  if not (mine and holds(mine)) then
    local next = token()
    mine = mine or join()
    mine.state, mine.token, mine.granted = 'holding', next, text(now)
    if minhold > 0 then mine.kept = text(now + minhold) end
    redis.call('HSET', KEYS[4], 'token', next)
    redis.call('PERSIST', KEYS[4])
  end
  mine.renewed, mine.ends = text(now), text(now + ttl)
  put(id, mine)
  return {'granted', mine.token, mine.granted}
end

-- stand keeps or takes the place, if one is wanted.
local function stand(mine)
  if place == 0 then return end
  if mine then admit() end
  mine = mine or join()
  mine.ends = text(now + place)
  put(id, mine)
end

local function held(head, c)
  local rank = redis.call('ZRANK', KEYS[1], id)
  local front = c
  if rank then
    front = record(redis.call('ZRANGE', KEYS[1], rank - 1, rank - 1)[1]) or c
  end
  local holders = c.state == 'waiting' and 0 or 1
  local waiters = redis.call('ZCARD', KEYS[1]) - holders - (rank and 1 or 0)
  local ahead = rank and rank - holders or waiters
  return {'held', text(now), waiters, ahead, text(ends(front) - now), head, redis.call('HGET', KEYS[3], head)}
end

-- A question that was held up, in a server that stood still or on the way, may come when
-- whoever asked has gone: to grant it would keep the key taken for nobody.
if tonumber(ARGV[9]) > 0 and now > tonumber(ARGV[9]) then return {'late', text(now)} end
if redis.call('EXISTS', KEYS[5]) == 1 then return {'lost'} end
prune()
local mine = standing(id)
if mine and mine.state ~= 'waiting' and not holds(mine) then return {'lost'} end -- it cools
local head, c = first()
if head and head ~= id then
  stand(mine)
  return held(head, c)
end
return grant(mine)
