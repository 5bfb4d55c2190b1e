-- Shows who has the lock and what was broken.
-- KEYS   1 the lock, 2 our record beside it, 3 its evictions
-- Answer {foreign, what it is} | {server time in ms, ms until it expires, holder or '',
--        holder in our record or '', last token or '', the claim for people or '', evictions ...}
local lock, record = KEYS[1], KEYS[2]
local holders = redis.pcall('HKEYS', lock)
if holders.err then
  if not string.find(holders.err, 'WRONGTYPE', 1, true) then return holders end
  return { 'foreign', redis.call('TYPE', lock).ok }
end
if #holders > 1 then
  local is_shared = redis.call('HEXISTS', lock, 'mode') == 1
  return { 'foreign', is_shared and 'rwlock' or 'hash' }
end
local left = redis.call('PTTL', lock)
if holders[1] and left < 0 then return { 'foreign', 'hash' } end
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local known = redis.call('HMGET', record, 'holder', 'last', 'claim')
local answer = { now, tostring(left), holders[1] or '',
  known[1] or '', known[2] or '', known[3] or '' }
for _, eviction in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do
  answer[#answer + 1] = eviction
end
return answer
