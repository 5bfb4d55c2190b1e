-- Which locks have a live claim. Writes nothing.
-- KEYS   3 per lock: the lock, its queue, the claims in its queue
-- Answer 1 or 0 per lock
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function is_alive(packed)
  local since, stays = string.match(packed or '', '^(%d+) (-?%d+) ')
  return since and math.floor(since / 1000) + stays > now
end

local function has_claim(lock, queue, claims)
  -- What is not a hash is not a lock of ours, whatever its name.
  if call('TYPE', lock).ok ~= 'hash' then return false end
  if call('HEXISTS', lock, 'cap') == 1 then
    for _, ticket in ipairs(call('ZRANGE', queue, 0, -1)) do
      if is_alive(call('HGET', claims, ticket)) then return true end
    end
    return false
  end
  local fields = call('HGETALL', lock)
  for number = 1, #fields, 2 do
    if fields[number] ~= 'last' and is_alive(fields[number + 1]) then return true end
  end
  return false
end

local answer = {}
for number = 1, #KEYS / 3 do
  local is = has_claim(KEYS[3 * number - 2], KEYS[3 * number - 1], KEYS[3 * number])
  answer[number] = is and 1 or 0
end
return answer
