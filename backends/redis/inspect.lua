-- Reads a key, and changes nothing. ARGV: -, version.
-- Returns {now, last run, last success, the line's IDs in order, ID and record of each claim}.

local runs = redis.call('HMGET', KEYS[4], 'last', 'success')
return {
  text(now), runs[1] or '', runs[2] or '',
  redis.call('ZRANGE', KEYS[1], 0, -1), redis.call('HGETALL', KEYS[3]),
}
