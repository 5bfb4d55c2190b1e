-- Gives the lock back on this node if it is ours.
-- KEYS   1 the lock
-- ARGV   1 id
-- Answer 1 if it was ours, else 0
if redis.pcall('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
