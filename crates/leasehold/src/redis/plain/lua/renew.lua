-- Keeps many locks for another ttl where they are ours; never brings one back.
-- All are read at once: with tracking on, older servers remember all keys of the
-- script at each read. The second reading makes the server tell us of changes again.
-- KEYS   all locks; then, if these are due, our notes on them in the same order
-- ARGV   1 ttl in ms, then the ticket of each lock
-- Answer {server time in ms, then the numbers from 1 of those that are not ours}
local count, ttl = #ARGV - 1, tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answer = { string.format('%.0f', now) }
local known = redis.call('MGET', unpack(KEYS))
for number = 1, count do
  if known[number] == ARGV[number + 1] then
    redis.call('PEXPIRE', KEYS[number], ARGV[1])
    local note = known[count + number]
    if note then
      local token = tonumber(string.match(note, '^%d+')) or 0
      local lead = math.max(0, math.ceil(token / 1000 - now))
      redis.call('PEXPIRE', KEYS[count + number], ttl + 60000 + lead)
    end
  else
    answer[#answer + 1] = tostring(number)
  end
end
redis.call('MGET', unpack(KEYS, 1, count))
return answer
