-- The memo of a lock. Changes nothing; `clock.lua` stands before it.
-- KEYS   1 the memo
-- Answer {server time in us, token, edition, bytes}; the time alone if there is none;
--        no bytes if it was removed
-- There is no such field. But it is a write, so a server that has become a replica
-- refuses, instead of telling for ever what it last knew as a master.
call('HDEL', KEYS[1], '')
local answer = { string.format('%d', micros) }
for _, value in ipairs(call('HMGET', KEYS[1], 'token', 'edition', 'bytes')) do
  if value then answer[#answer + 1] = value end
end
return answer
