-- One status out of those of the cells that Karmada delivered the deployment to. Items come sorted by cluster.
--
-- No cell reports: zero counters and Available=False/NoCellReporting. One cell: its status. Several: see merge below.
function AggregateStatus(desired, items)
  items = items or {}
  local counters = {"replicas", "currentReplicas", "desiredReplicas", "readyReplicas", "updatedReplicas"}
  local badness = {True = 1, Unknown = 2, False = 3}
  local silence = "No cell reports this deployment."

  -- A condition's message may have 32,768 characters. Bytes are counted, and no character is cut in two.
  local function shortened(text)
    local last = 32768
    if #text <= last then
      return text
    end
    while last > 0 and string.byte(text, last + 1) >= 128 and string.byte(text, last + 1) < 192 do
      last = last - 1
    end
    return string.sub(text, 1, last)
  end

  local function reports(item)
    return type(item.status) == "table" and next(item.status) ~= nil
  end

  -- Tables must not be shared in the result, so everything taken from an item is copied.
  local function copy(value)
    if type(value) ~= "table" then
      return value
    end
    local result = {}
    for key, field in pairs(value) do
      result[key] = copy(field)
    end
    return result
  end

  local function equal(a, b)
    if type(a) ~= "table" or type(b) ~= "table" then
      return a == b
    end
    for key, field in pairs(a) do
      if not equal(field, b[key]) then
        return false
      end
    end
    for key in pairs(b) do
      if a[key] == nil then
        return false
      end
    end
    return true
  end

  local function find(status, kind)
    for _, condition in ipairs(type(status) == "table" and status.conditions or {}) do
      if condition.type == kind then
        return condition
      end
    end
    return nil
  end

  -- The condition of a deployment, or of one of its cells, that nobody speaks for. It keeps the time at which the
  -- deployment became unavailable, or its own text would change from pass to pass.
  local function unreported(message)
    local before = find(desired.status, "Available")
    local since = before and before.status == "False" and before.lastTransitionTime
    return {
      type = "Available",
      status = "False",
      reason = "NoCellReporting",
      message = message,
      lastTransitionTime = since or os.date("!%Y-%m-%dT%H:%M:%SZ"),
    }
  end

  local function conditions_of(item)
    if reports(item) then
      return item.status.conditions or {}
    end
    local message = item.appliedMessage
    if message == nil or message == "" then
      message = silence
    end
    return {unreported(message)}
  end

  -- The lowest of what `read` finds in each item, nil if one has none.
  local function lowest(read)
    local low = nil
    for _, item in ipairs(items) do
      local value = read(item)
      if value == nil then
        return nil
      end
      if low == nil or value < low then
        low = value
      end
    end
    return low
  end

  -- Per type the worst condition, ties to the first cluster; types in the order of their first appearance.
  local function merge_conditions()
    local merged, position = {}, {}
    for _, item in ipairs(items) do
      for _, condition in ipairs(conditions_of(item)) do
        local kind = condition.type
        local at = position[kind]
        if at == nil then
          at = #merged + 1
          position[kind] = at
        end
        local worst = merged[at]
        if worst == nil or (badness[condition.status] or 2) > (badness[worst.status] or 2) then
          local taken = copy(condition)
          taken.message = shortened(item.clusterName .. ": " .. (condition.message or ""))
          merged[at] = taken
        end
      end
    end
    for _, condition in ipairs(merged) do
      condition.observedGeneration = lowest(function(item)
        local own = reports(item) and find(item.status, condition.type)
        return own and own.observedGeneration or nil
      end)
    end
    return merged
  end

  local function merge()
    local first = items[1]
    local status = {}
    -- Fields that merge in a way of their own are set below; of the others only those stay that all items agree on.
    for field, value in pairs(reports(first) and first.status or {}) do
      local same = true
      for _, item in ipairs(items) do
        if not reports(item) or not equal(value, item.status[field]) then
          same = false
        end
      end
      if same then
        status[field] = copy(value)
      end
    end
    if status.suspended ~= true then
      status.suspended = nil
    end
    for _, counter in ipairs(counters) do
      local sum = 0
      for _, item in ipairs(items) do
        sum = sum + (reports(item) and item.status[counter] or 0)
      end
      status[counter] = sum
    end
    status.conditions = merge_conditions()
    status.observedGeneration = lowest(function(item)
      return reports(item) and item.status.observedGeneration or nil
    end)
    return status
  end

  local any = false
  for _, item in ipairs(items) do
    if reports(item) then
      any = true
    end
  end
  if not any then
    desired.status = {conditions = {unreported(silence)}}
  elseif #items == 1 then
    desired.status = items[1].status
  else
    desired.status = merge()
  end
  for _, counter in ipairs(counters) do
    desired.status[counter] = desired.status[counter] or 0
  end
  return desired
end
