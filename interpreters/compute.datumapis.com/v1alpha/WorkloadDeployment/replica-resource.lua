-- The number of Instances, by which Karmada's scheduler counts what a cell has room for; it places all of them at one cell. A
-- deployment without Instances counts as one, because Karmada does not schedule zero replicas.
function GetReplicas(desired)
  local scale = desired.spec and desired.spec.scaleSettings
  local count = type(scale) == "table" and tonumber(scale.minReplicas) or 1
  return math.max(1, count), nil
end
