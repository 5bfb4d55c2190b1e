-- Round 1: takes the lock on this node if it is free and, where a token is guessed,
-- does round 2 for it at once. Never sent twice with the same id.
-- KEYS   1 the lock, 2 its note, 3 the node
-- ARGV   1 id, 2 ttl in ms, 3 the server's time in ms after which it is too late,
--        4 the server's mark, 5 how long the note lives in ms, and with a guess
--        6 the token, 7 the last token of this grant, 8 the rest of the note
-- Answer 1 if the counter was lower than the guess and is raised
--        | else the node's counter for this lock, as a string
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
local floor, high, guess = tonumber(node[2]) or 0, tonumber(node[3]) or 0, tonumber(ARGV[6])
-- A guess is mostly right, so the note is written and read in one step, and
-- written again if it was not.
local note
if guess then
  note = call('SET', KEYS[2], ARGV[7] .. ARGV[8], 'PX', ARGV[5], 'GET')
else
  note = call('GET', KEYS[2])
end
local known = note and tonumber(string.match(note, '^%d+'))
-- Where the note expired, or is of somebody without tokens: no counter was ever
-- above `high`.
local counter = math.max(floor, known or high)
if guess and counter < guess then
  if high < tonumber(ARGV[7]) then call('HSET', KEYS[3], 'high', ARGV[7]) end
  return 1
end
counter = string.format('%.0f', counter)
if guess or not known then call('SET', KEYS[2], counter, 'PX', ARGV[5]) end
return counter
