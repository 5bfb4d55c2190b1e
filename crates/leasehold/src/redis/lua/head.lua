-- Starts every script that works on one lock.
-- KEYS  1 the lock's hash, 2 its queue
local record, queue = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local micros = time[1] * 1000000 + time[2]

local function text(number) return string.format('%.0f', number) end
