-- Ends a hold, ours or one that is broken, and wakes Redisson's waiters.
-- KEYS   1 the lock, 2 its channel, 3 our record beside it, 4 its evictions
-- ARGV   1 holder, 2 how to publish: PUBLISH or SPUBLISH, 3 the line for the
--        evictions if the lock is broken, else ''
-- Answer 1 if the holder had the lock, else 0
local lock, record, evictions = KEYS[1], KEYS[3], KEYS[4]
local is_held = redis.pcall('HEXISTS', lock, ARGV[1])
if type(is_held) == 'table' and not string.find(is_held.err, 'WRONGTYPE', 1, true) then
  return is_held
end
if is_held ~= 1 then return 0 end
redis.call('DEL', lock)
redis.call(ARGV[2], KEYS[2], '0')
-- The last token stays for as long as the record was to live anyway.
redis.call('HDEL', record, 'holder', 'claim')
if ARGV[3] ~= '' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('LPUSH', evictions, string.format('%.0f', now) .. ' ' .. ARGV[3])
  redis.call('LTRIM', evictions, 0, 99)
  redis.call('PEXPIRE', evictions, 604800000)
end
return 1
