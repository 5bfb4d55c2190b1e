-- The quick part of `enqueue.lua`: nobody has a claim, so this one holds.
if now > tonumber(ARGV[6]) then return { 'late', text(now) } end
local known = redis.call('HMGET', record, 'cap', 'last')
if not known[1] then
  local last = math.max((tonumber(known[2]) or 0) + 32, micros)
  local order, ttl = text(last), tonumber(ARGV[4])
  redis.call('ZADD', queue, order, ARGV[1])
  redis.call('HSET', record, 'cap', ARGV[2], 'last', order, 'held', order, ARGV[1],
    table.concat({ text(now + ttl), order, ARGV[3], text(now), ARGV[8], ARGV[7] }, ' '))
  local longest = text(ttl + 60000 + math.ceil((last - micros) / 1000))
  redis.call('PEXPIRE', record, longest)
  redis.call('PEXPIRE', queue, longest)
  return { 'held', order }
end
