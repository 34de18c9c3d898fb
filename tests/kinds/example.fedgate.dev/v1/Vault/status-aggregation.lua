-- The status of the one member; with none, or several, what is there stays.
function AggregateStatus(desired, items)
  if items == nil or #items ~= 1 then
    return desired
  end
  desired.status = items[1].status or {}
  return desired
end
