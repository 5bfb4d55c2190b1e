-- The quick part of `withdraw.lua` for a mutex whose holder goes and whose next
-- claim is alive: that one holds now.
if ARGV[2] == '' and call('HGET', KEYS[1], 'cap') == '1' then
  local me, sub = ARGV[1], string.sub
  local first = call('ZRANGE', KEYS[2], 0, 1)
  local heir = first[1] == me and first[2]
  local found = heir and call('HMGET', KEYS[3], me, heir)
  if found and found[1] and found[2] then
    local now = string.format('%013d', micros / 1000)
    local claim = found[2]
    if sub(found[1], 18, 30) > now and sub(claim, 18, 30) > now then
      local order = sub(claim, 1, 16)
      call('HDEL', KEYS[3], me)
      call('ZREM', KEYS[2], me)
      call('HSET', KEYS[1], 'held', order)
      call('PUBLISH', 'lh:inbox:' .. sub(claim, 49, 80), 'held ' .. heir .. ' ' .. order)
      return 1
    end
  end
end
