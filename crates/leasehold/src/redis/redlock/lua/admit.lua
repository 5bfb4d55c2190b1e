-- Admits the server to the nodes, as it is now.
-- KEYS   1 the node
-- ARGV   1 the server's mark, 2 the mark of the admitted before, or '' if none,
--        3 the least floor, 4 `always` if every write is on its disk before it answers, else ''
-- Answer 1, or 0 if another was admitted meanwhile
local node = redis.call('HMGET', KEYS[1], 'run', 'floor')
if node[1] == ARGV[1] then return 1 end
if (node[1] or '') ~= ARGV[2] then return 0 end
if (tonumber(node[2]) or 0) < tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'floor', ARGV[3])
end
redis.call('HSET', KEYS[1], 'run', ARGV[1], 'kept', ARGV[4])
redis.call('HDEL', KEYS[1], 'forgot')
return 1
