local answer_key = base .. ":op:" .. op

-- What this operation has answered, if it is sent again because its reply was lost; else nil.
local function answered()
    local text = redis.call("GET", answer_key)
    if not text then
        return nil
    end
    local answer = {}
    for number in string.gmatch(text, "%S+") do
        answer[#answer + 1] = tonumber(number)
    end
    return answer
end

-- Answer, and keep the answer for as long as a client may ask again.
local function answer_with(answer)
    redis.call("SET", answer_key, table.concat(answer, " "), "PX", 60000)
    return answer
end
