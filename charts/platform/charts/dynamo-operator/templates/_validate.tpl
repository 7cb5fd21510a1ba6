{{/* Stops at values that cannot work, or that this chart has no more, and says what to do instead. */}}
{{- define "dynamo-operator.validate" -}}
{{- include "dynamo-operator.removed" . -}}
{{- $v := .Values -}}
{{- if not (has $v.discoveryBackend (list "kubernetes" "etcd")) -}}
{{- fail (printf "discoveryBackend is %q: set it to kubernetes or etcd" $v.discoveryBackend) -}}
{{- end -}}
{{- if not $v.namespaceRestriction.enabled -}}
{{- if ne (include "dynamo-operator.leaderElectionID" .) "dynamo.nvidia.com" -}}
{{- fail (printf "controllerManager.leaderElection.id is %q: operators of all namespaces share the Lease dynamo.nvidia.com, and two of them would work at once with another; leave the value empty, or set namespaceRestriction.enabled" $v.controllerManager.leaderElection.id) -}}
{{- end -}}
{{- if eq (default "" $v.controllerManager.leaderElection.namespace) .Release.Namespace -}}
{{- fail (printf "controllerManager.leaderElection.namespace is that of the release, %q: another operator of all namespaces would not see the Lease there; leave the value empty for kube-system" .Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- $service := printf "%s-webhook-service" (include "dynamo-operator.fullname" .) -}}
{{- if and (include "dynamo-operator.webhooks" .) (gt (len $service) 63) -}}
{{- fail (printf "%q is too long for the Service of the webhooks, which may have 63 characters: give the release a shorter name, or set fullnameOverride to one of at most 47" $service) -}}
{{- end -}}
{{- $registry := $v.dynamo.dockerRegistry -}}
{{- if and $registry.useKubernetesSecret (not $registry.existingSecretName) -}}
{{- range $key := list "server" "username" "password" -}}
{{- if not (index $registry $key) -}}
{{- fail (printf "dynamo.dockerRegistry.%s is empty: with useKubernetesSecret give server, username and password, or name a Secret in existingSecretName" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "dynamo-operator.webhooks" .) (eq (include "dynamo-operator.certificates" .) "external") (not $v.webhook.caBundle) -}}
{{- fail "webhook.caBundle is empty: with webhook.certificateSecret.external the API server has to be told the authority of the certificate, in base64; or let cert-manager do it (webhook.certManager.enabled), or the operator (webhook.certificateSecret.external=false)" -}}
{{- end -}}
{{- if and (include "dynamo-operator.webhooks" .) (eq (include "dynamo-operator.certificates" .) "self-managed") -}}
{{- $leaf := include "dynamo-operator.seconds" $v.webhook.servingCertificateValidity | int -}}
{{- if ge $leaf (mul 86400 (int $v.webhook.certificateValidity) | int) -}}
{{- fail (printf "webhook.servingCertificateValidity is %s and webhook.certificateValidity %d days: certificates have to end before the authority that signs them; shorten the first or lengthen the second" $v.webhook.servingCertificateValidity (int $v.webhook.certificateValidity)) -}}
{{- end -}}
{{- end -}}
{{- if and $v.monitoring.serviceMonitor.enabled (not $v.metricsService.enabled) -}}
{{- fail "monitoring.serviceMonitor.enabled without metricsService.enabled: Prometheus would be told of a Service that is not there; turn metricsService.enabled on, or the monitor off" -}}
{{- end -}}
{{- if and $v.monitoring.serviceMonitor.enabled (not (include "dynamo-operator.metrics" .)) -}}
{{- fail "monitoring.serviceMonitor.enabled with namespaceRestriction.enabled: an operator of one namespace serves metrics to those who show a token; name the Secret that holds it in metricsService.tokenSecretName" -}}
{{- end -}}
{{- end -}}

{{/* Keys of the reference that this chart does not have. A key with the value that turns its feature off asks for nothing. */}}
{{- define "dynamo-operator.removed" -}}
{{- $v := .Values -}}
{{- $c := $v.controllerManager -}}
{{- $d := $v.dynamo -}}
{{- $checks := list
  (list "controllerManager.kubeRbacProxy" $c.kubeRbacProxy "the operator serves metrics over TLS itself; see metricsService, and metricsService.readers for who may read them")
  (list "webhook.certGenerator" $v.webhook.certGenerator "no jobs make certificates any more: the operator does, see webhook.certificateValidity, or webhook.certManager, or webhook.certificateSecret")
  (list "dynamo.mpiRun.sshKeygen" $d.mpiRun.sshKeygen "no job makes the key any more: the operator does when the first graph needs it, and uses the Secret dynamo.mpiRun.secretName if it is there already")
  (list "dynamo.enableRestrictedSecurityContext" $d.enableRestrictedSecurityContext "it never had an effect; set securityContext in extraPodSpec of a graph's services")
  (list "dynamo.dynamoIngressSuffix" $d.dynamoIngressSuffix "it never had an effect; use dynamo.ingressHostSuffix")
  (list "istioVirtualServiceEnabled" $v.istioVirtualServiceEnabled "the operator's role always allows VirtualServices; use dynamo.istio")
  (list "checkpoint.agent" $v.checkpoint.agent "it never had an effect; the agent has a chart of its own")
  (list "namespaceRestriction.namespace" $v.namespaceRestriction.namespace "use namespaceRestriction.targetNamespace")
-}}
{{- range $checks -}}
{{- if index . 1 -}}
{{- fail (printf "%s is not a value any more: %s" (index . 0) (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- $image := $c.manager.image.repository -}}
{{- if regexMatch "(^|/)(ai-dynamo/kubernetes-operator|dynamo-dev/dynamo-operator)$" $image -}}
{{- fail (printf "controllerManager.manager.image.repository is %q, an image of the reference, which does not understand the command line of this chart: take controllerManager.manager.image out of the values, and imagePullSecrets if they are for that image, or name an image of this operator" $image) -}}
{{- end -}}
{{- if eq (toString $d.dockerRegistry.secure) "false" -}}
{{- fail "dynamo.dockerRegistry.secure is not a value any more: it never had an effect; registries without TLS are configured on the nodes" -}}
{{- end -}}
{{- end -}}
