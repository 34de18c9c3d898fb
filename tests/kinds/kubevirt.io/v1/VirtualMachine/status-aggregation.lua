-- The status of the only member. Without a report, and with several members, what was there stays.
function AggregateStatus(desired, items)
  items = items or {}
  if #items ~= 1 then
    return desired
  end
  local status = items[1].status
  if type(status) == "table" and next(status) ~= nil then
    desired.status = status
  end
  return desired
end
