-- The quick part of `enqueue.lua` for a mutex that has a queue: the claim goes
-- behind a live one, so it waits, whatever became of those at the head.
if capacity == 1 and ARGV[5] == '1' and sub(ARGV[4], 33, 37) == ' 1 1 ' then
  local me = ARGV[1]
  local before = call('ZRANGE', KEYS[2], -1, -1)[1]
  local found = before and call('HMGET', KEYS[3], before, me)
  if found and found[1] and not found[2] then
    local now = math.floor(micros / 1000)
    local left = sub(found[1], 18, 30) - now
    local order = math.max(sub(memory, 1, 16) + 32, micros)
    if left > 0 and order / 1000 + ARGV[3] + 60000 <= tonumber(sub(memory, 18)) then
      local drawn = string.format('%016d', order)
      call('ZADD', KEYS[2], drawn, me)
      call('HSET', KEYS[3], me,
        drawn .. string.format(' %013d %016d ', now + ARGV[3], micros) .. ARGV[4])
      call('HSET', KEYS[1], 'last', drawn .. sub(memory, 17))
      local ahead = call('ZCARD', KEYS[2]) - 1
      return 'waiting ' .. drawn .. ' ' .. ahead .. ' ' .. sub(found[1], 1, 17) .. left
    end
  end
end
