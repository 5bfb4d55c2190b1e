-- What the scripts on one lock share; stands after `memory.lua`. A script's quick
-- parts stand before it, because all this takes time too.
--
-- Orders, times and leases have a fixed width in the record of a claim in the
-- queue: they are cut out and compared as texts, which costs less than numbers.
local lock, queue, claims = KEYS[1], KEYS[2], KEYS[3]
local format, match = string.format, string.match
local now = format('%013d', micros / 1000)

local function order_of(claim) return sub(claim, 1, 16) end
local function lease_of(claim) return sub(claim, 49, 80) end
local function weight_of(claim) return tonumber(match(claim, '^ %d+ (%d+) ', 81)) end
local function capacity_of(claim) return tonumber(match(claim, '^ (%d+) ', 81)) end
local function is_alive(claim) return sub(claim, 18, 30) > now end
local function left_of(claim) return sub(claim, 18, 30) - now end

-- The claim that is alone, as it would be in the queue.
if alone then alone_claim = sub(memory, 1, 17) .. alone_claim end

-- The claim in the queue, unless it is dead.
local function read(ticket)
  local claim = call('HGET', claims, ticket)
  return claim and is_alive(claim) and claim
end

local function drop(ticket)
  call('HDEL', claims, ticket)
  call('ZREM', queue, ticket)
end

-- Grants whatever fits and tells its session, except `me`, who hears by reply;
-- removes the dead on its way. Returns the units in use, and whether all claims
-- there are hold; it does not look further if all units are in use.
local function settle(me)
  local used, granted, from, chunk, is_end, is_blocked = 0, held, 0, 1, false, false
  repeat
    local tickets = call('ZRANGE', queue, from, from + chunk - 1)
    is_end = #tickets < chunk
    for _, ticket in ipairs(tickets) do
      local claim = read(ticket)
      local weight = claim and (capacity == 1 and 1 or weight_of(claim))
      if not claim then
        drop(ticket)
      elseif used + weight > capacity then
        is_blocked = true
        break
      else
        used, from = used + weight, from + 1
        local order = order_of(claim)
        if order > held then
          granted = order
          if ticket ~= me then
            call('PUBLISH', 'lh:inbox:' .. lease_of(claim), 'held ' .. ticket .. ' ' .. order)
          end
        end
      end
    end
    chunk = 64
  until is_end or is_blocked or used >= capacity
  if granted > held then
    held = granted
    call('HSET', lock, 'held', held)
  end
  return used, is_end and not is_blocked
end

-- An answer is one text: that is less to write and to read than a list.
local function told(...) return table.concat({ ... }, ' ') end

-- What a claim that is not granted has to watch: the last claim before it that
-- keeps it out even if all others leave; else whichever expires first.
local function waiting(me, order, weight)
  local ahead = call('ZRANK', queue, me)
  local to, chunk, soonest = ahead - 1, 1, nil
  while to >= 0 do
    local from = math.max(0, to - chunk + 1)
    local tickets = call('ZRANGE', queue, from, to)
    for number = #tickets, 1, -1 do
      local claim = read(tickets[number])
      if not claim then
        drop(tickets[number])
        ahead = ahead - 1
      elseif capacity == 1 or weight_of(claim) + weight > capacity then
        return told('waiting', order, ahead, order_of(claim), left_of(claim))
      else
        soonest = math.min(soonest or left_of(claim), left_of(claim))
      end
    end
    to, chunk = from - 1, 64
  end
  return told('waiting', order, ahead, '-', soonest or 0)
end

-- Where a live claim in the queue stands.
local function standing(me, claim)
  local order = order_of(claim)
  if order <= held then return told('held', order) end
  return waiting(me, order, weight_of(claim))
end

-- After the last claim only the order is kept.
local function tidy()
  call('HDEL', lock, 'cap', 'held')
  call('DEL', queue, claims)
end
