-- A row of the retention triangle is a string at base:si:r:<offset of its day>: numbers of users, with commas, of the
-- day and of those after it. base:si:r:last is the offset of the latest day of any row.

-- Days of a row after its own; see MAX_DAYS in retention.py.
local MAX_DAYS = 60

-- Delete the rows that a change of a user's sign-ins on a day may affect.
local function delete_rows(base, offset)
  local last = redis.call("GET", base .. ":si:r:last")
  if not last or tonumber(offset) > tonumber(last) then
    return
  end
  local rows = {}
  for first = offset - MAX_DAYS, offset do
    rows[#rows + 1] = base .. ":si:r:" .. first
  end
  redis.call("UNLINK", unpack(rows))
end
