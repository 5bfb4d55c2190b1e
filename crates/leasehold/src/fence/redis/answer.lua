end
local answer = guarded()
if type(answer) == 'table' and answer.err then
  return answer
end
return {'passed', answer}
