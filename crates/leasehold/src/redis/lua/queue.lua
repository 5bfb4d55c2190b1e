-- A lock as people see it. Writes nothing.
-- KEYS   3 the lock's evictions
-- Answer {server time in ms, capacity or '', how many claims, then per live claim its ticket
--        and its record, then the evictions}
local answer = { text(now), redis.call('HGET', record, 'cap') or '', 0 }
for _, ticket in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
  if read(ticket) then
    answer[3] = answer[3] + 1
    answer[#answer + 1] = ticket
    answer[#answer + 1] = redis.call('HGET', record, ticket)
  end
end
for _, eviction in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do
  answer[#answer + 1] = eviction
end
answer[3] = text(answer[3])
return answer
