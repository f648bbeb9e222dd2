-- The line as a whole, for the scripts that move it. None of what follows takes longer
-- in a longer line, except to take out the dead and to name those whose turn has come.
--
-- The index answers what would otherwise take a walk. All its scores are 0, so that it is
-- in the order of the entries, of which each claim in line has two:
--   f<mode> <slots> <place>             to count those of one family
--   w<place> <mode> <ID> <what for>     of one that waits; what for: see acquire.lua
--   h<mode> <slot> <ID>                 of one that holds or cools

local function digits(n) return string.format('%016.0f', n) end

local function family(c) return 'f' .. c.mode .. ' ' .. text(c.slots) .. ' ' end

local function kin(c, place) return family(c) .. digits(place) end

local function part(of, c, place)
  if waits(c) then
    return 'w' .. digits(place) .. ' ' .. c.mode .. ' ' .. of .. ' ' .. (c.run or '')
  end
  return 'h' .. c.mode .. ' ' .. digits(c.slot or 0) .. ' ' .. of
end

-- left is the foremost place that this script has made free, or nil. parted tells
-- whether one of those who left was in the way of shared ones, cooling that one only
-- ends sooner than those who wait were told. gap is the place of a waiter that left
-- before its time, or nil: the next one waits for that time.
local left, parted, cooling, gap = nil, false, false, nil

local function vacate(place, mode)
  left, parted = math.min(left or place, place), parted or mode ~= 'shared'
end

local function leave(of, c)
  local place = tonumber(redis.call('ZSCORE', KEYS[1], of))
  redis.call('ZREM', KEYS[1], of)
  redis.call('ZREM', KEYS[2], of)
  redis.call('HDEL', KEYS[3], of)
  if not place or not c then return end
  redis.call('ZREM', KEYS[6], kin(c, place), part(of, c, place))
  vacate(place, c.mode)
  if waits(c) and leased(c) then gap = place end
end

-- mend makes the parts of the line agree, if they don't: a store that evicts has dropped
-- one. What has no place or no record is no claim.
local function mend()
  local n = redis.call('ZCARD', KEYS[1])
  if redis.call('ZCARD', KEYS[2]) == n and redis.call('HLEN', KEYS[3]) == n and redis.call('ZCARD', KEYS[6]) == 2 * n then
    return
  end
  local line = {}
  for _, of in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do line[of] = record(of) or false end
  redis.call('DEL', KEYS[2], KEYS[6])
  for _, of in ipairs(redis.call('HKEYS', KEYS[3])) do
    if not line[of] then redis.call('HDEL', KEYS[3], of) end
  end
  for of, c in pairs(line) do
    if c then
      local place = redis.call('ZSCORE', KEYS[1], of)
      redis.call('ZADD', KEYS[2], text(ends(c)), of)
      redis.call('ZADD', KEYS[6], 0, kin(c, place), 0, part(of, c, place))
    else
      redis.call('ZREM', KEYS[1], of)
    end
  end
end

-- legible is record for a script that mustn't fail because of somebody else's.
local function legible(of)
  local ok, c = pcall(record, of)
  return ok and c or nil
end

-- prune takes dead claims out, wherever in the line they are. What read refuses stays.
local function prune(read)
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now))) do
    local c = read(dead)
    if c then leave(dead, c) end
  end
end

-- fits tells whether a claim may hold beside those in front of it: it is the first, or
-- all of them are of its family, which for slots are few enough.
local function fits(c, place, rank)
  if rank == 0 then return true end
  if c.mode == 'exclusive' or c.mode == 'slots' and rank >= tonumber(c.slots) then return false end
  return redis.call('ZLEXCOUNT', KEYS[6], '[' .. family(c), '(' .. kin(c, place)) == rank
end

-- waiters are those who wait from an entry of the index on, at most so many.
local function waiters(from, most) return redis.call('ZRANGEBYLEX', KEYS[6], from, '(x', 'LIMIT', 0, most) end

local function waiter(entry) return string.match(entry, '^w%d+ (%S+) (%S+) (.*)$') end

-- together are the shared ones that wait with none of another mode in between.
local function together(from)
  local all = {}
  while true do
    local batch = waiters(from, 100)
    for _, entry in ipairs(batch) do
      local mode, of = waiter(entry)
      if mode ~= 'shared' then return all end
      all[#all + 1] = of
    end
    if #batch == 0 then return all end
    from = '(' .. batch[#batch]
  end
end

-- behind is the mode and the ID of the first who waits from a place on, nil if nobody does.
local function behind(place) return waiter(waiters('[w' .. digits(place), 1)[1] or '') end

-- turns are the IDs whose turn has come by what this script did: those who fit are the
-- first of all who wait, so it takes no more than to look behind those who left. Of
-- those who wait for a slot it is one: that one's grant names the next. Where a hold
-- cools it is those whose turn would have come: they ask until when.
local function turns()
  if not left then return {} end
  local mode, of = behind(left)
  local c = of and legible(of)
  if not c or not cooling and not fits(c, redis.call('ZSCORE', KEYS[1], of), redis.call('ZRANK', KEYS[1], of)) then return {} end
  if mode ~= 'shared' then return {of} end
  return parted and together('[w' .. digits(left)) or {} -- a shared one was in no other's way
end

-- hearers are the IDs that have something to hear: those whose turn has come, and the one
-- behind a waiter that left.
local function hearers()
  local all = turns()
  if not gap then return all end
  local _, nearest = behind(gap)
  for _, of in ipairs(all) do
    if of == nearest then return all end
  end
  all[#all + 1] = nearest
  return all
end

-- rest lets what is left of a key that nobody uses be forgotten after that many
-- milliseconds; while there are claims nothing has a TTL, for some policies evict
-- first what has one.
local function rest(milliseconds)
  if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('PEXPIRE', KEYS[4], milliseconds) end
end

-- keep records how a hold ended: class, exit, success (0 or 1), notice (JSON; '': none).
local function keep(c, class, exit, success, notice)
  local run = cjson.encode({
    v = version, owner = c.owner, token = c.token, start = c.granted, ['end'] = text(now),
    class = class, exit = tonumber(exit), notice = notice ~= '' and cjson.decode(notice) or nil,
  })
  redis.call('HSET', KEYS[4], 'last', run)
  if success == '1' then redis.call('HSET', KEYS[4], 'success', run) end
end
