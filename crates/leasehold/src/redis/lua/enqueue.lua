-- Puts a claim at the end of the queue, or finds it there. `enqueue_alone.lua` stands before it.
-- ARGV   1 ticket, 2 server time in ms after which it is too late, 3 ttl in ms,
--        4 the rest of the claim: `capacity weight holder lease pid host label`,
--        5 whether it waits (1 or 0)
-- Answer its order if it holds alone | {held, order}
--        | {waiting, order, ahead, watched order or '', ms until that expires}
--        | {busy} | {conflict, capacity in use} | {late, server time in ms}
local me, ttl = ARGV[1], tonumber(ARGV[3])
local wanted, weight = string.match(ARGV[4], '^(%d+) (%d+) ')
wanted, weight = tonumber(wanted), tonumber(weight)

local is_new = false
if alone then
  local packed = fields[alone]
  local expires, its_weight = parse(packed)
  if not expires then
    call('HDEL', lock, alone)
    return hold_alone(fields.last)
  end
  if alone == me then return last end
  capacity = tonumber(string.match(packed, '^%d+ %S+ (%d+)'))
  if capacity ~= wanted then return { 'conflict', text(capacity) } end
  if its_weight + weight > capacity and ARGV[5] ~= '1' then return { 'busy' } end
  -- From here on the lock has a queue. What is there of a former one is from
  -- before the lock itself was lost.
  held, is_new = last, true
  call('DEL', queue, claims)
  call('HDEL', lock, alone)
  call('HSET', lock, 'cap', text(capacity), 'held', text(held))
  call('ZADD', queue, text(last), alone)
  call('HSET', claims, alone, packed)
elseif not capacity then
  return hold_alone(fields.last)
end

local used, all = settle(me)
if all and used == 0 then
  tidy()
  return hold_alone(fields.last)
end
local expires, its_weight = read(me)
if expires then return standing(me, its_weight) end
if capacity ~= wanted then return { 'conflict', text(capacity) } end
local fits = all and used + weight <= capacity
if not fits and ARGV[5] ~= '1' then return { 'busy' } end

local order = math.max(last + 32, micros)
local needed = order / 1000 + ttl + 60000
local is_kept = keep >= needed
if not is_kept then keep = math.floor(needed) + 60000 end
call('ZADD', queue, text(order), me)
call('HSET', claims, me, text(micros) .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
local memory = string.format('%016.0f %.0f', order, keep)
if fits then
  call('HSET', lock, 'last', memory, 'held', text(order))
else
  call('HSET', lock, 'last', memory)
end
if not is_kept then call('PEXPIREAT', lock, text(keep)) end
if is_new or not is_kept then
  call('PEXPIREAT', queue, text(keep))
  call('PEXPIREAT', claims, text(keep))
end
if fits then return { 'held', text(order) } end
return waiting(me, order, weight)
