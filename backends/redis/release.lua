-- Ends a hold or a place, and forbids the ID. ARGV: ID, version, tombstone ms, idle
-- ms, then, for the record of the run: whether there is one (0 or 1), class, exit,
-- success (0 or 1), notice (JSON; '': none).
-- Returns {'released' or 'lost', the IDs that have something to hear, what it was told}.

-- release says whether the claim was a hold or a place.
local function release(mine)
  if not mine then
    vacate(0) -- perhaps by a release whose answer was lost, and with it whom to wake
    return 'lost'
  end
  local answer = (leased(mine) and mine.state ~= 'cooling') and 'released' or 'lost'
  if holds(mine) and ARGV[5] == '1' then keep(mine, ARGV[6], ARGV[7], ARGV[8], ARGV[9]) end
  if tonumber(mine.kept) > now then
    mine.state, mine.ends = 'cooling', text(now)
    put(id, mine)
    cooling = true
    vacate(tonumber(redis.call('ZSCORE', KEYS[1], id)), mine.mode)
  else
    leave(id, mine)
  end
  return answer
end

local mine = placed(id)
admit()
redis.call('SET', KEYS[5], '', 'PX', ARGV[3], 'NX') -- what it was told stays
prune(legible)
local answer = release(mine and ends(mine) > now and mine or nil)
rest(ARGV[4])
return {answer, hearers(), told()}
