-- Asks for claims and takes claims out that may be alone on their locks, each for
-- itself. `hold_alone` and `enqueue` stand before it: `enqueue.lua` with what it needs.
-- KEYS   per claim the lock
-- ARGV   1 server time in ms after which it is too late for all; then per claim that is
--        asked for, as for `enqueue.lua`: ticket, ttl, the rest, whether it waits; per
--        claim that leaves: ticket, ''
-- Answer per claim as of `enqueue.lua`, or 1 if it was there, alone, and is out, else 0;
--        nil for what went wrong: whoever asks alone is told why
local try = redis.pcall
local answer, at = {}, 2
local is_late = micros > (ARGV[1] + 1) * 1000
for number = 1, #KEYS do
  local lock, ticket, ttl = KEYS[number], ARGV[at], ARGV[at + 1]
  if ttl == '' then
    answer[number] = try('HDEL', lock, ticket) == 1 and 1 or 0
    at = at + 2
  else
    -- Values alone: that of `last` comes first, and is all there is if nobody has a claim.
    local known = not is_late and try('HVALS', lock)
    local is_done, told
    -- What fails for one must not undo what was told to the others.
    if known and not known[2] and not known.err then
      is_done, told = pcall(hold_alone, lock, known[1], ticket, ttl, ARGV[at + 2])
    else
      is_done, told = pcall(enqueue, { lock, lock .. ':q', lock .. ':c' },
        { ticket, ARGV[1], ttl, ARGV[at + 2], ARGV[at + 3] })
    end
    answer[number] = is_done and told or false
    at = at + 4
  end
end
return answer
