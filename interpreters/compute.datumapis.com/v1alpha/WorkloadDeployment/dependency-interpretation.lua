-- What a deployment needs at its cell: the ConfigMaps and Secrets that the gateway wrote into the annotation, a JSON array
-- of "Kind/name". Bare names and other kinds are ignored.
function GetDependencies(desired)
  local refs, seen = {}, {}
  local annotations = desired.metadata.annotations
  local text = annotations and annotations["compute.datumapis.com/expected-referenced-data"]
  for kind, name in string.gmatch(text or "", '"(%a+)/([a-z0-9][a-z0-9.-]*)"') do
    local token = kind .. "/" .. name
    if (kind == "ConfigMap" or kind == "Secret") and not seen[token] then
      seen[token] = true
      refs[#refs + 1] = {apiVersion = "v1", kind = kind, namespace = desired.metadata.namespace, name = name}
    end
  end
  return refs
end
