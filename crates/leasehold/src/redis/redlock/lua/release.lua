-- Gives locks back on this node where they are ours.
-- KEYS   the locks
-- ARGV   for each its id
-- Answer how many were ours
local found = 0
for number, lock in ipairs(KEYS) do
  if redis.pcall('GET', lock) == ARGV[number] then found = found + redis.call('DEL', lock) end
end
return found
