-- An autoscaler in the cell may write the number of replicas, which the copy does not name. It stays, or each write of the copy
-- would take it away.
function Retain(desired, observed)
  local wanted, there = desired.spec, observed.spec
  if type(wanted) ~= "table" or type(there) ~= "table" then
    return desired
  end
  if there.replicas ~= nil then
    wanted.replicas = there.replicas
  end
  return desired
end
