-- Unhealthy if it should run and cannot. One that is stopped, or on its way, is as it should be.
local bad = {
  CrashLoopBackOff = true, ErrorUnschedulable = true, ErrImagePull = true, ImagePullBackOff = true,
  ErrorPvcNotFound = true, DataVolumeError = true,
}
function InterpretHealth(observed)
  local status = observed.status
  if type(status) ~= "table" then
    return true
  end
  return bad[status.printableStatus or ""] ~= true
end
