-- Added by fedgate: the hub hears when the member's object is another one, or is being deleted.
local reflect = ReflectStatus
function ReflectStatus(observed)
  local uid, deleted = observed.metadata.uid, observed.metadata.deletionTimestamp
  local status = reflect(observed)
  if type(status) == "table" then
    status["fedgate.dev/uid-at-member"] = uid
    status["fedgate.dev/deleted-at-member"] = deleted
  end
  return status
end
