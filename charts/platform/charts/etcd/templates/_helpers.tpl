{{- define "etcd.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "etcd.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: etcd
{{- end -}}

{{- define "etcd.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "etcd.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* A repository that names its host is taken as it is; before others comes a registry. */}}
{{- define "etcd.image" -}}
{{- if not (regexMatch "^(localhost|[^/]*[.:][^/]*)/" .Values.image.repository) -}}
{{- with coalesce .Values.image.registry (.Values.global).imageRegistry -}}{{ trimSuffix "/" . }}/{{- end -}}
{{- end -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}

{{/* The members by their names and addresses, which each of them has to know. */}}
{{- define "etcd.members" -}}
{{- $full := include "etcd.fullname" . -}}
{{- $members := list -}}
{{- range $i := until (int .Values.replicaCount) -}}
{{- $members = append $members (printf "%s-%d=http://%s-%d.%s-headless:2380" $full $i $full $i $full) -}}
{{- end -}}
{{- join "," $members -}}
{{- end -}}

{{/* Stops at values of the chart that the reference bundles and that this one does not have. */}}
{{- define "etcd.validate" -}}
{{- range list
  (list "preUpgradeJob.enabled" (.Values.preUpgradeJob).enabled "there is nothing to do before an upgrade; remove it")
  (list "auth.rbac.create" ((.Values.auth).rbac).create "run an etcd of your own with it and give its address in dynamo-operator.etcdAddr, with etcd.enabled=false")
-}}
{{- if index . 1 -}}
{{- fail (printf "etcd.%s is not a value of this chart: %s" (index . 0) (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
