-- States of tasks.

-- Return whether a task stays in this state.
local function is_final(state)
  return state == S.successful or state == S.failed or state == S.cancelled or state == S.expired
end
