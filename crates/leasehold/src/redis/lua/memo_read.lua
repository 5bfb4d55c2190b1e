-- The memo of a lock. Writes nothing; `clock.lua` stands before it.
-- KEYS   1 the memo
-- Answer {server time in us, token, edition, bytes}; the time alone if there is none;
--        no bytes if it was removed
local answer = { string.format('%d', micros) }
for _, value in ipairs(call('HMGET', KEYS[1], 'token', 'edition', 'bytes')) do
  if value then answer[#answer + 1] = value end
end
return answer
