{{/* Refuses combinations of values that the schema cannot refuse. Included by configmap.yaml, which every release has. */}}
{{- define "kube-admission-proxy.validate" -}}
{{- $values := .Values }}
{{- if not $values.image.repository }}
{{- fail "image.repository is not set, and no image is published. Make one with `make image`, push it to a registry of yours, and set image.repository, such as registry.example.com/kube-admission-proxy" }}
{{- end }}
{{- $upstream := $values.upstream }}
{{- if and (eq $upstream.identity "requestheader") (ne $upstream.kind "kubeconfig") }}
{{- fail "upstream.identity=requestheader needs upstream.kind=kubeconfig: the kubeconfig holds the client certificate of the front proxy" }}
{{- end }}
{{- if eq $upstream.kind "kubeconfig" }}
{{- if not $upstream.kubeconfigSecret.name }}
{{- fail "upstream.kind=kubeconfig needs upstream.kubeconfigSecret.name: the Secret that holds the kubeconfig" }}
{{- end }}
{{- else if $upstream.kubeconfigSecret.name }}
{{- fail (printf "upstream.kubeconfigSecret.name has no effect with upstream.kind=%s: set upstream.kind=kubeconfig" $upstream.kind) }}
{{- end }}
{{- if eq $upstream.kind "embedded" }}
{{- if ne $upstream.identity "impersonate" }}
{{- fail (printf "upstream.identity=%s has no effect with upstream.kind=embedded" $upstream.identity) }}
{{- end }}
{{- if or $values.autoscaling.enabled (gt (int $values.replicaCount) 1) }}
{{- fail "upstream.kind=embedded needs replicaCount=1 without autoscaling: each replica would have objects of its own" }}
{{- end }}
{{- end }}
{{- if and $values.autoscaling.enabled (gt (int $values.autoscaling.minReplicas) (int $values.autoscaling.maxReplicas)) }}
{{- fail "autoscaling.minReplicas is more than autoscaling.maxReplicas" }}
{{- end }}
{{- if and (not $values.serviceAccount.create) (not $values.serviceAccount.name) }}
{{- fail "serviceAccount.create=false needs serviceAccount.name" }}
{{- end }}
{{- include "kube-admission-proxy.validatePlugins" . }}
{{- include "kube-admission-proxy.validateInCluster" . }}
{{- include "kube-admission-proxy.validateWebhook" . }}
{{- if and $values.tenants.secret (not $values.tenants.profiles) }}
{{- fail "tenants.secret has no effect without tenants.profiles" }}
{{- end }}
{{- if and $values.tenants.profiles (eq $upstream.identity "passthrough") }}
{{- fail "tenants.profiles does not work with upstream.identity=passthrough: the credentials of a client are of one API server" }}
{{- end }}
{{- if and $upstream.admittedMark (or (eq $upstream.identity "passthrough") (eq $upstream.kind "embedded")) }}
{{- fail "upstream.admittedMark needs an upstream API server, and upstream.identity=impersonate or requestheader" }}
{{- end }}
{{- range $name, $from := dict "authentication.clientCA" $values.authentication.clientCA "authentication.requestHeader" $values.authentication.requestHeader "webhook.callers.clientCA" $values.webhook.callers.clientCA }}
{{- if and $from.configMap $from.secret }}
{{- fail (printf "%s.configMap and %s.secret exclude each other" $name $name) }}
{{- end }}
{{- end }}
{{- $header := $values.authentication.requestHeader }}
{{- if and (or $header.allowedNames $header.usernameHeaders $header.uidHeaders $header.groupHeaders $header.extraHeadersPrefix) (not (or $header.configMap $header.secret)) }}
{{- fail "authentication.requestHeader has no effect without authentication.requestHeader.configMap or authentication.requestHeader.secret" }}
{{- end }}
{{- if and $values.audit.volume (not $values.audit.policy) }}
{{- fail "audit.volume has no effect without audit.policy" }}
{{- end }}
{{- if and $values.audit.policy $values.webhook.only }}
{{- fail "audit.policy has no effect with webhook.only=true: the API server writes the audit events of reviews" }}
{{- end }}
{{- if and (eq $values.tls.mode "given") (or $values.tls.dnsNames $values.tls.ipAddresses) }}
{{- fail "tls.dnsNames and tls.ipAddresses have no effect with tls.mode=given" }}
{{- end }}
{{- if and (ne $values.tls.mode "cert-manager") $values.tls.certManager.issuerRef.name }}
{{- fail "tls.certManager.issuerRef has no effect without tls.mode=cert-manager" }}
{{- end }}
{{- if and (eq $values.tls.mode "auto") (ne $values.upstream.kind "inCluster") }}
{{- fail (printf "tls.mode=auto needs upstream.kind=inCluster: the proxy keeps the certificate in a Secret of the API server in front of which it runs. With upstream.kind=%s set tls.mode=given or tls.mode=cert-manager" $values.upstream.kind) }}
{{- end }}
{{- if and $values.service.nodePort (eq $values.service.type "ClusterIP") }}
{{- fail "service.nodePort has no effect with service.type=ClusterIP" }}
{{- end }}
{{- include "kube-admission-proxy.validateRoutes" . }}
{{- if and $values.metrics.serviceMonitor.enabled $values.metrics.podMonitor.enabled }}
{{- fail "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled exclude each other: Prometheus would read each replica twice" }}
{{- end }}
{{- if and $values.networkPolicy.enabled $values.hostNetwork }}
{{- fail "networkPolicy.enabled has no effect with hostNetwork=true: a NetworkPolicy does not select pods of the host's network" }}
{{- end }}
{{- if eq (int $values.serving.port) (int $values.serving.healthPort) }}
{{- fail "serving.port and serving.healthPort must differ" }}
{{- end }}
{{- end }}

{{- define "kube-admission-proxy.validateRoutes" -}}
{{- $ingress := .Values.ingress }}
{{- $route := .Values.tlsRoute }}
{{- range $name, $enabled := dict "ingress" $ingress.enabled "tlsRoute" $route.enabled }}
{{- if and $enabled (or $.Values.webhook.only (not $.Values.deployment.enabled)) }}
{{- fail (printf "%s.enabled has no effect without a Service for clients: webhook.only and deployment.enabled=false leave it out" $name) }}
{{- end }}
{{- end }}
{{- if and $ingress.enabled (not $ingress.hosts) }}
{{- fail "ingress.enabled needs ingress.hosts: the controller chooses the Service by the TLS server name" }}
{{- end }}
{{- if and $ingress.enabled (not $ingress.annotations) }}
{{- fail "ingress.enabled needs ingress.annotations with the annotation by which the controller passes TLS through, such as nginx.ingress.kubernetes.io/ssl-passthrough" }}
{{- end }}
{{- if and $route.enabled (not (and $route.parentRefs $route.hostnames)) }}
{{- fail "tlsRoute.enabled needs tlsRoute.parentRefs and tlsRoute.hostnames: the Gateway chooses the Service by the TLS server name" }}
{{- end }}
{{- end }}

{{/* What the chart makes in the cluster needs pods in front of the cluster's API server. */}}
{{- define "kube-admission-proxy.validateInCluster" -}}
{{- $values := .Values }}
{{- $others := dict "guard" "print guard" "inject" "admission.pluginConfig.InClusterClients" "webhook" "print webhooks" }}
{{- range $name, $other := $others }}
{{- if and (index $values $name).enabled (not (include "kube-admission-proxy.hasRights" $)) }}
{{- fail (printf "%s.enabled needs upstream.kind=inCluster and deployment.enabled=true: the chart makes objects in the API server in front of which the proxy runs. Otherwise use `%s`" $name $other) }}
{{- end }}
{{- end }}
{{- if and $values.guard.enabled (eq $values.upstream.identity "passthrough") }}
{{- fail "guard.enabled does not work with upstream.identity=passthrough, which sends no mark" }}
{{- end }}
{{- if and $values.guard.enabled $values.webhook.only }}
{{- fail "guard.enabled does not work with webhook.only=true: no write goes through the proxy" }}
{{- end }}
{{- if $values.inject.enabled }}
{{- if hasKey $values.admission.pluginConfig "InClusterClients" }}
{{- fail "inject.enabled and admission.pluginConfig.InClusterClients exclude each other" }}
{{- end }}
{{- if or (has "InClusterClients" $values.admission.disablePlugins) $values.webhook.only }}
{{- fail "inject.enabled does not work with a disabled plugin InClusterClients, or with webhook.only=true" }}
{{- end }}
{{- end }}
{{- if and $values.inject.clusterAuthority (or (not $values.inject.enabled) (ne $values.tls.mode "given")) }}
{{- fail "inject.clusterAuthority has no effect without inject.enabled and tls.mode=given" }}
{{- end }}
{{- end }}

{{- define "kube-admission-proxy.validateWebhook" -}}
{{- $values := .Values }}
{{- $webhook := $values.webhook }}
{{- if and $webhook.only (not $webhook.enabled) }}
{{- fail "webhook.only has no effect without webhook.enabled" }}
{{- end }}
{{- if $webhook.enabled }}
{{- if eq $values.upstream.identity "passthrough" }}
{{- fail "webhook.enabled does not work with upstream.identity=passthrough: a review has no credentials of its user" }}
{{- end }}
{{- if $values.tenants.profiles }}
{{- fail "webhook.enabled does not work with tenants.profiles: reviews name no tenant" }}
{{- end }}
{{- $callers := $webhook.callers }}
{{- $hasClientCA := or $callers.clientCA.configMap $callers.clientCA.secret }}
{{- if not (or $hasClientCA $callers.tokenSecret.name $callers.anonymous) }}
{{- fail "webhook.enabled needs webhook.callers.clientCA, webhook.callers.tokenSecret or webhook.callers.anonymous: the API servers that may send reviews" }}
{{- end }}
{{- $network := $values.networkPolicy }}
{{- if and $callers.anonymous (not $callers.anonymousFromEverywhere) (not (and $network.enabled $network.apiServers)) }}
{{- fail "webhook.callers.anonymous needs networkPolicy.enabled and networkPolicy.apiServers, because everybody who reaches the front end may send reviews: name the addresses of the API server, as {\"ipBlock\":{\"cidr\":\"192.0.2.10/32\"}}. `kubectl get endpointslices --namespace default --selector kubernetes.io/service-name=kubernetes` prints them. If something else keeps all others away, set webhook.callers.anonymousFromEverywhere" }}
{{- end }}
{{- range $network.apiServers }}
{{- if and $callers.anonymous (not $callers.anonymousFromEverywhere) (hasSuffix "/0" (dig "ipBlock" "cidr" "" .)) }}
{{- fail "networkPolicy.apiServers has every address: with webhook.callers.anonymous everybody may send reviews. Name the addresses of the API server, or set webhook.callers.anonymousFromEverywhere" }}
{{- end }}
{{- end }}
{{- if and $callers.anonymousFromEverywhere (not $callers.anonymous) }}
{{- fail "webhook.callers.anonymousFromEverywhere has no effect without webhook.callers.anonymous" }}
{{- end }}
{{- if and $hasClientCA (not $callers.allowedNames) }}
{{- fail "webhook.callers.clientCA needs webhook.callers.allowedNames: the authorities may sign certificates of others than API servers" }}
{{- end }}
{{- if has (int $webhook.port) (list (int $values.serving.port) (int $values.serving.healthPort)) }}
{{- fail "webhook.port, serving.port and serving.healthPort must differ" }}
{{- end }}
{{- if and $webhook.caBundle (ne $values.tls.mode "given") }}
{{- fail (printf "webhook.caBundle has no effect with tls.mode=%s, whose authority the API server gets by itself" $values.tls.mode) }}
{{- end }}
{{- $enabled := include "kube-admission-proxy.plugins" . | fromYamlArray }}
{{- $data := .Files.Get "files/webhooks.yaml" | fromYaml }}
{{- range include "kube-admission-proxy.reviewingPlugins" . | fromYamlArray }}
{{- $plugin := get $data . | default (dict "frontEnd" "unknown") }}
{{- if ne $plugin.frontEnd "runs" }}
{{- fail (printf "webhook.plugins: %s cannot run in the front end; the page \"Webhook front end\" of the documentation lists the plugins" .) }}
{{- end }}
{{- if not (or $webhook.only (has . $enabled)) }}
{{- fail (printf "webhook.plugins: %s is not enabled: name it in admission.enablePlugins as well, or set webhook.only" .) }}
{{- end }}
{{- end }}
{{- else if $webhook.plugins }}
{{- fail "webhook.plugins has no effect without webhook.enabled" }}
{{- end }}
{{- end }}

{{- define "kube-admission-proxy.validatePlugins" -}}
{{- $admission := .Values.admission }}
{{- $known := (.Files.Get "files/rbac.yaml" | fromYaml).plugins }}
{{- range $tenant, $spec := .Values.tenants.profiles }}
{{- range dig "admission" "enablePlugins" list ($spec | default dict) }}
{{- if not (hasKey $known .) }}
{{- fail (printf "tenants.profiles.%s.admission.enablePlugins: %s is no plugin; `kube-admission-proxy plugins` lists all" $tenant .) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key, $names := dict "enablePlugins" $admission.enablePlugins "disablePlugins" $admission.disablePlugins }}
{{- range $names }}
{{- if not (hasKey $known .) }}
{{- fail (printf "admission.%s: %s is no plugin; `kube-admission-proxy plugins` lists all" $key .) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $admission.enablePlugins }}
{{- if has . $admission.disablePlugins }}
{{- fail (printf "%s is in admission.enablePlugins and in admission.disablePlugins" .) }}
{{- end }}
{{- end }}
{{- $enabled := include "kube-admission-proxy.plugins" . | fromYamlArray }}
{{- if .Values.webhook.only }}{{ $enabled = concat $enabled .Values.webhook.plugins }}{{ end }}
{{- range $plugin, $_ := merge (dict) $admission.pluginConfig $admission.manifests }}
{{- if not (has $plugin $enabled) }}
{{- fail (printf "the configuration of %s has no effect: the plugin is not enabled" $plugin) }}
{{- end }}
{{- end }}
{{- range $plugin, $_ := $admission.manifests }}
{{- if hasKey (get $admission.pluginConfig $plugin | default dict) "staticManifestsDir" }}
{{- fail (printf "admission.manifests.%s and staticManifestsDir in admission.pluginConfig.%s exclude each other" $plugin $plugin) }}
{{- end }}
{{- end }}
{{- if and $admission.manifests (hasKey $admission.featureGates "ManifestBasedAdmissionControlConfig") (not $admission.featureGates.ManifestBasedAdmissionControlConfig) }}
{{- fail "admission.manifests needs the feature gate ManifestBasedAdmissionControlConfig, which admission.featureGates turns off" }}
{{- end }}
{{- end }}

{{/* The plugins that the values name, as a YAML list. */}}
{{- define "kube-admission-proxy.enabledPlugins" -}}
{{- $names := .Values.admission.enablePlugins }}
{{- if .Values.inject.enabled }}{{ $names = append $names "InClusterClients" | uniq }}{{ end }}
{{- toYaml $names }}
{{- end }}

{{/* The names of the enabled plugins, as a YAML list in alphabetical order. */}}
{{- define "kube-admission-proxy.plugins" -}}
{{- $named := include "kube-admission-proxy.enabledPlugins" . | fromYamlArray }}
{{- $enabled := list }}
{{- range $name, $plugin := (.Files.Get "files/rbac.yaml" | fromYaml).plugins }}
{{- if or (has $name $named) (and $plugin.default (not (has $name $.Values.admission.disablePlugins))) }}
{{- $enabled = append $enabled $name }}
{{- end }}
{{- end }}
{{- toYaml $enabled }}
{{- end }}

{{/* The plugins of the webhook front end. */}}
{{- define "kube-admission-proxy.reviewingPlugins" -}}
{{- $reviewing := .Values.webhook.plugins }}
{{- if not $reviewing }}
{{- $data := .Files.Get "files/webhooks.yaml" | fromYaml }}
{{- range include "kube-admission-proxy.plugins" . | fromYamlArray }}
{{- if ne (index $data .).frontEnd "leftOut" }}{{ $reviewing = append $reviewing . }}{{ end }}
{{- end }}
{{- end }}
{{- toYaml $reviewing }}
{{- end }}

{{/* The plugins that run for somebody: those of the front end if it is alone, and those of all tenants. */}}
{{- define "kube-admission-proxy.runningPlugins" -}}
{{- if .Values.webhook.only }}
{{- include "kube-admission-proxy.reviewingPlugins" . }}
{{- else }}
{{- $running := include "kube-admission-proxy.plugins" . | fromYamlArray }}
{{- range .Values.tenants.profiles }}
{{- $running = concat $running (dig "admission" "enablePlugins" list (. | default dict)) }}
{{- end }}
{{- $running | uniq | sortAlpha | toYaml }}
{{- end }}
{{- end }}
