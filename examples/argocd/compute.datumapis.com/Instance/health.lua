-- Health of an Instance in Argo CD: in ConfigMap argocd-cm the value of
-- resource.customizations.health.compute.datumapis.com_Instance.

-- Reasons of priority 5 and more (docs/reference/conditions.md), Suspended aside.
local grave = {
  ImageUnavailable = true,
  InstanceCrashing = true,
  ConfigurationError = true,
  Failed = true,
  NodeLost = true,
  SourceNotFound = true,
  SourceTooLarge = true,
  SourceNameReserved = true,
  SourceNameTooLong = true,
  SourceUnauthorized = true,
  NetworkNotFound = true,
  NoMatchingLocations = true,
  NoMatchingLocation = true,
  NoCellForCity = true,
  NoCellForLocation = true,
  CellLost = true,
  ProgressDeadlineExceeded = true,
  RolloutUndone = true,
  InvalidCityCode = true,
  InvalidLocation = true,
  PlaceConflict = true,
  InvalidName = true,
  SpecTooLarge = true,
  NetworkFailedToCreate = true,
  ApplyFailed = true,
  HubRefused = true,
  HubNameTaken = true,
  HubNamespaceClaimed = true,
  TooManyCitySets = true,
  InvalidTemplate = true,
  UnsupportedManagementPolicy = true,
  CityCodeMismatch = true,
  LocationMismatch = true,
  AmbiguousServingLocation = true,
  DeploymentNameConflict = true,
  InstanceNameConflict = true,
}

local generation = obj.metadata.generation
local status = obj.status or {}

local function observed(number)
  return number == nil or generation == nil or number >= generation
end

local function find(kind)
  for _, condition in ipairs(status.conditions or {}) do
    if condition.type == kind then
      return condition
    end
  end
  return nil
end

local function text(condition)
  if condition.message == nil or condition.message == "" then
    return condition.reason
  end
  return condition.reason .. ": " .. condition.message
end

local function health(word, message)
  return {status = word, message = message}
end

-- The first of these conditions that is not True and for which `is` holds.
local function first(kinds, is)
  for _, kind in ipairs(kinds) do
    local condition = find(kind)
    if condition ~= nil and condition.status ~= "True" and is(condition) then
      return condition
    end
  end
  return nil
end

local function is_suspended(condition)
  return condition.reason == "Suspended"
end

local function is_grave(condition)
  return grave[condition.reason] and observed(condition.observedGeneration)
end

local function is_any(condition)
  return true
end

local kinds = {"Ready", "Available", "Programmed"}
local suspended = first(kinds, is_suspended)
if status.suspended == true or suspended ~= nil then
  return health("Suspended", suspended and text(suspended) or "Suspended")
end
local broken = first(kinds, is_grave)
if broken ~= nil then
  return health("Degraded", text(broken))
end
local ready = find("Ready")
if ready == nil then
  return health("Progressing", "it is not ready yet")
end
local wanted = ((obj.spec or {}).controller or {}).templateHash
local applied = (status.controller or {}).observedTemplateHash
if not observed(ready.observedGeneration) or (applied ~= nil and applied ~= wanted) then
  return health("Progressing", "the latest template is not applied yet")
end
if ready.status ~= "True" then
  return health("Progressing", text(ready))
end
return health("Healthy", text(ready))
