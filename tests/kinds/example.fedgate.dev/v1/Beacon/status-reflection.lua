-- The number that the cell reports.
function ReflectStatus(observed)
  local status = observed.status
  if type(status) ~= "table" or status.lit == nil then
    return {}
  end
  return {lit = status.lit}
end
