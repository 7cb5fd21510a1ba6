-- Conditions about an earlier spec say nothing about this one. Argo CD itself takes care of objects that are being deleted.
local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, c in ipairs(obj.status.conditions) do
    if c.observedGeneration == nil or c.observedGeneration == obj.metadata.generation or c.type == "Paused" then
      conditions[c.type] = c
    end
  end
end

local function isTrue(c)
  return c ~= nil and c.status == "True"
end

if isTrue(conditions.Stalled) then
  return { status = "Degraded", message = conditions.Stalled.message }
end
if isTrue(conditions.Paused) then
  return { status = "Suspended", message = conditions.Paused.message }
end
if isTrue(conditions.Ready) then
  return { status = "Healthy", message = conditions.Ready.message }
end
if conditions.Ready ~= nil then
  return { status = "Progressing", message = conditions.Ready.message }
end
return { status = "Progressing", message = "Waiting for the operator to look at the latest spec" }
