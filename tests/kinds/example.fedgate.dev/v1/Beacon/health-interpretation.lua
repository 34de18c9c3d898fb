-- Healthy once it is lit somewhere.
function InterpretHealth(observed)
  return observed.status ~= nil and (observed.status.lit or 0) > 0
end
