-- Store documents within a radius of a place in another set, with the given options; return their number.
local function store_within(places, into, longitude, latitude, radius_km, options)
  local args = { into, places, "FROMLONLAT", longitude, latitude, "BYRADIUS", radius_km, "km" }
  for _, option in ipairs(options) do
    args[#args + 1] = option
  end
  return redis.call("GEOSEARCHSTORE", unpack(args))
end

-- Store the documents nearest to a place, at most `limit`; return whether there are more within the radius. ANY bounds what
-- is looked at, but does not return the nearest. So the radius grows until more than `limit` are within it; the radius before
-- has whole what is nearest. `spare` is a key for the next radius.
local function store_nearest(places, into, spare, longitude, latitude, within_km, limit)
  local radius, stored = 0.01, false
  while true do
    local is_last = radius >= within_km
    local count = store_within(places, spare, longitude, latitude, is_last and within_km or radius, { "COUNT", limit + 1, "ANY" })
    local overflows = count > limit
    if count > 0 and not (overflows and stored) then
      redis.call("RENAME", spare, into)
      stored = true
    end
    if is_last or overflows then
      return overflows
    end
    radius = radius * 1.4
  end
end

-- Remove documents that are not near a place from a result; store the distances of the others in kilometers.
local function keep_near(places, result, distances, longitude, latitude, within_km)
  redis.call("ZINTERSTORE", distances, 2, result, places, "WEIGHTS", 0, 1)
  store_within(distances, distances, longitude, latitude, within_km, { "STOREDIST" })
  redis.call("ZINTERSTORE", result, 2, result, distances, "WEIGHTS", 1, 0)
end
