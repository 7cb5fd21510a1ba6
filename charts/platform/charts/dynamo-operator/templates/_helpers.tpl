{{/* Names and labels are those of the reference's chart: releases of it can be upgraded in place, and selectors cannot change. */}}
{{- define "dynamo-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "dynamo-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dynamo-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "dynamo-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* What the operator's pods are selected by. */}}
{{- define "dynamo-operator.podLabels" -}}
control-plane: controller-manager
{{ include "dynamo-operator.selectorLabels" . }}
{{- end -}}

{{/* Labels of an object; takes a list of the context and the component that it is part of. */}}
{{- define "dynamo-operator.labels" -}}
{{- $context := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $context.Chart.Name $context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "dynamo-operator.selectorLabels" $context }}
app.kubernetes.io/version: {{ $context.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $context.Release.Service }}
app.kubernetes.io/created-by: dynamo-operator
app.kubernetes.io/part-of: dynamo-operator
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* The namespace that a restricted operator works in. */}}
{{- define "dynamo-operator.target" -}}
{{- default .Release.Namespace .Values.namespaceRestriction.targetNamespace -}}
{{- end -}}

{{/*
A repository that names its host, as the reference's does, is taken as it is. Before others comes the registry that was given for this
image, or for all, or that of the release.
*/}}
{{- define "dynamo-operator.image" -}}
{{- $image := .Values.controllerManager.manager.image -}}
{{- if not (regexMatch "^(localhost|[^/]*[.:][^/]*)/" $image.repository) -}}
{{- with coalesce $image.registry (.Values.global).imageRegistry $image.defaultRegistry -}}{{ trimSuffix "/" . }}/{{- end -}}
{{- end -}}
{{ $image.repository }}:{{ include "dynamo-operator.version" . }}
{{- end -}}

{{- define "dynamo-operator.version" -}}
{{- default .Chart.AppVersion .Values.controllerManager.manager.image.tag -}}
{{- end -}}

{{/* Where certificates of webhooks come from: cert-manager wins over a Secret of the user's, as in the reference. */}}
{{- define "dynamo-operator.certificates" -}}
{{- if .Values.webhook.certManager.enabled -}}
cert-manager
{{- else if .Values.webhook.certificateSecret.external -}}
external
{{- else -}}
self-managed
{{- end -}}
{{- end -}}

{{/* Not empty where webhooks are served. An operator of one namespace may not register its own authority, so that it needs a certificate from elsewhere. */}}
{{- define "dynamo-operator.webhooks" -}}
{{- if and .Values.webhook.enabled (or (not .Values.namespaceRestriction.enabled) (ne (include "dynamo-operator.certificates" .) "self-managed")) -}}
true
{{- end -}}
{{- end -}}

{{/* Not empty where the certificate is mounted from a Secret. */}}
{{- define "dynamo-operator.mountsCertificate" -}}
{{- if and (include "dynamo-operator.webhooks" .) (ne (include "dynamo-operator.certificates" .) "self-managed") -}}
true
{{- end -}}
{{- end -}}

{{- define "dynamo-operator.webhookConfiguration" -}}
{{- $context := index . 0 -}}
{{- printf "%s-%s" (include "dynamo-operator.fullname" $context) (index . 1) -}}
{{- if $context.Values.namespaceRestriction.enabled -}}
-{{ $context.Release.Namespace }}
{{- end -}}
{{- end -}}

{{/* Not empty where metrics can be protected: an operator of one namespace may not ask the API server who its callers are, and needs a token. */}}
{{- define "dynamo-operator.metrics" -}}
{{- if or (not .Values.namespaceRestriction.enabled) .Values.metricsService.tokenSecretName -}}
true
{{- end -}}
{{- end -}}

{{- define "dynamo-operator.leaderElectionID" -}}
{{- default "dynamo.nvidia.com" .Values.controllerManager.leaderElection.id -}}
{{- end -}}

{{- define "dynamo-operator.registrySecret" -}}
{{- default (printf "%s-regcred" (include "dynamo-operator.fullname" .)) .Values.dynamo.dockerRegistry.existingSecretName -}}
{{- end -}}

{{/* Pull secrets of an account of workloads, if there is a registry to log in to. */}}
{{- define "dynamo-operator.accountPullSecrets" -}}
{{- if .Values.dynamo.dockerRegistry.useKubernetesSecret }}
imagePullSecrets:
- name: {{ include "dynamo-operator.registrySecret" . }}
{{- end }}
{{- end -}}

{{/* Nine tenths of the memory limit, where it is given in Mi or Gi. */}}
{{- define "dynamo-operator.memoryLimit" -}}
{{- $limit := toString (default "" ((.Values.controllerManager.manager.resources).limits).memory) -}}
{{- if regexMatch "^[0-9]+Mi$" $limit -}}
{{ div (mul 9 (trimSuffix "Mi" $limit | int)) 10 }}MiB
{{- else if regexMatch "^[0-9]+Gi$" $limit -}}
{{ div (mul 9216 (trimSuffix "Gi" $limit | int)) 10 }}MiB
{{- end -}}
{{- end -}}

{{/* A duration such as 36h or 1h30m in whole seconds, those below one left out. */}}
{{- define "dynamo-operator.seconds" -}}
{{- $sum := 0.0 -}}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 -}}
{{- range regexFindAll "[0-9]+(\\.[0-9]+)?(ms|s|m|h)" . -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (index $units $unit)) -}}
{{- end -}}
{{- floor $sum | int -}}
{{- end -}}
