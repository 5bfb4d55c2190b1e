-- What the scripts on one lock share; stands after `head.lua`. A script's quick
-- part stands between the two, because making these functions takes time too.

-- The claim, unless it is dead.
local function read(ticket)
  local packed = redis.call('HGET', record, ticket)
  if not packed then return nil end
  local expires, order, weight, lease, rest =
    string.match(packed, '^(%d+) (%d+) (%d+) %d+ %d+ (%x+)(.*)$')
  if not expires or tonumber(expires) <= now then return nil end
  return { expires = tonumber(expires), order = tonumber(order), weight = tonumber(weight),
           lease = lease, rest = rest }
end

local function drop(ticket)
  redis.call('HDEL', record, ticket)
  return redis.call('ZREM', queue, ticket)
end

-- Visits the live claims from the head on until told to stop; removes the dead.
-- Says whether it came to the end.
local function walk(visit)
  local from, chunk = 0, 2
  while true do
    local tickets = redis.call('ZRANGE', queue, from, from + chunk - 1)
    for _, ticket in ipairs(tickets) do
      local claim = read(ticket)
      if not claim then
        drop(ticket)
      else
        if visit(ticket, claim) then return false end
        from = from + 1
      end
    end
    if #tickets < chunk then return true end
    chunk = 64
  end
end

-- Grants whatever fits and tells its session, except `me`, who hears by reply.
-- Returns the units in use and whether all claims there are hold.
local function settle(capacity, me)
  local used, held = 0, tonumber(redis.call('HGET', record, 'held')) or 0
  local highest = held
  local all = walk(function(ticket, claim)
    if used + claim.weight > capacity then return true end
    used = used + claim.weight
    if claim.order > held then
      highest = claim.order
      if ticket ~= me then
        redis.call('PUBLISH', 'lh:inbox:' .. claim.lease, 'held ' .. ticket .. ' ' .. text(claim.order))
      end
    end
  end)
  if highest > held then redis.call('HSET', record, 'held', text(highest)) end
  return used, all
end

-- What a claim that is not granted has to watch. A mutex looks at the claim
-- before it only, others at all that are before them.
local function waiting(me, claim, capacity)
  local ahead, watch, expires = 0, nil, nil
  if capacity == 1 then
    ahead = redis.call('ZRANK', queue, me)
    while ahead > 0 and not watch do
      local before = redis.call('ZRANGE', queue, ahead - 1, ahead - 1)[1]
      watch = read(before)
      if not watch then
        drop(before)
        ahead = ahead - 1
      end
    end
  else
    walk(function(ticket, other)
      if ticket == me then return true end
      ahead = ahead + 1
      if other.weight + claim.weight > capacity then watch = other end
      if not expires or other.expires < expires then expires = other.expires end
    end)
  end
  expires = watch and watch.expires or expires or now
  return { 'waiting', text(claim.order), text(ahead), watch and text(watch.order) or '', text(expires - now) }
end

local function standing(me, claim, capacity)
  local held = tonumber(redis.call('HGET', record, 'held')) or 0
  if claim.order <= held then return { 'held', text(claim.order) } end
  return waiting(me, claim, capacity)
end

-- Keeps the keys for as long as they may be needed.
local function keep(ttl)
  local last = tonumber(redis.call('HGET', record, 'last')) or 0
  local lead = math.max(0, math.ceil((last - micros) / 1000))
  local longest = ttl + 60000 + lead
  if ttl == 0 or redis.call('PTTL', record) < longest then
    redis.call('PEXPIRE', record, text(longest))
    redis.call('PEXPIRE', queue, text(longest))
  end
end

-- After the last claim only the orders are kept, and not for long.
local function tidy()
  if redis.call('EXISTS', queue) == 0 and redis.call('HDEL', record, 'cap') == 1 then keep(0) end
end
