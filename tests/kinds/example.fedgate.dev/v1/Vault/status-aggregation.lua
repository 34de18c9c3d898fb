-- The status of the one member; with none, or several, what is there stays. So it does while the member refuses an edit: then
-- Karmada's item has no status.
function AggregateStatus(desired, items)
  if items == nil or #items ~= 1 or items[1].status == nil then
    return desired
  end
  desired.status = items[1].status
  return desired
end
