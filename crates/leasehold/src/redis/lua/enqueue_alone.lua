-- The quick part of `enqueue.lua`: nobody has a claim, so this one holds, alone.
if micros > (ARGV[2] + 1) * 1000 then return 'late ' .. string.format('%d', micros / 1000) end
if not known[3] then return hold_alone(KEYS[1], known[2], ARGV[1], ARGV[3], ARGV[4]) end
