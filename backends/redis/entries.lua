-- Reads completed runs, oldest first, and changes nothing. ARGV: -, version, after which
-- place, how many at most.
-- Returns {the place of the last one, {run, entry, …}, how many were looked at}.

local read = redis.call('ZRANGEBYSCORE', KEYS[8], '(' .. ARGV[3], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[4])
local all = {}
for i = 1, #read, 2 do
  local entry = completed(read[i])
  if entry then all[#all + 1], all[#all + 2] = read[i], entry end
end
return {read[#read] or '', all, #read / 2}
