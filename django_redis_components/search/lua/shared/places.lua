-- Store documents within a radius of a place in another set, with the given options; return their number.
local function store_within(places, into, longitude, latitude, radius_km, options)
  local args = { into, places, "FROMLONLAT", longitude, latitude, "BYRADIUS", radius_km, "km" }
  for _, option in ipairs(options) do
    args[#args + 1] = option
  end
  return redis.call("GEOSEARCHSTORE", unpack(args))
end

-- Store documents near a place, at most `count`; return their number. The radius grows, because ANY stops at the first that
-- are found, and without it all documents within the radius would be looked at.
local function store_nearest(places, into, longitude, latitude, within_km, count)
  local found = 0
  for _, share in ipairs({ 64, 16, 4, 1 }) do
    found = store_within(places, into, longitude, latitude, within_km / share, { "COUNT", count, "ANY" })
    if found >= count then
      break
    end
  end
  return found
end

-- Remove documents that are not near a place from a result; store the distances of the others in kilometers.
local function keep_near(places, result, distances, longitude, latitude, within_km)
  redis.call("ZINTERSTORE", distances, 2, result, places, "WEIGHTS", 0, 1)
  store_within(distances, distances, longitude, latitude, within_km, { "STOREDIST" })
  redis.call("ZINTERSTORE", result, 2, result, distances, "WEIGHTS", 1, 0)
end
