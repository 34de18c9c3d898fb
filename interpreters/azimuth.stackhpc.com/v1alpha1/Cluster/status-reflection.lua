-- What of the member's status goes to the hub: all of it, untouched.
function ReflectStatus(observed)
  local status = observed.status
  if type(status) ~= "table" then
    return {}
  end
  return status
end
