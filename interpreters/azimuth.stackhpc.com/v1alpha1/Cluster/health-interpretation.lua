-- A cluster is unhealthy if its phase says so. One that is being built, or has no status yet, is healthy.
function InterpretHealth(observed)
  local status = observed.status
  local phase = nil
  if type(status) == "table" then
    phase = status.phase
  end
  return phase ~= "Failed" and phase ~= "Unhealthy"
end
