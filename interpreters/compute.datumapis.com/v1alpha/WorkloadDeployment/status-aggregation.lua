-- The status of the cell that runs the deployment. While the deployment moves, two cells report: the cell that the copy names in
-- annotation fedgate.dev/cell counts, else the cell with the most ready Instances, of two with equally many the first by name.
--
-- If no cell reports, the counters are 0 and Available is False/NoCellReporting. Items come sorted by cluster.
function AggregateStatus(desired, items)
  local counters = {"replicas", "currentReplicas", "desiredReplicas", "readyReplicas", "updatedReplicas"}

  -- The condition of a deployment that no cell reports. It keeps the time at which the deployment became unavailable, or its own
  -- text would change from pass to pass.
  local function unreported()
    local since = nil
    local status = desired.status
    for _, condition in ipairs(type(status) == "table" and status.conditions or {}) do
      if condition.type == "Available" and condition.status == "False" then
        since = condition.lastTransitionTime
      end
    end
    return {
      type = "Available",
      status = "False",
      reason = "NoCellReporting",
      message = "No cell reports this deployment.",
      lastTransitionTime = since or os.date("!%Y-%m-%dT%H:%M:%SZ"),
    }
  end

  local annotations = desired.metadata.annotations
  local named = annotations and annotations["fedgate.dev/cell"]
  local reported, most = nil, -1
  for _, item in ipairs(items or {}) do
    if type(item.status) == "table" and next(item.status) ~= nil then
      local ready = item.clusterName == named and math.huge or item.status.readyReplicas or 0
      if ready > most then
        reported, most = item.status, ready
      end
    end
  end
  desired.status = reported or {conditions = {unreported()}}
  for _, counter in ipairs(counters) do
    desired.status[counter] = desired.status[counter] or 0
  end
  return desired
end
