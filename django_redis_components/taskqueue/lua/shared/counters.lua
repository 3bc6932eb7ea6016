-- Counters and histograms. A call collects outcomes in ctx.counters by queue and task name; `write_counters` writes
-- them in two commands for each queue and name. Positions of the 32-bit counters, see metrics.py: 8 outcomes, 48 buckets of
-- waiting, 48 of running.
-- @include context

local COUNTERS = {
  [O.succeeded] = C.succeeded, [O.failed] = C.failed, [O.retried] = C.retried, [O.delayed] = C.delayed,
  [O.recovered] = C.recovered, [O.cancelled] = C.cancelled, [O.expired] = C.expired, [O.unregistered] = C.unregistered,
}

-- Under 1 ms, then two buckets for each doubling; the last one is unbounded.
local function bucket(us)
  return us < 1000 and 0 or math.min(47, 1 + math.floor(math.log(us / 1000) * 2.885390081777927))
end

-- Count one outcome of a task; waited_us and ran_us are nil if it did not run. A run of a batch is that of its first call:
-- ran_us of the others is negative.
local function count(ctx, queue, name, outcome, waited_us, ran_us)
  ctx.counters = ctx.counters or {}
  local names = ctx.counters[queue]
  if not names then
    names = {}
    ctx.counters[queue] = names
  end
  local counts = names[name]
  if not counts then
    counts = {}
    names[name] = counts
  end
  local index = COUNTERS[outcome]
  counts[index] = (counts[index] or 0) + 1
  if ran_us then
    index = 8 + bucket(waited_us)
    counts[index] = (counts[index] or 0) + 1
    if ran_us > 0 then
      index = 56 + bucket(ran_us)
      counts[index] = (counts[index] or 0) + 1
    end
  end
end

-- Return the number of a task name's counters in its queue: 1 to 30, then 0. Numbers are assigned anew each hour.
local function counter_number(ctx, queue, name)
  local names = queue_key(ctx, queue, P.task_names .. ":" .. math.floor(ctx.now_ms / 3600000))
  local number = redis.call("HGET", names, name)
  if not number then
    number = redis.call("HLEN", names) + 1
    if number > 30 then
      return 0
    end
    redis.call("HSET", names, name, number)
    redis.call("PEXPIRE", names, T.task_names_ms)
  end
  return number
end

-- Counters saturate at their highest value.
local function write_counters(ctx)
  for queue, names in pairs(ctx.counters) do
    local minute = queue_key(ctx, queue, P.minute .. ":" .. math.floor(ctx.now_ms / 60000))
    for name, counts in pairs(names) do
      local add, size = { "BITFIELD", minute, "OVERFLOW", "SAT" }, 4
      local offset = counter_number(ctx, queue, string.sub(name, 1, 200)) * 104
      for index, by in pairs(counts) do
        add[size + 1], add[size + 2], add[size + 3], add[size + 4] = "INCRBY", "u32", "#" .. index, by
        add[size + 5], add[size + 6], add[size + 7], add[size + 8] = "INCRBY", "u32", "#" .. (offset + index), by
        size = size + (offset > 0 and 8 or 4)
      end
      -- A counter that equals what was added may be the first of a new key, which needs its TTL.
      if redis.call(unpack(add, 1, size))[1] == add[8] then
        redis.call("PEXPIRE", minute, T.minute_ms, "NX")
      end
    end
  end
  ctx.counters = nil
end

-- Append a run to a task's history: its outcome, when it was leased, how long that lasted, and the worker.
local function append_run(ctx, history, outcome, leased_us, worker)
  local run = string.format("%s %s %.0f %s", outcome, leased_us, ctx.now_us - leased_us, worker)
  local all = history and history .. "\n" .. run or run
  while #all > 4000 do
    all = string.match(all, "\n(.*)")
  end
  return all
end
