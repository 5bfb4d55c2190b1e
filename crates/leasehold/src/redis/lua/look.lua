-- Where a claim stands, after removing the dead claims before it.
-- ARGV   1 ticket
-- Answer {held, order} | {waiting, order, ahead, watched order or '', ms until that expires} | {gone}
local capacity = tonumber(redis.call('HGET', record, 'cap'))
if not capacity then return { 'gone' } end
settle(capacity, ARGV[1])
local mine = redis.call('ZSCORE', queue, ARGV[1]) and read(ARGV[1])
if mine then return standing(ARGV[1], mine, capacity) end
tidy()
return { 'gone' }
