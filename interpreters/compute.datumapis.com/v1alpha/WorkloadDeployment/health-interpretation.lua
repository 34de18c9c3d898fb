-- A deployment is healthy if it need not run, or if the cell has acted on its latest spec and all wanted Instances are ready. A
-- move to another cell ends the deployment at its former cell once it is healthy at the new one.
function InterpretHealth(observed)
  local status = observed.status
  if type(status) ~= "table" then
    return false
  end
  if status.suspended == true then
    return true
  end
  if status.observedGeneration ~= observed.metadata.generation or status.desiredReplicas == nil then
    return false
  end
  return (status.readyReplicas or 0) >= status.desiredReplicas
end
