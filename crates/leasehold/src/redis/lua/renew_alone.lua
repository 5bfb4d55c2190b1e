-- Keeps claims that are alone on their locks for another ttl; leaves the others.
-- `clock.lua` stands before it.
-- KEYS   the locks
-- ARGV   1 ttl in ms, then the ticket of each claim
-- Answer {server time in ms, then the number from 1 of each claim that is not alone there}
local format, sub = string.format, string.sub
local millis, ttl = math.floor(micros / 1000), tonumber(ARGV[1])
-- All that is compared has a fixed width: as texts, which costs less than as numbers.
local now, drawn = format('%013d', millis), format('%016d', micros)
local expires, enough = format('%013d', millis + ttl), format('%013d', millis + ttl + 60000)
local answer = { now }

for number = 1, #KEYS do
  local lock, ticket = KEYS[number], ARGV[number + 1]
  local known = call('HMGET', lock, ticket, 'last')
  local claim, last = known[1], known[2]
  if claim and last and sub(claim, 1, 13) > now then
    claim = expires .. sub(claim, 14)
    local needed = enough
    -- Orders that run ahead of the clock are kept until it has caught up.
    if last > drawn then needed = format('%013d', sub(last, 1, 16) / 1000 + ttl + 60000) end
    if sub(last, 18) < needed then
      -- Twice the slack, so that not every renewal has to move it.
      local keep = needed + 60000
      call('HSET', lock, ticket, claim, 'last', sub(last, 1, 17) .. format('%013d', keep))
      call('PEXPIREAT', lock, keep)
    else
      call('HSET', lock, ticket, claim)
    end
  else
    answer[#answer + 1] = format('%d', number)
  end
end
return answer
