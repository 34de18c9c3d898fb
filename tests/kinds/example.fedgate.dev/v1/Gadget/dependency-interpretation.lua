-- The Secret that the spec names.
function GetDependencies(desired)
  local credentials = desired.spec and desired.spec.credentials
  if type(credentials) ~= "table" or credentials.secretName == nil then
    return {}
  end
  return {
    {apiVersion = "v1", kind = "Secret", namespace = desired.metadata.namespace, name = credentials.secretName},
  }
end
