-- What the scripts on one lock share; stands after `head.lua`. A script's quick
-- part stands between the two, because all this takes time too.
local lock, queue, claims = KEYS[1], KEYS[2], KEYS[3]
local now = math.floor(micros / 1000)

-- Orders and times have more digits than a number gets by itself.
local function text(number) return string.format('%.0f', number) end

local fields = {}
for number = 1, #known, 2 do fields[known[number]] = known[number + 1] end
-- The last order that was drawn, and when the keys go.
local last, keep = string.match(fields.last or '', '^(%d+) (%d+)$')
last, keep = tonumber(last) or 0, tonumber(keep) or 0
-- In a lock with a queue: what it has, and the greatest order that was granted.
local capacity, held = tonumber(fields.cap), tonumber(fields.held) or 0
-- In a lock without: the one claim that it may have.
local alone
if not capacity then
  for field in pairs(fields) do
    if field ~= 'last' then alone = field end
  end
end

-- When the claim expires, its weight and its lease; nothing if it is dead.
local function parse(packed)
  local since, stays, weight, lease =
    string.match(packed or '', '^(%d+) (-?%d+) %d+ (%d+) %d+ (%x+) ')
  if not since then return nil end
  local expires = math.floor(since / 1000) + stays
  if expires <= now then return nil end
  return expires, tonumber(weight), lease
end

local function read(ticket) return parse(call('HGET', claims, ticket)) end

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
    local entries = call('ZRANGE', queue, from, from + chunk - 1, 'WITHSCORES')
    is_end = #entries < 2 * chunk
    for number = 1, #entries, 2 do
      local ticket, order = entries[number], tonumber(entries[number + 1])
      local expires, weight, lease = read(ticket)
      if not expires then
        drop(ticket)
      elseif used + weight > capacity then
        is_blocked = true
        break
      else
        used, from = used + weight, from + 1
        if order > held then
          granted = order
          if ticket ~= me then
            call('PUBLISH', 'lh:inbox:' .. lease, 'held ' .. ticket .. ' ' .. text(order))
          end
        end
      end
    end
    chunk = 64
  until is_end or is_blocked or used >= capacity
  if granted > held then
    held = granted
    call('HSET', lock, 'held', text(held))
  end
  return used, is_end and not is_blocked
end

-- What a claim that is not granted has to watch: the last claim before it that
-- keeps it out even if all others leave; else whichever expires first.
local function waiting(me, order, weight)
  local ahead = call('ZRANK', queue, me)
  local to, chunk, soonest = ahead - 1, 1, nil
  while to >= 0 do
    local from = math.max(0, to - chunk + 1)
    local entries = call('ZRANGE', queue, from, to, 'WITHSCORES')
    for number = #entries - 1, 1, -2 do
      local expires, other = read(entries[number])
      if not expires then
        drop(entries[number])
        ahead = ahead - 1
      elseif other + weight > capacity then
        local watched = text(tonumber(entries[number + 1]))
        return { 'waiting', text(order), text(ahead), watched, text(expires - now) }
      else
        soonest = math.min(soonest or expires, expires)
      end
    end
    to, chunk = from - 1, 64
  end
  return { 'waiting', text(order), text(ahead), '', text((soonest or now) - now) }
end

-- Where a live claim in the queue stands.
local function standing(me, weight)
  local order = tonumber(call('ZSCORE', queue, me))
  if order <= held then return { 'held', text(order) } end
  return waiting(me, order, weight)
end

-- After the last claim only the order is kept.
local function tidy()
  call('HDEL', lock, 'cap', 'held')
  call('DEL', queue, claims)
end
