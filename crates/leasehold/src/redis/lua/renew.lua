-- Keeps claims of many locks for another ttl; never brings one back.
-- KEYS   4 per claim: the lock, its queue, the claims in its queue, its evictions
-- ARGV   1 ttl in ms, then the ticket of each claim
-- Answer {server time in ms, then per missing claim: its number from 1, `by reason` or ''}
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ttl = tonumber(ARGV[1])
local answer = { string.format('%d', now) }

local function renew(ticket, lock, queue, claims)
  local known = call('HMGET', lock, ticket, 'cap', 'last')
  local expires = string.format('%013d', now + ttl)
  if known[2] then
    local claim = call('ZSCORE', queue, ticket) and call('HGET', claims, ticket)
    if not claim or tonumber(string.sub(claim, 18, 30)) <= now then return false end
    call('HSET', claims, ticket, string.sub(claim, 1, 17) .. expires .. string.sub(claim, 31))
  else
    local claim = known[1]
    if not claim or tonumber(string.sub(claim, 1, 13)) <= now then return false end
    call('HSET', lock, ticket, expires .. string.sub(claim, 14))
  end
  local last, keep = string.match(known[3] or '', '^(%d+) (%d+)$')
  local needed = math.max(now, math.floor((last or 0) / 1000)) + ttl + 60000
  if last and tonumber(keep) < needed then
    -- Twice the slack, so that not every renewal has to move it.
    keep = needed + 60000
    call('HSET', lock, 'last', last .. string.format(' %013d', keep))
    call('PEXPIREAT', lock, keep)
    call('PEXPIREAT', queue, keep)
    call('PEXPIREAT', claims, keep)
  end
  return true
end

for number = 1, #ARGV - 1 do
  local ticket, key = ARGV[number + 1], 4 * number
  if not renew(ticket, KEYS[key - 3], KEYS[key - 2], KEYS[key - 1]) then
    local note = ''
    for _, eviction in ipairs(call('LRANGE', KEYS[key], 0, -1)) do
      note = string.match(eviction, '^%d+ ' .. ticket .. ' %d+ %d+ [^ ]* [^ ]* (.*)$') or note
    end
    answer[#answer + 1] = tostring(number)
    answer[#answer + 1] = note
  end
end
return answer
