-- A lock as people see it. Writes nothing.
-- KEYS   4 the lock's evictions
-- Answer {server time in ms, capacity or '', how many claims, then per live claim its ticket,
--        its order and its record, then the evictions}
local answer = { text(now), fields.cap or '', 0 }
local function add(ticket, order, packed)
  if not parse(packed) then return end
  answer[3] = answer[3] + 1
  answer[#answer + 1] = ticket
  answer[#answer + 1] = text(order)
  answer[#answer + 1] = packed
end
if alone then
  answer[2] = string.match(fields[alone], '^%d+ %S+ (%d+)') or ''
  add(alone, last, fields[alone])
elseif capacity then
  local entries = call('ZRANGE', queue, 0, -1, 'WITHSCORES')
  for number = 1, #entries, 2 do
    add(entries[number], tonumber(entries[number + 1]), call('HGET', claims, entries[number]))
  end
end
for _, eviction in ipairs(call('LRANGE', KEYS[4], 0, -1)) do
  answer[#answer + 1] = eviction
end
answer[3] = text(answer[3])
return answer
