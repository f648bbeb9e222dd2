-- The key's completed runs. They have no TTL, for as long as any of them is needed:
-- those whose time is over are dropped when another is completed, and count for
-- nothing until then.

local function drop(run)
  redis.call('HDEL', KEYS[7], run)
  redis.call('ZREM', KEYS[8], run)
  redis.call('ZREM', KEYS[9], run)
end

-- completed is the entry of a run, or nil. One that can't be read is left to the client.
local function completed(run)
  local json = redis.call('HGET', KEYS[7], run)
  local ok, e = pcall(cjson.decode, json or '')
  local forgets = ok and type(e) == 'table' and tonumber(e.forgets) or 0
  if not json or forgets > 0 and forgets <= now then return nil end
  return json
end
