-- The Secret that the spec names.
function GetDependencies(desired)
  local name = desired.spec and desired.spec.keyName
  if name == nil then
    return {}
  end
  return {
    {apiVersion = "v1", kind = "Secret", namespace = desired.metadata.namespace, name = name},
  }
end
