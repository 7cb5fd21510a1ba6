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
{{- if eq (toString $d.dockerRegistry.secure) "false" -}}
{{- fail "dynamo.dockerRegistry.secure is not a value any more: it never had an effect; registries without TLS are configured on the nodes" -}}
{{- end -}}
{{- end -}}
