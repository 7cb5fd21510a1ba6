-- Conditions about an earlier spec say nothing about this one. Argo CD itself takes care of objects that are being deleted.
local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, c in ipairs(obj.status.conditions) do
    if c.observedGeneration == nil or c.observedGeneration == obj.metadata.generation then
      conditions[c.type] = c
    end
  end
end

for _, problem in ipairs({ { conditions.Stalled, "True" }, { conditions.Valid, "False" } }) do
  local c, bad = problem[1], problem[2]
  if c ~= nil and c.status == bad then
    return { status = "Degraded", message = c.message }
  end
end
local ready = conditions.Ready or conditions.EndpointsReady
if ready == nil then
  return { status = "Progressing", message = "Waiting for the operator to look at the latest spec" }
end
if ready.status == "True" then
  return { status = "Healthy", message = ready.message }
end
return { status = "Progressing", message = ready.message }
