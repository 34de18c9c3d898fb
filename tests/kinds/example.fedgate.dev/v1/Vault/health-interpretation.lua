-- Healthy unless the member says that it has failed.
function InterpretHealth(observed)
  return observed.status == nil or observed.status.phase ~= "Failed"
end
