-- Reads what `head.lua` found.
local sub = string.sub

-- What the lock remembers: the last order, and when the keys go. With a queue,
-- its capacity and the greatest order granted; without, the one claim there may be.
local memory, capacity, held, alone, alone_claim
for number = 1, #known, 2 do
  local field, value = known[number], known[number + 1]
  if field == 'last' then
    memory = value
  elseif field == 'cap' then
    capacity = tonumber(value)
  elseif field == 'held' then
    held = value
  else
    alone, alone_claim = field, value
  end
end
