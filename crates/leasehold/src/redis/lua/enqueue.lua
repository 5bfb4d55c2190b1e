-- Puts a claim at the end of the queue, or finds it there. `hold_alone.lua` and
-- `enqueue_alone.lua` stand before it.
-- ARGV   1 ticket, 2 server time in ms after which it is too late, 3 ttl in ms,
--        4 the rest of the claim: `lease capacity weight holder pid host label`,
--        5 whether it waits (1 or 0)
-- Answer its order if it holds alone, else a text: `held ORDER`
--        | `waiting ORDER AHEAD WATCHED LEFT`: the watched order or `-`, ms until it expires
--        | `busy` | `conflict CAPACITY`: the one in use | `late NOW`: server time in ms
local me = ARGV[1]
local wanted, weight = match(ARGV[4], '^%x+ (%d+) (%d+) ')
wanted, weight = tonumber(wanted), tonumber(weight)

local is_new = false
if alone then
  if not is_alive(alone_claim) then
    call('HDEL', lock, alone)
    return hold_alone(lock, memory, me, ARGV[3], ARGV[4])
  end
  if alone == me then return tonumber(order_of(alone_claim)) end
  capacity = capacity_of(alone_claim)
  if capacity ~= wanted then return told('conflict', capacity) end
  if weight_of(alone_claim) + weight > capacity and ARGV[5] ~= '1' then return 'busy' end
  -- From here on the lock has a queue. What is there of a former one is from
  -- before the lock itself was lost.
  held, is_new = order_of(alone_claim), true
  call('DEL', queue, claims)
  call('HDEL', lock, alone)
  call('HSET', lock, 'cap', capacity, 'held', held)
  call('ZADD', queue, held, alone)
  call('HSET', claims, alone, alone_claim)
elseif not capacity then
  return hold_alone(lock, memory, me, ARGV[3], ARGV[4])
end

local used, all = settle(me)
if all and used == 0 then
  tidy()
  return hold_alone(lock, memory, me, ARGV[3], ARGV[4])
end
local mine = read(me)
if mine then return standing(me, mine) end
if capacity ~= wanted then return told('conflict', capacity) end
local fits = all and used + weight <= capacity
if not fits and ARGV[5] ~= '1' then return 'busy' end

local drawn = math.max(sub(memory, 1, 16) + 32, micros)
local order, keep = format('%016d', drawn), sub(memory, 18)
local needed = drawn / 1000 + ARGV[3] + 60000
local is_kept = tonumber(keep) >= needed
if not is_kept then keep = format('%013d', needed + 60000) end
call('ZADD', queue, order, me)
call('HSET', claims, me,
  format('%s %013d %016d %s', order, micros / 1000 + ARGV[3], micros, ARGV[4]))
if fits then
  call('HSET', lock, 'last', order .. ' ' .. keep, 'held', order)
else
  call('HSET', lock, 'last', order .. ' ' .. keep)
end
if not is_kept then call('PEXPIREAT', lock, tonumber(keep)) end
if is_new or not is_kept then
  call('PEXPIREAT', queue, tonumber(keep))
  call('PEXPIREAT', claims, tonumber(keep))
end
if fits then return told('held', order) end
return waiting(me, order, weight)
