-- Functions of permits that the wait queue calls. Expects what permits expects and defines, and the locals queue, base and
-- handoff_ms. A waiter that wants more than the limit leaves the queue, and learns why when it asks again.
local function fits(permit)
  if is_too_great(permit) then
    return nil
  end
  return is_room(permit)
end

-- @include one_queue
