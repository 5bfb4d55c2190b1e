-- Which of these locks have still the same holder.
-- KEYS   the locks
-- ARGV   for each its holder
-- Answer 1 or 0 for each
local answer = {}
for number, lock in ipairs(KEYS) do
  answer[number] = redis.pcall('HEXISTS', lock, ARGV[number]) == 1 and 1 or 0
end
return answer
