{{/*
The operator's command line as a YAML list: the flags of the reference's chart in its order, then the file with what has no flag.
Metrics are served by the operator itself, so the address behind the reference's proxy becomes the one that the proxy had.
*/}}
{{- define "dynamo-operator.arguments" -}}
{{- $v := .Values -}}
{{- $restricted := $v.namespaceRestriction.enabled -}}
{{- $full := include "dynamo-operator.fullname" . -}}
{{- $target := include "dynamo-operator.target" . -}}
{{- $args := list -}}
{{- range $v.controllerManager.manager.args -}}
{{- if has . (list "--metrics-bind-address=:8443" "--metrics-bind-address=127.0.0.1:8080") -}}
{{- $args = append $args (printf "--metrics-bind-address=%s" (ternary ":8443" "0" (ne (include "dynamo-operator.metrics" $) ""))) -}}
{{- else -}}
{{- $args = append $args . -}}
{{- end -}}
{{- end -}}
{{- $args = concat $args (list "--leader-elect" (printf "--leader-election-id=%s" (include "dynamo-operator.leaderElectionID" .))) -}}
{{- if $restricted -}}
{{- $args = concat $args (list (printf "--restrictedNamespace=%s" $target) (printf "--leader-election-namespace=%s" $target)) -}}
{{- else -}}
{{- $args = append $args (printf "--leader-election-namespace=%s" (default "kube-system" $v.controllerManager.leaderElection.namespace)) -}}
{{- end -}}
{{- with $v.natsAddr -}}
{{- $args = append $args (printf "--natsAddr=%s" .) -}}
{{- end -}}
{{- with $v.etcdAddr -}}
{{- $args = append $args (printf "--etcdAddr=%s" .) -}}
{{- end -}}
{{- $args = concat $args (include "dynamo-operator.renderingArguments" . | fromYamlArray) -}}
{{- if not $restricted -}}
{{- $args = concat $args (list (printf "--dgdr-profiling-cluster-role-name=%s-dgdr-profiling" $full) (printf "--planner-cluster-role-name=%s-planner" $full) (printf "--epp-cluster-role-name=%s-epp" $full)) -}}
{{- end -}}
{{- $args = append $args (printf "--discovery-backend=%s" $v.discoveryBackend) -}}
{{- if $restricted -}}
{{- $args = concat $args (list (printf "--namespace-scope-lease-duration=%s" $v.namespaceRestriction.lease.duration) (printf "--namespace-scope-lease-renew-interval=%s" $v.namespaceRestriction.lease.renewInterval)) -}}
{{- end -}}
{{- $args = append $args (printf "--operator-version=%s" (include "dynamo-operator.version" .)) -}}
{{- if include "dynamo-operator.webhooks" . -}}
{{- $args = append $args "--enable-webhooks=true" -}}
{{- end -}}
{{- if $v.checkpoint.enabled -}}
{{- $args = concat $args (include "dynamo-operator.checkpointArguments" . | fromYamlArray) -}}
{{- end -}}
{{- toYaml (append $args "--config=/etc/dynamo-operator/operator.yaml") -}}
{{- end -}}

{{/* Flags about what is made of graphs, as far as they are set. */}}
{{- define "dynamo-operator.renderingArguments" -}}
{{- $d := .Values.dynamo -}}
{{- $args := list -}}
{{- if and $d.istio.enabled $d.istio.gateway -}}
{{- $args = append $args (printf "--istio-virtual-service-gateway=%s" $d.istio.gateway) -}}
{{- end -}}
{{- if and $d.ingress.enabled $d.ingress.className -}}
{{- $args = append $args (printf "--ingress-controller-class-name=%s" $d.ingress.className) -}}
{{- end -}}
{{- if and $d.ingress.enabled $d.ingress.tlsSecretName -}}
{{- $args = append $args (printf "--ingress-controller-tls-secret-name=%s" $d.ingress.tlsSecretName) -}}
{{- end -}}
{{- if $d.ingressHostSuffix -}}
{{- $args = append $args (printf "--ingress-host-suffix=%s" $d.ingressHostSuffix) -}}
{{- end -}}
{{- if $d.virtualServiceSupportsHTTPS -}}
{{- $args = append $args "--virtual-service-supports-https=true" -}}
{{- end -}}
{{- if $d.groveTerminationDelay -}}
{{- $args = append $args (printf "--grove-termination-delay=%s" $d.groveTerminationDelay) -}}
{{- end -}}
{{- if .Values.modelExpressURL -}}
{{- $args = append $args (printf "--model-express-url=%s" .Values.modelExpressURL) -}}
{{- end -}}
{{- if $d.metrics.prometheusEndpoint -}}
{{- $args = append $args (printf "--prometheus-endpoint=%s" $d.metrics.prometheusEndpoint) -}}
{{- end -}}
{{- if $d.mpiRun.secretName -}}
{{- $home := ternary (include "dynamo-operator.target" .) .Release.Namespace .Values.namespaceRestriction.enabled -}}
{{- $args = concat $args (list (printf "--mpi-run-ssh-secret-name=%s" $d.mpiRun.secretName) (printf "--mpi-run-ssh-secret-namespace=%s" $home)) -}}
{{- end -}}
{{- toYaml $args -}}
{{- end -}}

{{/* Flags about checkpoints, of which only those of the storage that is used. */}}
{{- define "dynamo-operator.checkpointArguments" -}}
{{- $c := .Values.checkpoint -}}
{{- $args := list "--checkpoint-enabled=true" (printf "--checkpoint-storage-type=%s" $c.storage.type) (printf "--checkpoint-signal-host-path=%s" $c.storage.signalHostPath) (printf "--checkpoint-criu-timeout=%s" $c.criu.timeout) (printf "--checkpoint-init-container-image=%s" $c.initContainerImage) -}}
{{- if eq $c.storage.type "pvc" -}}
{{- $args = concat $args (list (printf "--checkpoint-pvc-name=%s" $c.storage.pvc.pvcName) (printf "--checkpoint-pvc-base-path=%s" $c.storage.pvc.basePath)) -}}
{{- else -}}
{{- $store := index $c.storage $c.storage.type -}}
{{- $args = append $args (printf "--checkpoint-%s-uri=%s" $c.storage.type $store.uri) -}}
{{- if $store.credentialsSecretRef -}}
{{- $args = append $args (printf "--checkpoint-%s-credentials-secret=%s" $c.storage.type $store.credentialsSecretRef) -}}
{{- end -}}
{{- end -}}
{{- toYaml $args -}}
{{- end -}}

{{/* The file with what has no flag, as YAML. */}}
{{- define "dynamo-operator.configuration" -}}
{{- $full := include "dynamo-operator.fullname" . -}}
{{- $protected := ne (include "dynamo-operator.metrics" .) "" -}}
{{- $metrics := dict "secure" $protected -}}
{{- if and $protected .Values.namespaceRestriction.enabled -}}
{{- $_ := set $metrics "bearerTokenFile" "/etc/dynamo-operator-metrics/token" -}}
{{- end -}}
{{- $certificates := dict "source" "files" "directory" "/tmp/k8s-webhook-server/serving-certs" -}}
{{- if eq (include "dynamo-operator.certificates" .) "self-managed" -}}
{{- $certificates = dict "source" "self-managed" "secretName" (printf "%s-webhook-ca" $full) "authorityValidity" (printf "%dh" (mul 24 (int .Values.webhook.certificateValidity))) "leafValidity" .Values.webhook.servingCertificateValidity -}}
{{- end -}}
{{- $webhooks := dict "serviceName" (printf "%s-webhook-service" $full) "validatingConfigurationName" (include "dynamo-operator.webhookConfiguration" (list . "validating")) "mutatingConfigurationName" (include "dynamo-operator.webhookConfiguration" (list . "mutating")) "certificates" $certificates -}}
{{- $ours := dict "apiVersion" "config.nvidia.com/v1alpha1" "kind" "OperatorConfiguration" "logging" (dict "development" false) "metrics" $metrics "webhooks" $webhooks -}}
{{- toYaml (mergeOverwrite $ours (deepCopy .Values.controllerManager.config)) -}}
{{- end -}}
