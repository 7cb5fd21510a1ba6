{{/* The operator's Deployment. The platform renders it, since only the platform sees the addresses of NATS and etcd. */}}
{{- define "dynamo-operator.deployment" -}}
{{- $c := .Values.controllerManager -}}
{{- $full := include "dynamo-operator.fullname" . -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $full }}-controller-manager
  namespace: {{ .Release.Namespace }}
  labels:
    control-plane: controller-manager
    {{- include "dynamo-operator.labels" (list . "manager") | nindent 4 }}
spec:
  replicas: {{ $c.replicas }}
  # A replica goes only when another has come: admission is never without one.
  strategy:
    type: {{ $c.strategy.type }}
    {{- if eq $c.strategy.type "RollingUpdate" }}
    rollingUpdate:
      {{- toYaml $c.strategy.rollingUpdate | nindent 6 }}
    {{- end }}
  selector:
    matchLabels:
      {{- include "dynamo-operator.podLabels" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "dynamo-operator.podLabels" . | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: manager
        # The configuration is read at the start: another one is another pod.
        checksum/configuration: {{ include "dynamo-operator.configuration" . | sha256sum }}
        {{- with $c.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ $full }}-controller-manager
      terminationGracePeriodSeconds: 30
      {{- with $c.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        {{- toYaml $c.podSecurityContext | nindent 8 }}
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $c.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $c.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $c.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $c.topologySpreadConstraints }}
      topologySpreadConstraints:
      {{- range . }}
      {{- $ours := dict "labelSelector" (dict "matchLabels" (include "dynamo-operator.podLabels" $ | fromYaml)) }}
      {{- list (mergeOverwrite $ours (deepCopy .)) | toYaml | nindent 6 }}
      {{- end }}
      {{- end }}
      containers:
      - name: manager
        image: {{ include "dynamo-operator.image" . | quote }}
        {{- with $c.manager.image.pullPolicy }}
        imagePullPolicy: {{ . }}
        {{- end }}
        command: [/manager]
        args:
        {{- include "dynamo-operator.arguments" . | nindent 8 }}
        env:
        - name: POD_NAMESPACE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
        - name: POD_UID
          valueFrom:
            fieldRef:
              fieldPath: metadata.uid
        {{- with include "dynamo-operator.memoryLimit" . }}
        # Nine tenths of the limit: the collector works harder before it is reached, instead of the process being killed at it.
        - name: GOMEMLIMIT
          value: {{ . }}
        {{- end }}
        - name: INTERNAL_IMAGES_DEBUGGER
          value: {{ .Values.dynamo.internalImages.debugger | quote }}
        {{- with $c.manager.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        ports:
        - {name: webhook-server, containerPort: 9443, protocol: TCP}
        - {name: https, containerPort: 8443, protocol: TCP}
        - {name: health, containerPort: 8081, protocol: TCP}
        livenessProbe:
          httpGet: {path: /healthz, port: health}
          initialDelaySeconds: 15
          periodSeconds: 20
        readinessProbe:
          httpGet: {path: /readyz, port: health}
          periodSeconds: 2
        resources:
          {{- toYaml $c.manager.resources | nindent 10 }}
        securityContext:
          {{- toYaml $c.manager.containerSecurityContext | nindent 10 }}
        volumeMounts:
        - {name: configuration, mountPath: /etc/dynamo-operator, readOnly: true}
        {{- if include "dynamo-operator.mountsCertificate" . }}
        - {name: cert, mountPath: /tmp/k8s-webhook-server/serving-certs, readOnly: true}
        {{- end }}
        {{- if and .Values.namespaceRestriction.enabled .Values.metricsService.tokenSecretName }}
        - {name: metrics, mountPath: /etc/dynamo-operator-metrics, readOnly: true}
        {{- end }}
      volumes:
      - name: configuration
        configMap:
          name: {{ $full }}-configuration
      {{- if include "dynamo-operator.mountsCertificate" . }}
      # tls.crt and tls.key. The operator waits for them.
      - name: cert
        secret:
          secretName: {{ .Values.webhook.certificateSecret.name }}
          optional: true
      {{- end }}
      {{- if and .Values.namespaceRestriction.enabled .Values.metricsService.tokenSecretName }}
      # token, which readers of metrics have to show.
      - name: metrics
        secret:
          secretName: {{ .Values.metricsService.tokenSecretName }}
      {{- end }}
{{- end -}}
