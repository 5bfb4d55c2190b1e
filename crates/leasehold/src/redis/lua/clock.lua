-- The server's clock.
local call = redis.call
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
