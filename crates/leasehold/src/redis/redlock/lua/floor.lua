-- Raises the node's floor: from here on no counter of any lock is below it.
-- KEYS   1 the node
-- ARGV   1 floor, 2 the mark that must be admitted, or '' if none may be,
--        3 the mark of the server that is about to be admitted first, else ''
-- Answer 1, or 0 if the node is not as it must be
local node = redis.call('HMGET', KEYS[1], 'run', 'floor')
if (node[1] or '') ~= ARGV[2] then return 0 end
if (tonumber(node[2]) or 0) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'floor', ARGV[1])
end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'founding', ARGV[3]) end
return 1
