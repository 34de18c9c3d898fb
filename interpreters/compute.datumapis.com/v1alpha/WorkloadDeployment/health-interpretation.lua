-- A deployment is healthy if it need not run, or if its condition Available is True.
function InterpretHealth(observed)
  local status = observed.status
  if type(status) ~= "table" then
    return false
  end
  if status.suspended == true or status.desiredReplicas == 0 then
    return true
  end
  for _, condition in ipairs(status.conditions or {}) do
    if condition.type == "Available" then
      return condition.status == "True"
    end
  end
  return false
end
