-- Where a claim stands, after removing the dead claims before it.
-- ARGV   1 ticket
-- Answer as `enqueue.lua`, or {gone}
local me = ARGV[1]
if alone == me and parse(fields[me]) then return last end
if not capacity then return { 'gone' } end
local used, all = settle(me)
local expires, weight = read(me)
if expires then return standing(me, weight) end
if all and used == 0 then tidy() end
return { 'gone' }
