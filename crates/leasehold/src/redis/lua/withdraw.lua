-- Takes a claim out of its queue and grants what fits now. `withdraw_last.lua` stands before it.
-- KEYS   3 the lock's evictions
-- ARGV   1 ticket, 2 `by reason` if the claim is broken, else ''
-- Answer 1 if the claim was there and alive, else 0
local me, broken = ARGV[1], ARGV[2]
local claim = read(me)
local was_queued = drop(me) == 1
local capacity = tonumber(redis.call('HGET', record, 'cap'))
if capacity then
  settle(capacity, me)
  tidy()
end
if not (claim and was_queued) then return 0 end
if broken ~= '' then
  redis.call('LPUSH', KEYS[3],
    text(now) .. ' ' .. me .. ' ' .. text(claim.order) .. claim.rest .. ' ' .. broken)
  redis.call('LTRIM', KEYS[3], 0, 99)
  redis.call('PEXPIRE', KEYS[3], 604800000)
  redis.call('PUBLISH', 'lh:inbox:' .. claim.lease, 'renew')
end
return 1
