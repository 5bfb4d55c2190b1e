-- Does what follows only while the mark is that of the claim.
-- KEYS: the mark, then those of what follows; ARGV: the fence, then likewise.
local mark = redis.call('GET', KEYS[1])
if mark ~= ARGV[1] then
  return {'stale', mark or ''}
end
table.remove(KEYS, 1)
table.remove(ARGV, 1)
local function guarded()
