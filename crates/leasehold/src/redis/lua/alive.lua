-- Which locks have a live claim. Writes nothing.
-- KEYS   2 per lock: its hash, its queue
-- Answer 1 or 0 per lock
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answer = {}
for number = 1, #KEYS / 2 do
  local record, queue = KEYS[2 * number - 1], KEYS[2 * number]
  answer[number] = 0
  for _, ticket in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    local expires = string.match(redis.call('HGET', record, ticket) or '', '^(%d+)')
    if expires and tonumber(expires) > now then
      answer[number] = 1
      break
    end
  end
end
return answer
