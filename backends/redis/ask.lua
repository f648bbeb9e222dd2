-- Leaves a notice for a claim, or removes it. ARGV: ID, version, tombstone ms, idle
-- ms, notice (JSON), force (0 or 1).
-- Returns {'asked' or 'missing', the ID whose turn has come ('': none)}.

local theirs = standing(id)
if not theirs then return {'missing', ''} end
admit()
if ARGV[6] == '0' then
  theirs.notice = cjson.decode(ARGV[5])
  put(id, theirs)
  return {'asked', ''}
end
bury(ARGV[3])
return {'asked', leave(id, ARGV[4])}
