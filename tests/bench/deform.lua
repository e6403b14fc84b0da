-- wrk's requests for tests/bench/http.sh: one pose of BONES bones over and over, as JSON with DIGITS
-- digits a number (FORM=json), or as float32 (FORM=pose). Bones are named as make-model grid names
-- them: bone0, bone1, ...
local bones, digits = tonumber(os.getenv("BONES")), os.getenv("DIGITS") or "6"
local numbers = {}
for i = 0, bones - 1 do
    local a = 0.001 + 0.003 * i
    local q = {math.sin(a) * 0.6, math.sin(a) * 0.48, math.sin(a) * 0.64, math.cos(a)}
    numbers[i] = {q[1], q[2], q[3], q[4], math.sin(i) / 3, math.sin(i + 1) / 3, math.sin(i + 2) / 3}
end

local function json()
    local number, parts = "%%." .. digits .. "g", {} -- gsub halves the %%
    local bone = '"bone%d":{"rotation":[N,N,N,N],"translation":[N,N,N]}'
    bone = bone:gsub("N", number)
    for i = 0, bones - 1 do
        parts[i + 1] = bone:format(i, unpack(numbers[i]))
    end
    return '{"bones":{' .. table.concat(parts, ",") .. "}}"
end

local function pose()
    local ffi = require("ffi")
    local values = ffi.new("float[?]", bones * 7)
    for i = 0, bones - 1 do
        for k = 1, 7 do
            values[i * 7 + k - 1] = numbers[i][k]
        end
    end
    return ffi.string(values, bones * 28)
end

wrk.method = "POST"
if os.getenv("FORM") == "pose" then
    wrk.body = pose()
    wrk.headers["Content-Type"] = "application/x-deformd-pose"
else
    wrk.body = json()
    wrk.headers["Content-Type"] = "application/json"
end

