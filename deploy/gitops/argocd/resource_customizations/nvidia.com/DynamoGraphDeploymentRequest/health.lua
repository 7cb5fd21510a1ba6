-- A request goes through states once and ignores later changes of its spec. Argo CD itself takes care of objects that are
-- being deleted.
local status = obj.status or {}
local state = status.state or ""
if state == "" then
  return { status = "Progressing", message = "Waiting for the operator to look at the request" }
end

-- The last condition in the order of the work tells most.
local message = state
local conditions = {}
for _, c in ipairs(status.conditions or {}) do
  conditions[c.type] = c
end
for _, step in ipairs({ "Validation", "Profiling", "SpecGenerated", "DeploymentReady" }) do
  local c = conditions[step]
  if c ~= nil and c.message ~= nil and c.message ~= "" then
    message = c.message
  end
end

if state == "Failed" or state == "DeploymentDeleted" then
  return { status = "Degraded", message = message }
end
local observed = status.observedGeneration or 0
if state ~= "Pending" and observed > 0 and observed ~= obj.metadata.generation then
  return { status = "Degraded", message = "The spec was changed after the work had begun, and the change is ignored; create another request" }
end
if state == "Ready" then
  return { status = "Healthy", message = message }
end
return { status = "Progressing", message = message }
