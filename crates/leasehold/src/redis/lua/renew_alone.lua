-- Keeps claims that are alone on their locks for another ttl; leaves the others.
-- `clock.lua` stands before it.
-- KEYS   the locks
-- ARGV   1 ttl in ms, then the ticket of each claim
-- Answer {server time in ms, then the number from 1 of each claim that is not alone there}
local now, ttl = math.floor(micros / 1000), tonumber(ARGV[1])
local answer = { string.format('%d', now) }
local sub, find, format = string.sub, string.find, string.format

for number = 1, #KEYS do
  local lock, ticket = KEYS[number], ARGV[number + 1]
  local known = call('HMGET', lock, ticket, 'last')
  local claim, last = known[1], known[2]
  local space = claim and find(claim, ' ', 18, true)
  local start = claim and math.floor(sub(claim, 1, 16) / 1000)
  if claim and start + sub(claim, 18, space - 1) > now then
    claim = sub(claim, 1, 17) .. format('%d', now + ttl - start) .. sub(claim, space)
    local needed = math.max(now, math.floor(sub(last, 1, 16) / 1000)) + ttl + 60000
    if tonumber(sub(last, 18)) < needed then
      -- Twice the slack, so that not every renewal has to move it.
      local keep = format('%d', needed + 60000)
      call('HSET', lock, ticket, claim, 'last', sub(last, 1, 17) .. keep)
      call('PEXPIREAT', lock, keep)
    else
      call('HSET', lock, ticket, claim)
    end
  else
    answer[#answer + 1] = format('%d', number)
  end
end
return answer
