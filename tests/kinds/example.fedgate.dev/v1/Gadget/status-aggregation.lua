-- One cell: its status. Several: ready is summed, and each address and unit is put under the name of its cell.
function AggregateStatus(desired, items)
  items = items or {}
  local reporting = {}
  for _, item in ipairs(items) do
    if type(item.status) == "table" and next(item.status) ~= nil then
      reporting[#reporting + 1] = item
    end
  end
  if #reporting == 1 and #items == 1 then
    desired.status = reporting[1].status
    return desired
  end

  local status = {ready = 0, addresses = {}, units = {}}
  for _, item in ipairs(reporting) do
    status.ready = status.ready + (item.status.ready or 0)
    for _, map in ipairs({"addresses", "units"}) do
      for key, value in pairs(item.status[map] or {}) do
        status[map][item.clusterName .. "." .. key] = value
      end
    end
  end
  desired.status = status
  return desired
end
