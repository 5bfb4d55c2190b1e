-- Round 2: raises the node's counter for this lock, if the lock is still ours and
-- the counter is lower than our token. Sent only where round 1 was answered.
-- KEYS   1 the lock, 2 its note, 3 the node
-- ARGV   1 id, 2 the server's mark, 3 token, 4 the last token of this grant,
--        5 how long the note lives in ms, 6 the rest of the note
-- Answer 1 | {refused} | {quarantined, the mark of the admitted or ''}
local call = redis.call
local node = call('HMGET', KEYS[3], 'run', 'floor', 'high')
if node[1] ~= ARGV[2] then return { 'quarantined', node[1] or '' } end
-- What is no string is nil here.
local lock, note = unpack(call('MGET', KEYS[1], KEYS[2]))
if lock ~= ARGV[1] then return { 'refused' } end
local floor, high = tonumber(node[2]) or 0, tonumber(node[3]) or 0
local counter = note and tonumber(string.match(note, '^%d+')) or high
if math.max(counter, floor) >= tonumber(ARGV[3]) then return { 'refused' } end
call('SET', KEYS[2], ARGV[4] .. ARGV[6], 'PX', ARGV[5])
if high < tonumber(ARGV[4]) then call('HSET', KEYS[3], 'high', ARGV[4]) end
return 1
