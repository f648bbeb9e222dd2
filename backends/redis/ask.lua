-- Leaves a notice for a claim, or removes it. ARGV: ID, version, tombstone ms, idle
-- ms, notice (JSON), force (0 or 1), whether it is for one that waits alone (0 or 1), the
-- class of a run whose hold was removed.
-- Returns {'asked' or 'missing', the IDs that have something to hear}.

local theirs = standing(id)
local waits = theirs and theirs.state == 'waiting'
if not theirs or ARGV[7] == '1' and not waits then return {'missing', {}} end
admit()
if ARGV[6] == '0' then
  theirs.notice = cjson.decode(ARGV[5])
  put(id, theirs)
  return {'asked', waits and {id} or {}}
end
prune(legible)
if holds(theirs) then keep(theirs, ARGV[8], 0, '0', ARGV[5]) end
bury(ARGV[3])
leave(id, theirs)
rest(ARGV[4])
local all = turns()
if waits then all[#all + 1] = id end
return {'asked', all}
