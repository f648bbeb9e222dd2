-- Leaves a notice for a claim, or removes it. ARGV: ID, version, for how many ms
-- an ID that it forbids stays so, idle ms, notice (JSON), force (0 or 1), whether it is for
-- one that waits alone (0 or 1), the class of a run whose hold was removed.
-- Returns {'asked' or 'missing', the IDs that have something to hear}.

local function remove(theirs)
  prune(legible)
  if holds(theirs) then keep(theirs, ARGV[8], 0, '0', ARGV[5]) end
  leave(id, theirs)
  rest(ARGV[4])
end

local function ask(theirs)
  theirs.notice, theirs.told = cjson.decode(ARGV[5]), nil
  put(id, theirs)
end

-- asked names, besides the others, the claim itself, which waits or watches.
local function asked()
  local all = hearers()
  all[#all + 1] = id
  return {'asked', all}
end

local force = ARGV[6] == '1'
if told() == ARGV[5] then -- perhaps the answer was lost, and with it whom to wake
  if force then vacate(0) end
  return asked()
end
local theirs = standing(id)
local waiting = waits(theirs)
if not theirs or ARGV[7] == '1' and not waiting then return {'missing', {}} end
admit()
if force or waiting then redis.call('SET', KEYS[5], ARGV[5], 'PX', ARGV[3]) end
if force then remove(theirs) else ask(theirs) end
return asked()
