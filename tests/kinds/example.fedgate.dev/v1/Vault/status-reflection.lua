-- Everything the member says, with the project's generation in place of the member's.
function ReflectStatus(observed)
  local status = observed.status
  if type(status) ~= "table" or next(status) == nil then
    return {}
  end
  local annotations = observed.metadata.annotations or {}
  local source = tonumber(annotations["fedgate.dev/source-generation"] or "")
  if status.observedGeneration ~= observed.metadata.generation then
    source = nil
  end
  status.observedGeneration = source
  return status
end
