-- Puts a claim at the end of the queue, or finds it there. `enqueue_free.lua` stands before it.
-- ARGV   1 ticket, 2 capacity, 3 weight, 4 ttl in ms, 5 whether it waits (1 or 0),
--        6 server time in ms after which it is too late, 7 the rest of the claim's
--        record: `lease pid host label`, 8 holder
-- Answer {held, order} | {waiting, order, ahead, watched order or '', ms until that expires}
--        | {busy} | {conflict, capacity in use} | {late, server time in ms}
local me, capacity, weight, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local used, all = 0, true
local in_use = tonumber(known[1])
if in_use and redis.call('EXISTS', queue) == 1 then
  used, all = settle(in_use, me)
  local mine = redis.call('ZSCORE', queue, me) and read(me)
  if mine then return standing(me, mine, in_use) end
  if redis.call('EXISTS', queue) == 0 then
    in_use = nil
  elseif in_use ~= capacity then
    return { 'conflict', text(in_use) }
  end
end
local fits = all and used + weight <= capacity
if not fits and ARGV[5] ~= '1' then return { 'busy' } end

local order = math.max((tonumber(known[2]) or 0) + 32, micros)
local claim = { order = order, weight = weight }
local packed = table.concat({ text(now + ttl), text(order), ARGV[3], text(now), ARGV[8], ARGV[7] }, ' ')
redis.call('ZADD', queue, text(order), me)
if fits then
  redis.call('HSET', record, 'cap', ARGV[2], 'last', text(order), me, packed, 'held', text(order))
else
  redis.call('HSET', record, 'cap', ARGV[2], 'last', text(order), me, packed)
end
keep(ttl)
if fits then return { 'held', text(order) } end
return waiting(me, claim, capacity)
