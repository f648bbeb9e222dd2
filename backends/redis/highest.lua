-- Reads the record of a resource, see admit.lua, and changes nothing.
-- Returns {v, token}, each '' if there is none.

redis.call('PERSIST', KEYS[1]) -- a server that has become a replica refuses it: what that has may be old
local kept = redis.call('HMGET', KEYS[1], 'v', 'token')
return {kept[1] or '', kept[2] or ''}
