-- Added by fedgate: the hub hears when the member's object is another one.
local reflect = ReflectStatus
function ReflectStatus(observed)
  local uid = observed.metadata.uid
  local status = reflect(observed)
  if type(status) == "table" then
    status["fedgate.dev/uid-at-member"] = uid
  end
  return status
end
