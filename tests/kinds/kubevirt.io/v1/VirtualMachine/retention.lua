-- The member's webhook and controller fill in what the copy does not name: type of the machine, UUID and serial of the
-- firmware. They stay, or each write of the copy would give the machine a new identity.
function Retain(desired, observed)
  local function domain(object)
    local spec = object.spec
    local template = type(spec) == "table" and spec.template
    local inner = type(template) == "table" and template.spec
    return type(inner) == "table" and inner.domain or nil
  end
  local wanted, there = domain(desired), domain(observed)
  if type(wanted) ~= "table" or type(there) ~= "table" then
    return desired
  end
  if wanted.machine == nil then
    wanted.machine = there.machine
  end
  if wanted.firmware == nil then
    wanted.firmware = there.firmware
  elseif type(there.firmware) == "table" then
    wanted.firmware.uuid = wanted.firmware.uuid or there.firmware.uuid
    wanted.firmware.serial = wanted.firmware.serial or there.firmware.serial
  end
  return desired
end
