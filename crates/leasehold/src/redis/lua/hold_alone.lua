-- Takes a lock that nobody has, and returns the claim's order. `former` is what
-- the lock remembers. Stands after `call` and `micros`.
local now_drawn, now_ttl, now_until
local function hold_alone(lock, former, ticket, ttl, rest)
  local order, is_kept = micros, nil
  -- Texts take time, and those who ask together have the same.
  now_drawn = now_drawn or string.format('%016d', micros)
  if now_ttl ~= ttl then
    now_ttl, now_until = ttl, string.format('%013d ', micros / 1000 + ttl)
  end
  if former then
    local least = string.sub(former, 1, 16) + 32
    if least > order then order = least end
    is_kept = string.sub(former, 18) - ttl - 60000 >= order / 1000
  end
  local drawn = order == micros and now_drawn or string.format('%016d', order)
  local claim = now_until .. now_drawn .. ' ' .. rest
  if is_kept then
    call('HSET', lock, 'last', drawn .. string.sub(former, 17), ticket, claim)
  else
    -- Twice the slack, so that not every claim has to move it.
    local keep = math.floor(order / 1000) + ttl + 120000
    call('HSET', lock, 'last', drawn .. string.format(' %013d', keep), ticket, claim)
    call('PEXPIREAT', lock, keep)
  end
  return order
end
