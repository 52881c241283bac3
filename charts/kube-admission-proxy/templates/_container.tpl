{{/* The container of the proxy and its volumes. A chart that has this chart as a dependency can use them in pods of its own, with the
values of the dependency: include "kube-admission-proxy.container" (index .Subcharts "kube-admission-proxy"). */}}

{{- define "kube-admission-proxy.args" -}}
{{- $values := .Values }}
{{- $admission := $values.admission }}
{{- $args := list "serve" (printf "--bind-address=%s" $values.serving.bindAddress) (printf "--secure-port=%d" (int $values.serving.port)) }}
{{- $host := $values.serving.bindAddress }}
{{- if contains ":" $host }}{{ $host = printf "[%s]" $host }}{{ end }}
{{- $args = append $args (printf "--health-bind-address=%s:%d" $host (int $values.serving.healthPort)) }}
{{- if eq $values.tls.mode "auto" }}
{{- $names := concat (include "kube-admission-proxy.serviceNames" . | fromYamlArray) (include "kube-admission-proxy.publicNames" . | fromYamlArray) $values.tls.ipAddresses }}
{{- $args = concat $args (list (printf "--tls-secret=%s/%s" .Release.Namespace (include "kube-admission-proxy.tlsSecret" .)) (printf "--tls-names=%s" (join "," $names))) }}
{{- else }}
{{- $args = concat $args (list "--tls-cert-file=/etc/kube-admission-proxy/tls/tls.crt" "--tls-private-key-file=/etc/kube-admission-proxy/tls/tls.key") }}
{{- end }}
{{- if ne $values.upstream.kind "embedded" }}
{{- $folder := ternary "config" "upstream" (eq $values.upstream.kind "inCluster") }}
{{- $args = concat $args (list (printf "--upstream-kubeconfig=/etc/kube-admission-proxy/%s/kubeconfig" $folder) (printf "--upstream-identity=%s" $values.upstream.identity) (printf "--upstream-calls-webhooks=%s" $values.upstream.callsWebhooks) (printf "--authorization-mode=%s" $values.authorization.mode)) }}
{{- end }}
{{- with include "kube-admission-proxy.impersonator" . }}{{ $args = append $args (printf "--upstream-impersonator=%s/%s" $.Release.Namespace .) }}{{ end }}
{{- with $values.upstream.groupPrefix }}{{ $args = append $args (printf "--upstream-group-prefix=%s" .) }}{{ end }}
{{- with include "kube-admission-proxy.admittedMark" . }}{{ $args = append $args (printf "--admitted-mark=%s" .) }}{{ end }}
{{- with $values.tenants.profiles }}{{ $args = append $args "--tenants-dir=/etc/kube-admission-proxy/tenants" }}{{ end }}
{{- $args = concat $args (include "kube-admission-proxy.webhookArgs" . | fromYamlArray) }}
{{- with include "kube-admission-proxy.enabledPlugins" . | fromYamlArray }}{{ $args = append $args (printf "--enable-admission-plugins=%s" (join "," .)) }}{{ end }}
{{- with $admission.disablePlugins }}{{ $args = append $args (printf "--disable-admission-plugins=%s" (join "," .)) }}{{ end }}
{{- if include "kube-admission-proxy.admissionConfiguration" . }}
{{- $args = append $args "--admission-control-config-file=/etc/kube-admission-proxy/config/admission.yaml" }}
{{- end }}
{{- $gates := deepCopy $admission.featureGates }}
{{- if $admission.manifests }}{{ $_ := set $gates "ManifestBasedAdmissionControlConfig" true }}{{ end }}
{{- range $gate, $on := $gates }}{{ $args = append $args (printf "--feature-gates=%s=%t" $gate $on) }}{{ end }}
{{- $args = append $args (printf "--admission-timeout=%s" $admission.timeout) }}
{{- $args = append $args (printf "--validation-view=%s" $admission.validationView) }}
{{- $args = append $args (printf "--field-ownership=%s" $admission.fieldOwnership) }}
{{- $args = append $args (printf "--enable-aggregator-routing=%t" $admission.aggregatorRouting) }}
{{- $args = append $args (printf "--enable-static-policy-parameters=%t" $admission.staticPolicyParameters) }}
{{- with $admission.shadow.webhooks }}{{ $args = append $args (printf "--shadow-webhooks=%s" (join "," .)) }}{{ end }}
{{- with $admission.shadow.policies }}{{ $args = append $args (printf "--shadow-policies=%s" (join "," .)) }}{{ end }}
{{- $args = append $args (printf "--shadow-annotations=%t" $admission.shadow.annotations) }}
{{- $breaker := $admission.circuitBreaker }}
{{- $args = append $args (printf "--webhook-circuit-breaker-failures=%d" (int $breaker.failures)) }}
{{- $args = append $args (printf "--webhook-circuit-breaker-window=%s" $breaker.window) }}
{{- $args = append $args (printf "--webhook-circuit-breaker-probe-interval=%s" $breaker.probeInterval) }}
{{- $args = append $args (printf "--default-not-ready-toleration-seconds=%d" (int $admission.defaultTolerationSeconds.notReady)) }}
{{- $args = append $args (printf "--default-unreachable-toleration-seconds=%d" (int $admission.defaultTolerationSeconds.unreachable)) }}
{{- $args = concat $args (include "kube-admission-proxy.authenticationArgs" . | fromYamlArray) }}
{{- $args = append $args (printf "--authorization-webhook-cache-authorized-ttl=%s" $values.authorization.authorizedTTL) }}
{{- $args = append $args (printf "--authorization-webhook-cache-unauthorized-ttl=%s" $values.authorization.unauthorizedTTL) }}
{{- if $values.audit.policy }}
{{- $log := ternary "/var/log/kube-admission-proxy/audit.log" "-" (not (empty $values.audit.volume)) }}
{{- $args = concat $args (list "--audit-policy-file=/etc/kube-admission-proxy/config/audit-policy.yaml" (printf "--audit-log-path=%s" $log)) }}
{{- end }}
{{- $args = append $args (printf "--max-requests-inflight=%d" (int $values.limits.maxRequestsInflight)) }}
{{- $args = append $args (printf "--max-mutating-requests-inflight=%d" (int $values.limits.maxMutatingRequestsInflight)) }}
{{- $args = append $args (printf "--request-timeout=%s" $values.limits.requestTimeout) }}
{{- $args = append $args (printf "--shutdown-delay-duration=%ds" (int $values.shutdown.delaySeconds)) }}
{{- $args = append $args (printf "--shutdown-drain-timeout=%ds" (int $values.shutdown.drainSeconds)) }}
{{- $args = append $args (printf "--v=%d" (int $values.verbosity)) }}
{{- range $values.extraArgs }}{{ $args = append $args (tpl . $) }}{{ end }}
{{- toYaml $args }}
{{- end }}

{{/* The flags of the webhook front end. */}}
{{- define "kube-admission-proxy.webhookArgs" -}}
{{- $webhook := .Values.webhook }}
{{- $args := list }}
{{- if $webhook.enabled }}
{{- $host := .Values.serving.bindAddress }}
{{- if contains ":" $host }}{{ $host = printf "[%s]" $host }}{{ end }}
{{- $args = concat $args (list (printf "--webhook-bind-address=%s:%d" $host (int $webhook.port)) (printf "--webhook-only=%t" $webhook.only)) }}
{{- with $webhook.plugins }}{{ $args = append $args (printf "--webhook-admission-plugins=%s" (join "," .)) }}{{ end }}
{{- if eq .Values.tls.mode "auto" }}
{{- $args = append $args (printf "--webhook-configurations=%s" (include "kube-admission-proxy.clusterObjectName" .)) }}
{{- end }}
{{- $callers := $webhook.callers }}
{{- if or $callers.clientCA.configMap $callers.clientCA.secret }}
{{- $args = append $args (printf "--webhook-client-ca-file=/etc/kube-admission-proxy/webhook-client-ca/%s" $callers.clientCA.key) }}
{{- end }}
{{- with $callers.allowedNames }}{{ $args = append $args (printf "--webhook-allowed-names=%s" (join "," .)) }}{{ end }}
{{- if $callers.tokenSecret.name }}
{{- $args = append $args (printf "--webhook-token-auth-file=/etc/kube-admission-proxy/webhook-tokens/%s" $callers.tokenSecret.key) }}
{{- end }}
{{- $args = append $args (printf "--webhook-anonymous-auth=%t" $callers.anonymous) }}
{{- end }}
{{- toYaml $args }}
{{- end }}

{{- define "kube-admission-proxy.authenticationArgs" -}}
{{- $authentication := .Values.authentication }}
{{- $args := list }}
{{- if or $authentication.clientCA.configMap $authentication.clientCA.secret }}
{{- $args = append $args (printf "--client-ca-file=/etc/kube-admission-proxy/client-ca/%s" $authentication.clientCA.key) }}
{{- end }}
{{- $header := $authentication.requestHeader }}
{{- if or $header.configMap $header.secret }}
{{- $args = append $args (printf "--requestheader-client-ca-file=/etc/kube-admission-proxy/requestheader-ca/%s" $header.key) }}
{{- with $header.allowedNames }}{{ $args = append $args (printf "--requestheader-allowed-names=%s" (join "," .)) }}{{ end }}
{{- with $header.usernameHeaders }}{{ $args = append $args (printf "--requestheader-username-headers=%s" (join "," .)) }}{{ end }}
{{- with $header.uidHeaders }}{{ $args = append $args (printf "--requestheader-uid-headers=%s" (join "," .)) }}{{ end }}
{{- with $header.groupHeaders }}{{ $args = append $args (printf "--requestheader-group-headers=%s" (join "," .)) }}{{ end }}
{{- with $header.extraHeadersPrefix }}{{ $args = append $args (printf "--requestheader-extra-headers-prefix=%s" (join "," .)) }}{{ end }}
{{- end }}
{{- if $authentication.tokenSecret.name }}
{{- $args = append $args (printf "--token-auth-file=/etc/kube-admission-proxy/tokens/%s" $authentication.tokenSecret.key) }}
{{- end }}
{{- $args = append $args (printf "--anonymous-auth=%t" $authentication.anonymous) }}
{{- $args = append $args (printf "--authentication-token-webhook-cache-ttl=%s" $authentication.tokenCacheTTL) }}
{{- toYaml $args }}
{{- end }}

{{/* The mounts below /etc/kube-admission-proxy and their volumes: a list of {path, volume}, where volume has no name. */}}
{{- define "kube-admission-proxy.mounts" -}}
{{- $values := .Values }}
{{- $fullname := include "kube-admission-proxy.fullname" . }}
{{- $mounts := list }}
{{- if ne $values.tls.mode "auto" }}
{{- $mounts = append $mounts (dict "path" "tls" "volume" (dict "secret" (dict "secretName" (include "kube-admission-proxy.tlsSecret" .)))) }}
{{- end }}
{{- if include "kube-admission-proxy.files" . }}
{{- $mounts = append $mounts (dict "path" "config" "volume" (dict "configMap" (dict "name" $fullname))) }}
{{- end }}
{{- if eq $values.upstream.kind "inCluster" }}
{{- $token := dict "serviceAccountToken" (dict "path" "token" "expirationSeconds" (int $values.upstream.tokenExpirationSeconds)) }}
{{- $authority := dict "configMap" (dict "name" "kube-root-ca.crt" "items" (list (dict "key" "ca.crt" "path" "ca.crt"))) }}
{{- $mounts = append $mounts (dict "path" "upstream" "volume" (dict "projected" (dict "sources" (list $token $authority)))) }}
{{- else if eq $values.upstream.kind "kubeconfig" }}
{{- $secret := $values.upstream.kubeconfigSecret }}
{{- $items := list (dict "key" $secret.key "path" "kubeconfig") }}
{{- $mounts = append $mounts (dict "path" "upstream" "volume" (dict "secret" (dict "secretName" $secret.name "items" $items))) }}
{{- end }}
{{- if eq (include "kube-admission-proxy.authorityOfClients" .) "/etc/kube-admission-proxy/authority/ca.crt" }}
{{- /* The file exists as soon as the proxy has filled the ConfigMap. */}}
{{- $mounts = append $mounts (dict "path" "authority" "volume" (dict "configMap" (dict "name" (include "kube-admission-proxy.tlsSecret" .)))) }}
{{- end }}
{{- if $values.tenants.profiles }}
{{- $sources := list (dict "configMap" (dict "name" (printf "%s-tenants" $fullname))) }}
{{- with $values.tenants.secret }}{{ $sources = append $sources (dict "secret" (dict "name" .)) }}{{ end }}
{{- $mounts = append $mounts (dict "path" "tenants" "volume" (dict "projected" (dict "sources" $sources))) }}
{{- end }}
{{- range $path, $from := dict "client-ca" $values.authentication.clientCA "requestheader-ca" $values.authentication.requestHeader "webhook-client-ca" $values.webhook.callers.clientCA }}
{{- if $from.configMap }}
{{- $mounts = append $mounts (dict "path" $path "volume" (dict "configMap" (dict "name" $from.configMap))) }}
{{- else if $from.secret }}
{{- $items := list (dict "key" $from.key "path" $from.key) }}
{{- $mounts = append $mounts (dict "path" $path "volume" (dict "secret" (dict "secretName" $from.secret "items" $items))) }}
{{- end }}
{{- end }}
{{- range $path, $from := dict "tokens" $values.authentication.tokenSecret "webhook-tokens" $values.webhook.callers.tokenSecret }}
{{- with $from.name }}
{{- $mounts = append $mounts (dict "path" $path "volume" (dict "secret" (dict "secretName" .))) }}
{{- end }}
{{- end }}
{{- range $plugin, $_ := $values.admission.manifests }}
{{- $mounts = append $mounts (dict "path" (printf "manifests/%s" $plugin) "volume" (dict "configMap" (dict "name" (printf "%s-%s" $fullname (lower $plugin))))) }}
{{- end }}
{{- toYaml $mounts }}
{{- end }}

{{- define "kube-admission-proxy.volumes" -}}
{{- range include "kube-admission-proxy.mounts" . | fromYamlArray }}
- name: proxy-{{ .path | replace "/" "-" | lower }}
  {{- toYaml .volume | nindent 2 }}
{{- end }}
{{- if and .Values.audit.policy .Values.audit.volume }}
- name: proxy-audit
  {{- toYaml .Values.audit.volume | nindent 2 }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ tpl (toYaml .) $ }}
{{- end }}
{{- end }}

{{- define "kube-admission-proxy.probe" -}}
httpGet:
  path: {{ .path }}
  port: health
  scheme: HTTP
{{ toYaml .probe }}
{{- end }}

{{- define "kube-admission-proxy.container" -}}
- name: kube-admission-proxy
  image: {{ include "kube-admission-proxy.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    {{- include "kube-admission-proxy.args" . | nindent 4 }}
  {{- with .Values.extraEnv }}
  env:
    {{- tpl (toYaml .) $ | nindent 4 }}
  {{- end }}
  ports:
    {{- if not .Values.webhook.only }}
    - name: https
      containerPort: {{ .Values.serving.port }}
      protocol: TCP
    {{- end }}
    {{- if .Values.webhook.enabled }}
    - name: webhook
      containerPort: {{ .Values.webhook.port }}
      protocol: TCP
    {{- end }}
    - name: health
      containerPort: {{ .Values.serving.healthPort }}
      protocol: TCP
  startupProbe:
    {{- include "kube-admission-proxy.probe" (dict "path" "/readyz" "probe" .Values.probes.startup) | nindent 4 }}
  readinessProbe:
    {{- include "kube-admission-proxy.probe" (dict "path" "/readyz" "probe" .Values.probes.readiness) | nindent 4 }}
  livenessProbe:
    {{- include "kube-admission-proxy.probe" (dict "path" "/livez" "probe" .Values.probes.liveness) | nindent 4 }}
  {{- with .Values.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    {{- range include "kube-admission-proxy.mounts" . | fromYamlArray }}
    - name: proxy-{{ .path | replace "/" "-" | lower }}
      mountPath: /etc/kube-admission-proxy/{{ .path }}
      readOnly: true
    {{- end }}
    {{- if and .Values.audit.policy .Values.audit.volume }}
    - name: proxy-audit
      mountPath: /var/log/kube-admission-proxy
    {{- end }}
    {{- with .Values.extraVolumeMounts }}
    {{- tpl (toYaml .) $ | nindent 4 }}
    {{- end }}
{{- end }}
