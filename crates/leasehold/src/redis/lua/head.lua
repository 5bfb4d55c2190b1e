-- Starts every script that works on one lock; `clock.lua` stands before it.
-- KEYS  1 the lock, 2 its queue, 3 the claims in its queue
local known = call('HGETALL', KEYS[1])
