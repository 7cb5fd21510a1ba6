{{- define "nats.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The Service of clients, which the operator is told of. */}}
{{- define "nats.serviceName" -}}
{{- default (include "nats.fullname" .) .Values.service.name -}}
{{- end -}}

{{- define "nats.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: nats
{{- end -}}

{{- define "nats.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "nats.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* An object of a template, over which a user's object is merged; takes a list of the two. */}}
{{- define "nats.merged" -}}
{{- toYaml (mergeOverwrite (index . 0 | fromYaml) (deepCopy (default dict (index . 1)))) -}}
{{- end -}}

{{/* A repository that names its host is taken as it is; before others comes a registry. */}}
{{- define "nats.image" -}}
{{- $image := index . 1 -}}
{{- if not (regexMatch "^(localhost|[^/]*[.:][^/]*)/" $image.repository) -}}
{{- with coalesce $image.registry ((index . 0).Values.global).imageRegistry -}}{{ trimSuffix "/" . }}/{{- end -}}
{{- end -}}
{{ $image.repository }}:{{ $image.tag }}
{{- end -}}

{{- define "nats.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  {{- if kindIs "map" $value }}
  {{- toYaml $value | nindent 2 }}
  {{- else }}
  value: {{ $value | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "nats.replicas" -}}
{{- ternary .Values.config.cluster.replicas 1 .Values.config.cluster.enabled -}}
{{- end -}}

{{/*
A size as the server takes it. Its letters are powers of 1024 and it wants one with every text, so that 10Gi is 10G to it, and what
Kubernetes counts in thousands or without a unit is a number of bytes.
*/}}
{{- define "nats.size" -}}
{{- $number := regexFind "^[0-9]+" . -}}
{{- $unit := trimPrefix $number . -}}
{{- if hasSuffix "i" $unit -}}
{{ trimSuffix "i" . }}
{{- else -}}
{{ mul (int64 $number) (index (dict "" 1 "k" 1000 "K" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000) $unit) }}
{{- end -}}
{{- end -}}

{{/* The server's configuration, which may be JSON. */}}
{{- define "nats.configuration" -}}
{{- $c := .Values.config -}}
{{- $full := include "nats.fullname" . -}}
{{- $server := dict "port" (int $c.nats.port) "pid_file" "/var/run/nats/nats.pid" "lame_duck_grace_period" "10s" "lame_duck_duration" "30s" -}}
{{- if $c.monitor.enabled -}}
{{- $_ := set $server "http_port" (int $c.monitor.port) -}}
{{- end -}}
{{- if $c.profiling.enabled -}}
{{- $_ := set $server "prof_port" (int $c.profiling.port) -}}
{{- end -}}
{{- if $c.jetstream.enabled -}}
{{- $jetstream := dict "max_memory_store" 0 "max_file_store" 0 -}}
{{- if $c.jetstream.memoryStore.enabled -}}
{{- $size := include "nats.size" $c.jetstream.memoryStore.maxSize -}}
{{- $_ := set $jetstream "max_memory_store" (ternary (int64 $size) $size (regexMatch "^[0-9]+$" $size)) -}}
{{- end -}}
{{- if $c.jetstream.fileStore.enabled -}}
{{- $_ := set $jetstream "store_dir" $c.jetstream.fileStore.dir -}}
{{- $size := include "nats.size" (default $c.jetstream.fileStore.pvc.size $c.jetstream.fileStore.maxSize) -}}
{{- $_ = set $jetstream "max_file_store" (ternary (int64 $size) $size (regexMatch "^[0-9]+$" $size)) -}}
{{- end -}}
{{- $_ := set $server "jetstream" (mergeOverwrite $jetstream (deepCopy $c.jetstream.merge)) -}}
{{- end -}}
{{- if $c.cluster.enabled -}}
{{- $routes := list -}}
{{- range $i := until (int $c.cluster.replicas) -}}
{{- $routes = append $routes (printf "nats://%s-%d.%s:6222" (default $full $.Values.statefulSet.name) $i (default (printf "%s-headless" $full) $.Values.headlessService.name)) -}}
{{- end -}}
{{- $_ := set $server "cluster" (dict "name" $full "port" 6222 "no_advertise" true "routes" $routes) -}}
{{- end -}}
{{- mergeOverwrite $server (deepCopy $c.merge) | toPrettyJson -}}
{{- end -}}

{{/* Stops at values of the chart that the reference bundles and that this one does not have. */}}
{{- define "nats.validate" -}}
{{- $own := "run a NATS of your own with it and give its address in dynamo-operator.natsAddr, with nats.enabled=false" -}}
{{- $v := .Values -}}
{{- $c := $v.config -}}
{{- range list
  (list "tlsCA.enabled" ($v.tlsCA).enabled $own)
  (list "config.nats.tls.enabled" (($c.nats).tls).enabled $own)
  (list "config.monitor.tls.enabled" (($c.monitor).tls).enabled $own)
  (list "config.leafnodes.enabled" ($c.leafnodes).enabled $own)
  (list "config.websocket.enabled" ($c.websocket).enabled $own)
  (list "config.mqtt.enabled" ($c.mqtt).enabled $own)
  (list "config.gateway.enabled" ($c.gateway).enabled $own)
  (list "config.resolver.enabled" ($c.resolver).enabled $own)
  (list "promExporter.enabled" ($v.promExporter).enabled "turn on config.monitor and scrape its port, or run the exporter beside it")
  (list "serviceAccount.enabled" ($v.serviceAccount).enabled "name an account in podTemplate.merge.spec.serviceAccountName")
  (list "natsBox.enabled" ($v.natsBox).enabled "use kubectl run -it --rm nats-box --image=natsio/nats-box:0.14.5")
  (list "config.patch" $c.patch "use config.merge")
  (list "config.jetstream.patch" $c.jetstream.patch "use config.jetstream.merge")
  (list "config.jetstream.fileStore.pvc.patch" $c.jetstream.fileStore.pvc.patch "use config.jetstream.fileStore.pvc.merge")
  (list "container.patch" $v.container.patch "use container.merge")
  (list "reloader.patch" $v.reloader.patch "use reloader.merge")
  (list "service.patch" $v.service.patch "use service.merge")
  (list "statefulSet.patch" $v.statefulSet.patch "use statefulSet.merge")
  (list "podTemplate.patch" $v.podTemplate.patch "use podTemplate.merge")
  (list "headlessService.patch" $v.headlessService.patch "use headlessService.merge")
  (list "configMap.patch" $v.configMap.patch "use configMap.merge")
  (list "podDisruptionBudget.patch" $v.podDisruptionBudget.patch "use podDisruptionBudget.merge")
-}}
{{- if index . 1 -}}
{{- fail (printf "nats.%s is not a value of this chart: %s" (index . 0) (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- range $name, $port := $v.container.ports -}}
{{- if $port -}}
{{- fail (printf "nats.container.ports.%s is not a value of this chart: use container.merge" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
