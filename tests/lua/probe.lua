-- Goes before the expressions of karmada-answers.json: `probe` writes what an expression gives as one text.
local function json(value)
  if type(value) ~= "table" then return tostring(value) end
  local keys, parts = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys)
  for i, key in ipairs(keys) do parts[i] = tostring(key) .. "=" .. json(value[key]) end
  return "{" .. table.concat(parts, " ") .. "}"
end
local function probe(...)
  if not (...) then return "error" end
  local parts = {}
  for i = 2, select("#", ...) do
    local value = select(i, ...)
    local kind = type(value)
    parts[i - 1] = (kind == "table" or kind == "function") and kind or kind .. " " .. tostring(value)
  end
  return table.concat(parts, ", ")
end
