-- Admits a token, or sets it. KEYS[1] is the resource's record, a hash: v, the version of
-- the record, and token, the highest so far. ARGV: version, token, down (0 or 1).
-- Returns {'admitted'} or {'kept', v, token} of a record that stays: it has a larger
-- token, or can't be read, which is left to the client.
--
-- Tokens are below 2^53, so that they are compared exactly. What is written is the text
-- that came: tostring has 14 digits.

local function number(text)
  local n = text and string.match(text, '^%d+$') and tonumber(text)
  return n and n >= 1 and n < 9007199254740992 and n
end

local token, down = tonumber(ARGV[2]), ARGV[3] == '1'
local kept = redis.call('HMGET', KEYS[1], 'v', 'token')
if kept[1] or kept[2] then
  redis.call('PERSIST', KEYS[1]) -- as admit in common.lua: a full Redis stops nobody whose resource it knows
  local v, highest = number(kept[1]), number(kept[2])
  local readable = v and v <= tonumber(ARGV[1]) and highest
  if not readable or token < highest and not down then return {'kept', kept[1] or '', kept[2] or ''} end
end
-- An equal one is written as well: since Redis 7.2 WAIT waits for nothing but what the very
-- client has written, and the replicas may not have what came by way of another connection.
redis.call('HSET', KEYS[1], 'v', ARGV[1], 'token', ARGV[2])
return {'admitted'}
