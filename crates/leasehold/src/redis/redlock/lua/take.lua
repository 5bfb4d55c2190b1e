-- Round 1: takes the lock on this node if it is free. Never sent twice with the
-- same id.
-- KEYS   1 the lock, 2 its note, 3 the node
-- ARGV   1 id, 2 ttl in ms, 3 the server's time in ms after which it is too late,
--        4 the server's mark, 5 how long the note lives in ms
-- Answer the node's counter for this lock
--        | {refused, ms until it expires or -1} | {quarantined, the mark of the admitted or ''}
--        | {late, server time in ms} | {type, what the key holds instead of a string}
local call = redis.call
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
if micros > (ARGV[3] + 1) * 1000 then return { 'late', string.format('%.0f', micros / 1000) } end
local node = call('HMGET', KEYS[3], 'run', 'floor', 'high', 'ttl')
if node[1] ~= ARGV[4] then return { 'quarantined', node[1] or '' } end
if not call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local kind = call('TYPE', KEYS[1]).ok
  if kind ~= 'string' and kind ~= 'none' then return { 'type', kind } end
  return { 'refused', string.format('%.0f', call('PTTL', KEYS[1])) }
end
if (tonumber(node[4]) or 0) < tonumber(ARGV[2]) then call('HSET', KEYS[3], 'ttl', ARGV[2]) end
local note = call('GET', KEYS[2])
local counter = note and tonumber(string.match(note, '^%d+'))
local floor = tonumber(node[2]) or 0
if not counter then
  -- The note expired, or is of somebody without tokens: no counter was ever
  -- above `high`.
  counter = math.max(floor, tonumber(node[3]) or 0)
  call('SET', KEYS[2], string.format('%.0f', counter), 'PX', ARGV[5])
end
return string.format('%.0f', math.max(counter, floor))
