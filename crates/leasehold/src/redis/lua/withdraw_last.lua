-- The quick part of `withdraw.lua`: ours is the only claim, so nobody is told.
if ARGV[2] == '' and redis.call('ZCARD', queue) == 1 and redis.call('ZREM', queue, ARGV[1]) == 1 then
  local known = redis.call('HMGET', record, 'last', ARGV[1])
  redis.call('HDEL', record, 'cap', ARGV[1])
  local lead = math.ceil(((tonumber(known[1]) or 0) - micros) / 1000)
  redis.call('PEXPIRE', record, text(60000 + math.max(0, lead)))
  local expires = string.match(known[2] or '', '^(%d+)')
  return expires and tonumber(expires) > now and 1 or 0
end
