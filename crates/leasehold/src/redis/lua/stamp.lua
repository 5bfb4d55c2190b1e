-- The last order that was drawn on a lock, and which master says so; drawn anew if
-- none is remembered.
-- Answer {} if there is a writer, dead or not; else {order, replication id}
local function is_writer(claim)
  local all = claim and capacity_of(claim)
  return all and weight_of(claim) >= all
end
if alone and is_writer(alone_claim) then return {} end
if capacity then
  for _, ticket in ipairs(call('ZRANGE', queue, 0, -1)) do
    if is_writer(call('HGET', claims, ticket)) then return {} end
  end
end
local order = memory and sub(memory, 1, 16) or format('%016d', micros)
if not memory or tonumber(sub(memory, 18)) < now + 60000 then
  -- Nobody shortens it, and as long as it is there no order comes twice.
  local keep = math.max(tonumber(now), math.floor(order / 1000)) + 120000
  call('HSET', lock, 'last', order .. format(' %013d', keep))
  for _, key in ipairs({ lock, queue, claims }) do call('PEXPIREAT', key, keep) end
end
local id = match(call('INFO', 'replication'), 'master_replid:(%x+)')
return { order, id or '' }
