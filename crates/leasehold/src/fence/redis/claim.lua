-- Raises the mark unless a newer holder has come.
-- KEYS: the mark; ARGV: the fence, whether every claim takes over.
-- Fences are padded, so that they compare as text; numbers would be rounded.
local mark = redis.call('GET', KEYS[1])
if mark and not (#mark == 37 and string.match(mark, '^%d+%-%x+$')) then
  -- Somebody else's key, which stays as it is.
  return {'stale', mark}
end
if mark and mark ~= ARGV[1] and ARGV[2] == '0' then
  if string.sub(mark, 1, 20) >= string.sub(ARGV[1], 1, 20) then
    return {'stale', mark}
  end
end
redis.call('SET', KEYS[1], ARGV[1])
return {'passed'}
