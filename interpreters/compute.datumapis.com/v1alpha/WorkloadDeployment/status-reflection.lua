-- What of the cell's status goes to the hub: all of it, with every counter, and with the project's generation.
--
-- The annotation source-generation names the project's generation whose spec the cell's object carries. Annotation and
-- spec arrive in one write, so the cell has acted on that generation exactly if its observedGeneration is its object's
-- own. Otherwise the number is left out: an older one of the cell means nothing elsewhere.
function ReflectStatus(observed)
  local status = observed.status
  if type(status) ~= "table" or next(status) == nil then
    return {}
  end
  for _, counter in ipairs({"replicas", "currentReplicas", "desiredReplicas", "readyReplicas", "updatedReplicas"}) do
    status[counter] = status[counter] or 0
  end

  local annotations = observed.metadata.annotations or {}
  local source = tonumber(annotations["fedgate.dev/source-generation"] or "")
  local current = observed.metadata.generation
  local function translated(generation)
    if generation ~= nil and generation == current then
      return source
    end
    return nil
  end
  status.observedGeneration = translated(status.observedGeneration)
  for _, condition in ipairs(status.conditions or {}) do
    condition.observedGeneration = translated(condition.observedGeneration)
  end
  return status
end
