-- A lock as people see it. Writes nothing. Behind `proof.lua`, also as members of a
-- barrier see it.
-- KEYS   4 the lock's evictions
-- Answer {server time in ms, capacity or '', how many claims, then per live claim its ticket
--        and its record, then the evictions}
local answer = { now, '', 0 }
local function add(ticket, claim)
  if not (claim and is_alive(claim)) then return end
  answer[2] = capacity_of(claim)
  answer[3] = answer[3] + 1
  answer[#answer + 1] = ticket
  answer[#answer + 1] = claim
end
if alone then
  add(alone, alone_claim)
elseif capacity then
  for _, ticket in ipairs(call('ZRANGE', queue, 0, -1)) do
    add(ticket, call('HGET', claims, ticket))
  end
end
for _, eviction in ipairs(call('LRANGE', KEYS[4], 0, -1)) do
  answer[#answer + 1] = eviction
end
return answer
