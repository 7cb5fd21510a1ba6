{{/* Stops at values that are in the wrong place or do not go together, and says what to do instead. */}}
{{- define "dynamo-platform.validate" -}}
{{- range $key := list "namespaceRestriction" "webhook" "controllerManager" "dynamo" "discoveryBackend" "natsAddr" "etcdAddr" -}}
{{- if hasKey $.Values $key -}}
{{- fail (printf "%s is not a value of the platform: it belongs to the operator, set dynamo-operator.%s" $key $key) -}}
{{- end -}}
{{- end -}}
{{- range list
  (list "grove.tolerations" .Values.grove.tolerations "Grove's")
  (list "grove.affinity" .Values.grove.affinity "Grove's")
  (list "kai-scheduler.global" (index .Values "kai-scheduler").global "KAI's")
-}}
{{- $given := index . 1 -}}
{{- if and (kindIs "map" $given) (eq (index . 0) "kai-scheduler.global") -}}
{{- $given = or $given.tolerations $given.affinity -}}
{{- end -}}
{{- if $given -}}
{{- fail (printf "%s is not a value of this chart: it installs no scheduler; give it to the chart of %s own, see the notes of the release" (index . 0) (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- with index .Subcharts "dynamo-operator" -}}
{{- if not (.Values.global).dynamoPlatform -}}
{{- fail "global.dynamoPlatform is not true, and the operator's chart would make a Deployment beside that of the platform: take it out of the values; if the release is upgraded with --reuse-values, which leaves out what is new in this chart, use --reset-then-reuse-values" -}}
{{- end -}}
{{- if and (eq (default "" .Values.discoveryBackend) "etcd") (not (include "dynamo-platform.etcdAddress" $)) -}}
{{- fail "dynamo-operator.discoveryBackend is etcd and there is none: set etcd.enabled=true and dynamo-operator.etcd.enabled=true, or give the address of one in dynamo-operator.etcdAddr" -}}
{{- end -}}
{{- end -}}
{{- end -}}
