-- Returns the whole status. The operator omits the phase "Unknown"; this script adds it, because Karmada would drop a node or
-- addon without any field: Lua cannot tell an empty map from an empty list.
function ReflectStatus(observed)
  local status = observed.status
  if type(status) ~= "table" then
    return {}
  end
  for _, field in ipairs({"nodes", "addons"}) do
    if type(status[field]) == "table" then
      for _, entry in pairs(status[field]) do
        if type(entry) == "table" and entry.phase == nil then
          entry.phase = "Unknown"
        end
      end
    end
  end
  return status
end
