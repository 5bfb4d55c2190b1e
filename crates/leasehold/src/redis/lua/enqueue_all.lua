-- Takes all of these locks, if all are free, or none. `clock.lua` and
-- `hold_alone.lua` stand before it.
-- KEYS   the locks
-- ARGV   1 server time in ms after which it is too late, 2 ttl in ms, then per lock
--        the ticket and the rest of the claim, as for `enqueue.lua`
-- Answer {held, an order per lock} | {busy} | {separately} | {late, server time in ms}
if micros > (ARGV[1] + 1) * 1000 then return { 'late', string.format('%d', micros / 1000) } end

local formers, orders, is_busy = {}, {}, false
for number, lock in ipairs(KEYS) do
  local ticket = ARGV[2 * number + 1]
  local last = nil
  local known = call('HGETALL', lock)
  for at = 1, #known, 2 do
    local field, value = known[at], known[at + 1]
    if field == 'last' then
      last = value
    else
      local expires = string.match(value, '^(%d+) %d+ ')
      local is_alive = expires and tonumber(expires) > math.floor(micros / 1000)
      -- A queue, or a dead claim, be it ours: `enqueue.lua` knows what to do.
      if not is_alive then return { 'separately' } end
      if field == ticket then
        -- Asked again: the answer got lost.
        orders[number] = true
      else
        is_busy = true
      end
    end
  end
  if orders[number] then orders[number] = tonumber(string.sub(last, 1, 16)) end
  formers[number] = last or false
end
if is_busy then return { 'busy' } end

for number, lock in ipairs(KEYS) do
  local ticket, rest = ARGV[2 * number + 1], ARGV[2 * number + 2]
  orders[number] = orders[number] or hold_alone(lock, formers[number], ticket, ARGV[2], rest)
end
local answer = { 'held' }
for number, order in ipairs(orders) do
  answer[number + 1] = string.format('%d', order)
end
return answer
