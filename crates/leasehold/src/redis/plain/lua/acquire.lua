-- Takes the lock if it is free, or finds that it is ours already.
-- KEYS   1 the lock, 2 our note on it
-- ARGV   1 ticket, 2 ttl in ms, 3 how long the note lives in ms, 4 ` ticket holder pid host label`,
--        5 the server's time in ms after which it is too late
-- Answer {held, token} | {busy, ms until it expires or -1, who} | {late, server time in ms}
--        | {type, what the key holds instead of a string}
local lock, note, me = KEYS[1], KEYS[2], ARGV[1]
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
if micros > ARGV[5] * 1000 then return { 'late', string.format('%.0f', micros / 1000) } end

local function grant(is_repeated)
  -- The server tells us of changes to what we read after our own writes.
  local last = redis.call('MGET', lock, note)[2]
  local order, longest = micros, ARGV[3]
  if last then
    local token, ticket = string.match(last, '^(%d+) (%x+)')
    if is_repeated and ticket == me then return { 'held', token } end
    local least = (tonumber(token) or 0) + 32
    if least > micros then
      order, longest = least, longest + math.ceil((least - micros) / 1000)
    end
  end
  local token = string.format('%.0f', order)
  redis.call('SET', note, token .. ARGV[4], 'PX', longest)
  return { 'held', token }
end

if redis.call('SET', lock, me, 'NX', 'PX', ARGV[2]) then return grant(false) end
local value = redis.pcall('GET', lock)
if value == me then
  redis.call('PEXPIRE', lock, ARGV[2])
  return grant(true)
end
if type(value) == 'table' then return { 'type', redis.call('TYPE', lock).ok } end
return { 'busy', string.format('%.0f', redis.call('PTTL', lock)), redis.sha1hex(value or '') }
