-- Where a claim stands, after removing the dead claims before it.
-- ARGV   1 ticket
-- Answer as `enqueue.lua`, or `gone`
local me = ARGV[1]
if alone == me and is_alive(alone_claim) then return tonumber(order_of(alone_claim)) end
if not capacity then return 'gone' end
local used, all = settle(me)
local mine = read(me)
if mine then return standing(me, mine) end
if all and used == 0 then tidy() end
return 'gone'
