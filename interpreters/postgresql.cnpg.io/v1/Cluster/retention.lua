-- The member's webhook fills in the image, where the copy names neither an image nor a catalog. It stays, or each write of
-- the copy would take it away, and an upgraded operator would fill in another and roll the instances.
function Retain(desired, observed)
  local wanted, there = desired.spec, observed.spec
  if type(wanted) ~= "table" or type(there) ~= "table" then
    return desired
  end
  local none = wanted.imageName == nil or wanted.imageName == ""
  -- An image and a catalog exclude each other: the API refuses both.
  if none and wanted.imageCatalogRef == nil then
    wanted.imageName = there.imageName
  end
  return desired
end
