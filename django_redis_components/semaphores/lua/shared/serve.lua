-- Grants to those in line, in their order, while there is room; true when it is the turn of `mine`,
-- which may stand in line or not. Who wants more than the limit leaves the line, and learns why when it
-- asks again. Expects handoff_ms and what turns and permits define.
local function serve(mine)
  while true do
    local first = head()
    local turn = first or mine
    if not turn then
      return false
    end
    if is_too_great(turn) then
      leave(turn)
      ring(turn, handoff_ms)
    elseif not is_room(turn) then
      return false
    else
      if first then
        leave(first)
      end
      if turn == mine then
        return true
      end
      grant(turn, handoff_ms)
      ring(turn, handoff_ms)
    end
  end
end
