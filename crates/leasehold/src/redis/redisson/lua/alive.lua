-- Which of these locks are held by claims of ours.
-- KEYS   2 per lock: the lock, our record beside it
-- Answer 1 or 0 for each
local answer = {}
for number = 1, #KEYS / 2 do
  local holder = redis.call('HGET', KEYS[2 * number], 'holder')
  local is_held = holder and redis.pcall('HEXISTS', KEYS[2 * number - 1], holder)
  answer[number] = is_held == 1 and 1 or 0
end
return answer
