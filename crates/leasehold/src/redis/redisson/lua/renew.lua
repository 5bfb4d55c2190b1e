-- Keeps many locks for another ttl; never brings one back.
-- KEYS   3 per claim: the lock, our record beside it, its evictions
-- ARGV   1 ttl in ms, then 2 per claim: holder, ticket
-- Answer {server time in ms, then per missing claim: its number from 1, `by reason` or ''}
local time = redis.call('TIME')
local ttl = tonumber(ARGV[1])
local answer = { string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) }
for number = 1, #KEYS / 3 do
  local lock, record, evictions = KEYS[3 * number - 2], KEYS[3 * number - 1], KEYS[3 * number]
  local holder, ticket = ARGV[2 * number], ARGV[2 * number + 1]
  -- Somebody may have put another type there; that ends this lock, not the rest.
  local is_held = redis.pcall('HEXISTS', lock, holder)
  if type(is_held) == 'table' and not string.find(is_held.err, 'WRONGTYPE', 1, true) then
    return is_held
  end
  if is_held == 1 then
    redis.call('PEXPIRE', lock, ttl)
    -- A write of ours ends the server's watch over what we have read; this starts it anew.
    redis.call('EXISTS', lock)
    if redis.call('PTTL', record) < ttl + 60000 then
      -- Twice the slack, so that not every renewal has to move it.
      redis.call('PEXPIRE', record, ttl + 120000)
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
