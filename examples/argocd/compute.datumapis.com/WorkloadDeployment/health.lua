-- Health of a WorkloadDeployment in Argo CD: in ConfigMap argocd-cm the value of
-- resource.customizations.health.compute.datumapis.com_WorkloadDeployment.

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

local function missing()
  local wanted = status.desiredReplicas or 0
  local scale = (obj.spec or {}).scaleSettings or {}
  if scale.minReplicas ~= nil and scale.minReplicas > wanted then
    wanted = scale.minReplicas
  end
  local ready, updated = status.readyReplicas or 0, status.updatedReplicas or 0
  if ready < wanted then
    return ready .. "/" .. wanted .. " instances are ready"
  elseif updated < wanted then
    return updated .. "/" .. wanted .. " instances are on the latest template"
  elseif (status.replicas or 0) > wanted then
    return status.replicas .. " instances exist, " .. wanted .. " are wanted"
  end
  return nil
end

local kinds = {"Federated", "Progressing", "Available", "ReplicasReady", "ReferencedDataReady"}
local suspended = first(kinds, is_suspended)
if status.suspended == true or suspended ~= nil then
  return health("Suspended", suspended and text(suspended) or "Suspended")
end
local broken = first(kinds, is_grave)
if broken ~= nil then
  return health("Degraded", text(broken))
end
if status.observedGeneration == nil or not observed(status.observedGeneration) then
  local why = first({"Federated"}, is_any)
  return health("Progressing", why and text(why) or "the latest generation is not observed yet")
end
local available = find("Available")
local why = first({"Federated", "Available"}, is_any)
local short = missing()
if why ~= nil or short ~= nil or available == nil then
  return health("Progressing", why and text(why) or short or "it is not available yet")
end
return health("Healthy", text(available))
