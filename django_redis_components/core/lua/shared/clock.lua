-- The server's clock, read once for each script.

local function read_clock(ctx)
  if not ctx.now_us then
    local time = redis.call("TIME")
    ctx.now_us = time[1] * 1000000 + time[2]
  end
  ctx.now_ms = math.floor(ctx.now_us / 1000)
end
