-- Unhealthy if it has had a primary and its condition Ready is False. Before that it is being built, which is healthy.
function InterpretHealth(observed)
  local status = observed.status
  if type(status) ~= "table" or status.currentPrimary == nil or status.currentPrimary == "" then
    return true
  end
  for _, condition in ipairs(status.conditions or {}) do
    if condition.type == "Ready" then
      return condition.status ~= "False"
    end
  end
  return true
end
