-- Writes the lock's memo if the claim holds. One that is removed stays, without
-- bytes, so that its edition does.
-- KEYS   4 the lock's memo
-- ARGV   1 ticket, 2 token, 3 edition, 4 bytes, 5 milliseconds to keep it, 0 for good
-- Answer 1, or 0 if the claim is not there or does not hold under this token
local me, claim = ARGV[1], nil
if alone == me then
  claim = is_alive(alone_claim) and alone_claim
elseif capacity then
  claim = call('ZSCORE', queue, me) and read(me)
  claim = claim and order_of(claim) <= held and claim
end
if not claim then return 0 end
-- An enqueue that came late may have made the claim anew, after it was given back
-- and others held. Their tokens are greater than those of its first grant.
local ahead = ARGV[2] - order_of(claim)
if ahead < 0 or ahead >= 32 then return 0 end
local last = call('HMGET', KEYS[4], 'token', 'edition')
-- A request that comes late does not bring back an older edition of its own hold.
if last[1] == ARGV[2] and tonumber(last[2]) > tonumber(ARGV[3]) then return 1 end
call('HSET', KEYS[4], 'token', ARGV[2], 'edition', ARGV[3], 'bytes', ARGV[4])
if ARGV[5] == '0' then
  call('PERSIST', KEYS[4])
else
  call('PEXPIRE', KEYS[4], ARGV[5])
end
return 1
