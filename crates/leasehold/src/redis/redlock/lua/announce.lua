-- Notes down a floor that other nodes are about to get, so that nobody chooses one
-- below it who does not see those.
-- KEYS   1 the node
-- ARGV   1 floor, 2 the mark that must be admitted
-- Answer 1, or 0 if the node is not as it must be
local node = redis.call('HMGET', KEYS[1], 'run', 'announced')
if node[1] ~= ARGV[2] then return 0 end
if (tonumber(node[2]) or 0) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'announced', ARGV[1])
end
return 1
