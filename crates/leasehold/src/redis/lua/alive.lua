-- Which locks have a live claim. Writes nothing.
-- KEYS   3 per lock: the lock, its queue, the claims in its queue
-- Answer 1 or 0 per lock
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function has_claim(lock, queue, claims)
  -- What is not a hash is not a lock of ours, whatever its name.
  if call('TYPE', lock).ok ~= 'hash' then return false end
  if call('HEXISTS', lock, 'cap') == 1 then
    for _, ticket in ipairs(call('ZRANGE', queue, 0, -1)) do
      local expires = string.match(call('HGET', claims, ticket) or '', '^%d+ (%d+) ')
      if expires and tonumber(expires) > now then return true end
    end
    return false
  end
  local fields = call('HGETALL', lock)
  for number = 1, #fields, 2 do
    local expires = string.match(fields[number + 1], '^(%d+) %d+ ')
    if expires and tonumber(expires) > now then return true end
  end
  return false
end

local answer = {}
for number = 1, #KEYS / 3 do
  local has = has_claim(KEYS[3 * number - 2], KEYS[3 * number - 1], KEYS[3 * number])
  answer[number] = has and 1 or 0
end
return answer
