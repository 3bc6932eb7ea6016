-- For kinds with one queue, at ctx.queue.

local function queues_of(ctx)
  return { ctx.queue }
end

local function own_queues(ctx)
  return { ctx.queue }
end

local function remember()
  return true
end

local function forget() end
