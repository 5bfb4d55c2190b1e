-- Starts every script that works on one lock.
-- KEYS  1 the lock, 2 its queue, 3 the claims in its queue
local call = redis.call
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local known = call('HGETALL', KEYS[1])
