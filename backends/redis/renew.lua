-- Proves and extends a hold; never makes one. ARGV: ID, version, TTL µs.
-- Returns {'renewed', notice (JSON; '': none)} or {'lost', what it was told}.

local mine = standing(id)
if not mine or not holds(mine) then return {'lost', told()} end
admit()
mine.renewed, mine.ends = text(now), text(now + tonumber(ARGV[3]))
mine.told = mine.notice and true or nil -- for watch.lua
put(id, mine)
return {'renewed', mine.notice and cjson.encode(mine.notice) or ''}
