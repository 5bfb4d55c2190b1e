-- Takes a lock that nobody has, and returns the claim's order. `former` is what
-- the lock remembers. Stands after `call` and `micros`.
local now_drawn
local function hold_alone(lock, former, ticket, ttl, rest)
  local order, is_kept = micros, nil
  now_drawn = now_drawn or string.format('%016d', micros)
  if former then
    local least = string.sub(former, 1, 16) + 32
    if least > order then order = least end
    is_kept = string.sub(former, 18) - ttl - 60000 >= order / 1000
  end
  local drawn = order == micros and now_drawn or string.format('%016d', order)
  local claim = now_drawn .. ' ' .. ttl .. ' ' .. rest
  if is_kept then
    call('HSET', lock, 'last', drawn .. string.sub(former, 17), ticket, claim)
  else
    -- Twice the slack, so that not every claim has to move it.
    local keep = string.format('%d', order / 1000 + ttl + 120000)
    call('HSET', lock, 'last', drawn .. ' ' .. keep, ticket, claim)
    call('PEXPIREAT', lock, keep)
  end
  return order
end
