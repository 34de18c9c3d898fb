-- What of the member's status goes to the hub: what a tenant reads. Requests to start and stop and the state of snapshots
-- concern the member alone. Both generations of the status are the member's own and mean nothing elsewhere.
function ReflectStatus(observed)
  local status = observed.status
  if type(status) ~= "table" then
    return {}
  end
  return {
    created = status.created,
    ready = status.ready,
    printableStatus = status.printableStatus,
    runStrategy = status.runStrategy,
    conditions = status.conditions,
  }
end
