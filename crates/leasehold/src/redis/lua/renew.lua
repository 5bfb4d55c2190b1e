-- Keeps claims of many locks for another ttl; never brings one back.
-- KEYS   3 per claim: the lock's hash, its queue, its evictions
-- ARGV   1 ttl in ms, then the ticket of each claim
-- Answer {server time in ms, then per missing claim: its number from 1, `by reason` or ''}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ttl = tonumber(ARGV[1])
local answer = { string.format('%.0f', now) }
for number = 1, #ARGV - 1 do
  local record, queue, evictions = KEYS[3 * number - 2], KEYS[3 * number - 1], KEYS[3 * number]
  local ticket = ARGV[number + 1]
  local packed = redis.call('ZSCORE', queue, ticket) and redis.call('HGET', record, ticket)
  local expires, rest = string.match(packed or '', '^(%d+)(.*)$')
  if expires and tonumber(expires) > now then
    redis.call('HSET', record, ticket, string.format('%.0f', now + ttl) .. rest)
    if redis.call('PTTL', record) < ttl + 60000 then
      -- Twice the slack, so that not every renewal has to move it.
      redis.call('PEXPIRE', record, ttl + 120000)
      redis.call('PEXPIRE', queue, ttl + 120000)
    end
  else
    local note = ''
    for _, eviction in ipairs(redis.call('LRANGE', evictions, 0, -1)) do
      note = string.match(eviction, '^%d+ ' .. ticket .. ' %d+ %d+ [^ ]* [^ ]* (.*)$') or note
    end
    answer[#answer + 1] = tostring(number)
    answer[#answer + 1] = note
  end
end
return answer
