-- Which of these locks have still this value. Writes nothing.
-- KEYS   the locks
-- ARGV   for each its value
-- Answer 1 or 0 for each
local answer = {}
for number, lock in ipairs(KEYS) do
  answer[number] = redis.pcall('GET', lock) == ARGV[number] and 1 or 0
end
return answer
