-- The beacons that are lit, of all cells.
function AggregateStatus(desired, items)
  local lit = 0
  for _, item in ipairs(items or {}) do
    if type(item.status) == "table" then
      lit = lit + (item.status.lit or 0)
    end
  end
  desired.status = {lit = lit}
  return desired
end
