{{/*
What pods are told of NATS: the address that was given, or that of the bundled one if it is installed and has a Service for clients.
*/}}
{{- define "dynamo-platform.natsAddress" -}}
{{- $operator := (index .Subcharts "dynamo-operator").Values -}}
{{- if $operator.natsAddr -}}
{{ $operator.natsAddr }}
{{- else if $operator.nats.enabled -}}
{{- with .Subcharts.nats -}}
{{- if and .Values.service.enabled .Values.service.ports.nats.enabled -}}
nats://{{ include "nats.serviceName" . }}.{{ .Release.Namespace }}.svc.{{ $operator.kubernetesClusterDomain }}:{{ int .Values.config.nats.port }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The same of etcd, without a scheme, as the reference tells it. */}}
{{- define "dynamo-platform.etcdAddress" -}}
{{- $operator := (index .Subcharts "dynamo-operator").Values -}}
{{- if $operator.etcdAddr -}}
{{ $operator.etcdAddr }}
{{- else if $operator.etcd.enabled -}}
{{- with .Subcharts.etcd -}}
{{ include "etcd.fullname" . }}.{{ .Release.Namespace }}.svc.{{ $operator.kubernetesClusterDomain }}:2379
{{- end -}}
{{- end -}}
{{- end -}}
