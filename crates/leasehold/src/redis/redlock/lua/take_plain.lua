-- The only round without tokens: takes the lock on this node if it is free.
-- Never sent twice with the same id.
-- KEYS   1 the lock, 2 its note
-- ARGV   1 id, 2 ttl in ms, 3 the server's time in ms after which it is too late,
--        4 how long the note lives in ms, 5 the note
-- Answer 0 | {refused, ms until it expires or -1}
--        | {late, server time in ms} | {type, what the key holds instead of a string}
local call = redis.call
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
if micros > (ARGV[3] + 1) * 1000 then return { 'late', string.format('%.0f', micros / 1000) } end
if not call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local kind = call('TYPE', KEYS[1]).ok
  if kind ~= 'string' and kind ~= 'none' then return { 'type', kind } end
  return { 'refused', string.format('%.0f', call('PTTL', KEYS[1])) }
end
call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4])
return 0
