-- The quick part of `enqueue.lua`: nobody has a claim, so this one holds, alone.
if micros > (ARGV[2] + 1) * 1000 then return { 'late', string.format('%d', micros / 1000) } end

-- Takes the lock that nobody has. `former` is what the lock remembers.
local function hold_alone(former)
  local order, is_kept = micros, nil
  if former then
    local least = string.sub(former, 1, 16) + 32
    if least > order then order = least end
    is_kept = string.sub(former, 18) - ARGV[3] - 60000 >= order / 1000
  end
  local drawn = string.format('%016d', order)
  local since = order == micros and drawn or string.format('%016d', micros)
  local claim = since .. ' ' .. ARGV[3] .. ' ' .. ARGV[4]
  if is_kept then
    call('HSET', KEYS[1], 'last', drawn .. string.sub(former, 17), ARGV[1], claim)
  else
    -- Twice the slack, so that not every claim has to move it.
    local keep = string.format('%d', order / 1000 + ARGV[3] + 120000)
    call('HSET', KEYS[1], 'last', drawn .. ' ' .. keep, ARGV[1], claim)
    call('PEXPIREAT', KEYS[1], keep)
  end
  return order
end

if not known[3] then return hold_alone(known[2]) end
