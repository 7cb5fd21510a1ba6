{{- define "nats.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ default (printf "%s-config" (include "nats.fullname" .)) .Values.configMap.name }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "nats.labels" . | nindent 4 }}
data:
  nats.conf: |
    {{- include "nats.configuration" . | nindent 4 }}
{{- end -}}

{{/* The ports that a Service or a container has, as name, number and protocol; takes a list of the context and whether only those of the Service. */}}
{{- define "nats.ports" -}}
{{- $c := (index . 0).Values.config -}}
{{- $service := index . 1 -}}
{{- $ports := (index . 0).Values.service.ports -}}
{{- range list
  (list "nats" $c.nats.port true $ports.nats.enabled)
  (list "cluster" 6222 $c.cluster.enabled $ports.cluster.enabled)
  (list "monitor" $c.monitor.port $c.monitor.enabled $ports.monitor.enabled)
  (list "profiling" $c.profiling.port $c.profiling.enabled $ports.profiling.enabled)
}}
{{- if and (index . 2) (or (not $service) (index . 3)) }}
- name: {{ index . 0 }}
  {{- if $service }}
  port: {{ int (index . 1) }}
  targetPort: {{ index . 0 }}
  {{- else }}
  containerPort: {{ int (index . 1) }}
  {{- end }}
  protocol: TCP
{{- end }}
{{- end }}
{{- end -}}

{{- define "nats.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "nats.serviceName" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "nats.labels" . | nindent 4 }}
spec:
  selector:
    {{- include "nats.selectorLabels" . | nindent 4 }}
  ports:
  {{- include "nats.ports" (list . true) | nindent 2 }}
{{- end -}}

{{- define "nats.headlessService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ default (printf "%s-headless" (include "nats.fullname" .)) .Values.headlessService.name }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "nats.labels" . | nindent 4 }}
spec:
  clusterIP: None
  # Servers find each other before they are ready.
  publishNotReadyAddresses: true
  selector:
    {{- include "nats.selectorLabels" . | nindent 4 }}
  ports:
  - {name: nats, port: {{ int .Values.config.nats.port }}, targetPort: nats, protocol: TCP}
  {{- if .Values.config.cluster.enabled }}
  - {name: cluster, port: 6222, targetPort: cluster, protocol: TCP}
  {{- end }}
  {{- if .Values.config.monitor.enabled }}
  - {name: monitor, port: {{ int .Values.config.monitor.port }}, targetPort: monitor, protocol: TCP}
  {{- end }}
{{- end -}}

{{- define "nats.podDisruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "nats.fullname" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "nats.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "nats.selectorLabels" . | nindent 6 }}
{{- end -}}

{{- define "nats.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "nats.container" -}}
name: nats
image: {{ include "nats.image" (list . .Values.container.image) | quote }}
{{- with .Values.container.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
args: [--config, /etc/nats-config/nats.conf, --name, {{ .Values.config.serverNamePrefix }}$(POD_NAME)]
env:
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- include "nats.env" .Values.container.env }}
ports:
{{- include "nats.ports" (list . false) }}
{{- if .Values.config.monitor.enabled }}
startupProbe:
  httpGet: {path: /healthz, port: monitor}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 90
livenessProbe:
  httpGet: {path: "/healthz?js-enabled-only=true", port: monitor}
  periodSeconds: 30
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: "/healthz?js-server-only=true", port: monitor}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end }}
lifecycle:
  preStop:
    exec:
      command: [nats-server, -sl=ldm=/var/run/nats/nats.pid]
{{ include "nats.containerSecurity" . }}
volumeMounts:
- {name: config, mountPath: /etc/nats-config}
- {name: pid, mountPath: /var/run/nats}
{{- if and .Values.config.jetstream.enabled .Values.config.jetstream.fileStore.enabled }}
- {name: {{ include "nats.claim" . }}, mountPath: {{ .Values.config.jetstream.fileStore.dir }}}
{{- end }}
{{- end -}}

{{- define "nats.claim" -}}
{{- default (printf "%s-js" (include "nats.fullname" .)) .Values.config.jetstream.fileStore.pvc.name -}}
{{- end -}}

{{- define "nats.reloader" -}}
name: reloader
image: {{ include "nats.image" (list . .Values.reloader.image) | quote }}
{{- with .Values.reloader.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
args: [-pid, /var/run/nats/nats.pid, -config, /etc/nats-config/nats.conf]
{{- with .Values.reloader.env }}
env:
{{- include "nats.env" . }}
{{- end }}
{{ include "nats.containerSecurity" . }}
volumeMounts:
- {name: pid, mountPath: /var/run/nats}
{{- range .Values.reloader.natsVolumeMountPrefixes }}
{{- if hasPrefix . "/etc/nats-config" }}
- {name: config, mountPath: /etc/nats-config}
{{- end }}
{{- end }}
{{- end -}}

{{- define "nats.podTemplate" -}}
metadata:
  labels:
    {{- include "nats.selectorLabels" . | nindent 4 }}
  {{- if .Values.podTemplate.configChecksumAnnotation }}
  annotations:
    checksum/config: {{ include "nats.configuration" . | sha256sum }}
  {{- end }}
spec:
  enableServiceLinks: false
  terminationGracePeriodSeconds: 60
  # One user for both containers, since the reloader signals the server. The group makes files of a claim theirs that a server wrote as
  # root before.
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    runAsGroup: 1000
    fsGroup: 1000
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  # The reloader signals the server.
  shareProcessNamespace: true
  {{- with .Values.podTemplate.topologySpreadConstraints }}
  topologySpreadConstraints:
  {{- range $key, $constraint := . }}
  {{- $ours := dict "topologyKey" $key "maxSkew" 1 "whenUnsatisfiable" "DoNotSchedule" "labelSelector" (dict "matchLabels" (include "nats.selectorLabels" $ | fromYaml)) }}
  {{- list (mergeOverwrite $ours (deepCopy (default dict $constraint))) | toYaml | nindent 2 }}
  {{- end }}
  {{- end }}
  containers:
  {{- $containers := list (include "nats.merged" (list (include "nats.container" .) .Values.container.merge) | fromYaml) }}
  {{- if .Values.reloader.enabled }}
  {{- $containers = append $containers (include "nats.merged" (list (include "nats.reloader" .) .Values.reloader.merge) | fromYaml) }}
  {{- end }}
  {{- toYaml $containers | nindent 2 }}
  volumes:
  - name: config
    configMap:
      name: {{ default (printf "%s-config" (include "nats.fullname" .)) .Values.configMap.name }}
  - name: pid
    emptyDir: {}
  {{- $store := .Values.config.jetstream.fileStore }}
  {{- if and .Values.config.jetstream.enabled $store.enabled (not $store.pvc.enabled) }}
  - name: {{ include "nats.claim" . }}
    emptyDir: {}
  {{- end }}
{{- end -}}

{{- define "nats.statefulSet" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ default (include "nats.fullname" .) .Values.statefulSet.name }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "nats.labels" . | nindent 4 }}
spec:
  replicas: {{ include "nats.replicas" . }}
  podManagementPolicy: Parallel
  serviceName: {{ default (printf "%s-headless" (include "nats.fullname" .)) .Values.headlessService.name }}
  selector:
    matchLabels:
      {{- include "nats.selectorLabels" . | nindent 6 }}
  template:
    {{- include "nats.merged" (list (include "nats.podTemplate" .) .Values.podTemplate.merge) | nindent 4 }}
  {{- $store := .Values.config.jetstream.fileStore }}
  {{- if and .Values.config.jetstream.enabled $store.enabled $store.pvc.enabled }}
  volumeClaimTemplates:
  {{- list (include "nats.merged" (list (include "nats.volumeClaim" .) $store.pvc.merge) | fromYaml) | toYaml | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "nats.volumeClaim" -}}
metadata:
  name: {{ include "nats.claim" . }}
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: {{ .Values.config.jetstream.fileStore.pvc.size }}
  {{- with .Values.config.jetstream.fileStore.pvc.storageClassName }}
  storageClassName: {{ . }}
  {{- end }}
{{- end -}}
