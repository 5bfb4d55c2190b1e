-- Takes a claim out of its lock and grants what fits now.
-- KEYS   4 the lock's evictions
-- ARGV   1 ticket, 2 `by reason` if the claim is broken, else ''
-- Answer 1 if the claim was there and alive, else 0
local me, claim = ARGV[1], nil
if alone == me then
  claim = is_alive(alone_claim) and alone_claim
  call('HDEL', lock, me)
elseif capacity then
  claim = read(me)
  drop(me)
  local used, all = settle(me)
  if all and used == 0 then tidy() end
end
if not claim then return 0 end
if ARGV[2] ~= '' then
  local owner = match(claim, ' (%d+ %S* %S*)$')
  call('LPUSH', KEYS[4], table.concat({ now, me, order_of(claim), owner, ARGV[2] }, ' '))
  call('LTRIM', KEYS[4], 0, 99)
  call('PEXPIRE', KEYS[4], 604800000)
  call('PUBLISH', 'lh:inbox:' .. lease_of(claim), 'renew')
end
return 1
