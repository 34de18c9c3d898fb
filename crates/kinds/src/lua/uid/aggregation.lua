-- Added by fedgate: UID and deletion of the member's object are no part of the status.
local aggregate = AggregateStatus
function AggregateStatus(desired, items)
  for _, item in ipairs(items or {}) do
    if type(item.status) == "table" then
      item.status["fedgate.dev/uid-at-member"] = nil
      item.status["fedgate.dev/deleted-at-member"] = nil
    end
  end
  return aggregate(desired, items)
end
