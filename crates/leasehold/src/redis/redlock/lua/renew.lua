-- Keeps many locks on this node for another ttl where they are ours; never brings
-- one back.
-- KEYS   1 the node, then the locks, then, if these are due, their notes in the same order
-- ARGV   1 ttl in ms, 2 the server's mark, or '' without tokens, 3 how long the notes live in ms,
--        then the id of each lock
-- Answer {server time in ms, then 1 or 0 for each lock}
--        | {quarantined, the mark of the admitted or ''}
local call = redis.call
if ARGV[2] ~= '' then
  local run = call('HGET', KEYS[1], 'run')
  if run ~= ARGV[2] then return { 'quarantined', run or '' } end
end
local time = call('TIME')
local count = #ARGV - 3
local answer = { string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) }
for number = 1, count do
  local is_ours = redis.pcall('GET', KEYS[1 + number]) == ARGV[3 + number]
  if is_ours then
    call('PEXPIRE', KEYS[1 + number], ARGV[1])
    local note = KEYS[1 + count + number]
    if note then call('PEXPIRE', note, ARGV[3]) end
  end
  answer[number + 1] = is_ours and '1' or '0'
end
return answer
