-- A lock on this node as people see it. Writes nothing.
-- KEYS   1 the lock, 2 its note, 3 its evictions
-- Answer {ms until it expires or -1, who, how the value begins, its note if it is of this holder,
--        then the evictions}; `who` is '' if it is free
--        | {type, the type of the key that is no string}
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then return { 'type', redis.call('TYPE', KEYS[1]).ok } end
local answer = { '0', '', '', '' }
if value then
  local who = value
  if #value ~= 32 or string.match(value, '[^0-9a-f]') then
    who = string.sub(redis.sha1hex(value), 1, 32)
  end
  local note = redis.call('GET', KEYS[2]) or ''
  if string.match(note, '^%S+ (%x+) ') ~= value then note = '' end
  local start = string.gsub(string.sub(value, 1, 8), '[^%w._-]', '?')
  answer = { string.format('%.0f', redis.call('PTTL', KEYS[1])), who, start, note }
end
for _, eviction in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do
  answer[#answer + 1] = eviction
end
return answer
