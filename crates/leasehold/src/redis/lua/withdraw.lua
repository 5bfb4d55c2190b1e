-- Takes a claim out of its lock and grants what fits now.
-- KEYS   4 the lock's evictions
-- ARGV   1 ticket, 2 `by reason` if the claim is broken, else ''
-- Answer 1 if the claim was there and alive, else 0
local me, broken = ARGV[1], ARGV[2]
local packed, order
if alone == me then
  packed, order = fields[me], last
  call('HDEL', lock, me)
elseif capacity then
  packed = call('HGET', claims, me)
  if broken ~= '' then order = tonumber(call('ZSCORE', queue, me)) end
  drop(me)
  local used, all = settle(me)
  if all and used == 0 then tidy() end
end
local expires, _, lease = parse(packed)
if not expires then return 0 end
if broken ~= '' then
  local owner = string.match(packed, ' %x+ (%d+ %S* %S*)$')
  call('LPUSH', KEYS[4], text(now) .. ' ' .. me .. ' ' .. text(order) .. ' ' .. owner .. ' ' .. broken)
  call('LTRIM', KEYS[4], 0, 99)
  call('PEXPIRE', KEYS[4], 604800000)
  call('PUBLISH', 'lh:inbox:' .. lease, 'renew')
end
return 1
