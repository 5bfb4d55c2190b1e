-- Keeps claims of many locks for another ttl; never brings one back.
-- KEYS   4 per claim: the lock, its queue, the claims in its queue, its evictions
-- ARGV   1 ttl in ms, then the ticket of each claim
-- Answer {server time in ms, then per missing claim: its number from 1, `by reason` or ''}
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ttl = tonumber(ARGV[1])
local answer = { string.format('%.0f', now) }

local function renew(ticket, lock, queue, claims)
  local known = call('HMGET', lock, ticket, 'cap', 'last')
  local where, packed = lock, known[1]
  if known[2] then where, packed = claims, call('HGET', claims, ticket) end
  local since, stays, rest = string.match(packed or '', '^(%d+) (-?%d+)( .*)$')
  if not since then return false end
  local start = math.floor(since / 1000)
  if start + stays <= now then return false end
  call('HSET', where, ticket, string.format('%s %.0f%s', since, now + ttl - start, rest))
  local last, keep = string.match(known[3] or '', '^(%d+) (%d+)$')
  local needed = math.max(now, math.floor((last or 0) / 1000)) + ttl + 60000
  if last and tonumber(keep) < needed then
    -- Twice the slack, so that not every renewal has to move it.
    keep = string.format('%.0f', needed + 60000)
    call('HSET', lock, 'last', last .. ' ' .. keep)
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
