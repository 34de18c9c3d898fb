-- What of the member's status goes to the hub: all of it, with the project's generation in its conditions.
--
-- The annotation source-generation names the project's generation whose spec the member's object carries. Annotation and
-- spec arrive in one write, so the member has acted on that generation exactly if a condition's observedGeneration is its
-- object's own. Otherwise the number is left out: an older one of the member means nothing elsewhere.
function ReflectStatus(observed)
  local status = observed.status
  if type(status) ~= "table" then
    return {}
  end
  local annotations = observed.metadata.annotations or {}
  local source = tonumber(annotations["fedgate.dev/source-generation"] or "")
  local current = observed.metadata.generation
  for _, condition in ipairs(status.conditions or {}) do
    local acted = condition.observedGeneration ~= nil and condition.observedGeneration == current
    if acted then
      condition.observedGeneration = source
    else
      condition.observedGeneration = nil
    end
  end
  return status
end
