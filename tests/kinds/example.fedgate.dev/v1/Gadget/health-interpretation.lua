-- Healthy once as many units are ready as wanted.
function InterpretHealth(observed)
  local wanted = observed.spec and observed.spec.size or 0
  local ready = observed.status and observed.status.ready or 0
  return ready >= wanted
end
