-- Everything a cell says, with the project's generation in place of the cell's.
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
  status.ready = status.ready or 0
  return status
end
