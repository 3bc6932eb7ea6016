-- The counters and histograms of this call. Made when the first outcome comes by: making functions takes time.
local records_made

local function records()
    if records_made then
        return records_made
    end
-- @include tally
    records_made = { tally = tally, with_run = with_run, write = write_tallies }
    return records_made
end

local function write_records()
    if records_made then
        records_made.write()
    end
end
