-- Records that a run has succeeded, and proves the hold. ARGV: ID, version, run, for
-- how many µs it is kept (0: for ever).
-- Returns {'completed', the IDs that wait for that run, or for one by period} or
-- {'lost', {}, what it was told}.

-- last is the place of the latest run. It grows though the clock may be set back.
local function last() return tonumber(redis.call('ZRANGE', KEYS[8], -1, -1, 'WITHSCORES')[2]) or 0 end

local function complete(mine, run, kept)
  local forgets = kept > 0 and now + kept or 0
  redis.call('HSET', KEYS[7], run, cjson.encode({
    v = version, token = mine.token, owner = mine.owner, at = text(now), forgets = text(forgets),
  }))
  redis.call('ZREM', KEYS[8], run)
  redis.call('ZADD', KEYS[8], text(math.max(last() + 1, now)), run)
  if forgets > 0 then redis.call('ZADD', KEYS[9], text(forgets), run) end
end

local function waitFor(run)
  local all = {}
  for _, entry in ipairs(redis.call('ZRANGEBYLEX', KEYS[6], '[w', '(x')) do
    local _, of, what = waiter(entry)
    if what == 'p' or what == 'i' .. run then all[#all + 1] = of end
  end
  return all
end

local mine = standing(id)
if not mine or not holds(mine) then return {'lost', {}, told()} end
admit()
for _, run in ipairs(redis.call('ZRANGEBYSCORE', KEYS[9], '-inf', text(now), 'LIMIT', 0, 100)) do drop(run) end
if not completed(ARGV[3]) then complete(mine, ARGV[3], tonumber(ARGV[4])) end
put(id, mine) -- so that there is something to wait for, see admit.lua
return {'completed', waitFor(ARGV[3])}
