-- Takes the lock if nobody has it, or finds that this claim has it already.
-- KEYS   1 the lock, 2 our record beside it, 3 the counter of Redisson's fenced lock
-- ARGV   1 holder, 2 ttl in ms, 3 server time in ms after which it is too late,
--        4 the claim for people: `fence ticket pid host label`
-- Answer {held, token} | {busy, holder, ms until it expires} | {foreign, what it is}
--        | {late, server time in ms}
local lock, record, counter = KEYS[1], KEYS[2], KEYS[3]
local me, ttl = ARGV[1], tonumber(ARGV[2])
local function text(number) return string.format('%.0f', number) end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local not_after = tonumber(ARGV[3])
if not_after > 0 and now > not_after then return { 'late', text(now) } end

local holders = redis.pcall('HKEYS', lock)
if holders.err then
  if not string.find(holders.err, 'WRONGTYPE', 1, true) then return holders end
  return { 'foreign', redis.call('TYPE', lock).ok }
end
if #holders > 1 then
  -- A Redisson lock has one holder. This read arms no less than the first did.
  local is_shared = redis.call('HEXISTS', lock, 'mode') == 1
  return { 'foreign', is_shared and 'rwlock' or 'hash' }
end
if holders[1] and holders[1] ~= me then
  local left = redis.call('PTTL', lock)
  if left < 0 then return { 'foreign', 'hash' } end
  return { 'busy', holders[1], text(left) }
end
local known = redis.call('HMGET', record, 'last', 'holder')
if holders[1] and known[2] == me then return { 'held', known[1] } end

local micros = time[1] * 1000000 + time[2]
local token = math.max((tonumber(known[1]) or 0) + 32, micros)
local fenced = tonumber(redis.call('GET', counter) or '')
if fenced then
  -- Somebody uses RFencedLock on this name: one order for both sides.
  token = math.max(token, fenced + 1)
  redis.call('SET', counter, text(token + 31), 'KEEPTTL')
end
redis.call('HSET', lock, me, '1')
redis.call('PEXPIRE', lock, ttl)
redis.call('HSET', record, 'last', text(token), 'holder', me, 'claim', text(now) .. ' ' .. ARGV[4])
redis.call('PEXPIRE', record, text(ttl + 60000 + math.max(0, math.ceil((token - micros) / 1000))))
-- A write of ours ends the server's watch over what we have read; this starts it anew.
redis.call('EXISTS', lock)
return { 'held', text(token) }
