-- A checkpoint is made once; Ready and Failed are final. Argo CD itself takes care of objects that are being deleted.
local status = obj.status or {}
local phase = status.phase or ""
local conditions = {}
for _, c in ipairs(status.conditions or {}) do
  conditions[c.type] = c
end

local function say(kind, otherwise)
  local c = conditions[kind]
  if c ~= nil and c.message ~= nil and c.message ~= "" then
    return c.message
  end
  return otherwise
end

if phase == "Failed" then
  return { status = "Degraded", message = status.message or say("JobCompleted", "The checkpoint failed") }
end
if conditions.Suspect ~= nil and conditions.Suspect.status == "True" then
  return { status = "Degraded", message = say("Suspect", "The checkpoint may not be what it should be") }
end
if phase == "Ready" then
  return { status = "Healthy", message = say("TarAvailable", "The checkpoint is ready") }
end
if phase == "" then
  return { status = "Progressing", message = "Waiting for the operator to look at the checkpoint" }
end
return { status = "Progressing", message = say("JobCreated", "The checkpoint is being made") }
