-- Breaks the lock on this node if it is held by this one, whoever that is, records
-- it and tells the holder's session.
-- KEYS   1 the lock, 2 its note, 3 its evictions
-- ARGV   1 the value's own 32 digits or the first 32 of its SHA-1, 2 `by reason`
-- Answer 1 if it was held so, else 0
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' then return 0 end
if value ~= ARGV[1] and string.sub(redis.sha1hex(value), 1, 32) ~= ARGV[1] then return 0 end
local time = redis.call('TIME')
local id, token, owner, lease = string.match(redis.call('GET', KEYS[2]) or '',
  '^%S+ (%x+) (%d+) %d+ %d+ (%d+ %S* %S*) (%x+)$')
if id ~= value then token, owner, lease = '0', '0 ? foreign', nil end
redis.call('DEL', KEYS[1])
redis.call('LPUSH', KEYS[3], string.format('%.0f %s %s %s %s',
  time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1], token, owner, ARGV[2]))
redis.call('LTRIM', KEYS[3], 0, 99)
redis.call('PEXPIRE', KEYS[3], 604800000)
if lease then redis.call('PUBLISH', 'lh:inbox:' .. lease, 'renew') end
return 1
