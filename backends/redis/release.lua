-- Ends a hold or a place, and forbids the ID. ARGV: ID, version, tombstone ms, idle
-- ms, then, for the record of the run: whether there is one (0 or 1), class, exit,
-- success (0 or 1).
-- Returns {'released' or 'lost', the ID whose turn has come ('': none)}.

-- keep records how the hold ended.
local function keep(mine)
  local run = cjson.encode({
    v = version, owner = mine.owner, token = mine.token, start = mine.granted, ['end'] = text(now),
    class = ARGV[6], exit = tonumber(ARGV[7]),
  })
  redis.call('HSET', KEYS[4], 'last', run)
  if ARGV[8] == '1' then redis.call('HSET', KEYS[4], 'success', run) end
end

local mine = placed(id)
admit()
bury(ARGV[3])
if not mine then return {'lost', ''} end
local answer = (leased(mine) and mine.state ~= 'cooling') and 'released' or 'lost'
if holds(mine) and ARGV[5] == '1' then keep(mine) end
if tonumber(mine.kept) > now then
  mine.state, mine.ends = 'cooling', text(now)
  put(id, mine)
  return {answer, ''}
end
return {answer, leave(id, ARGV[4])}
