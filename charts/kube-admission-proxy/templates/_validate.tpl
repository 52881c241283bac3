{{/* Refuses combinations of values that the schema cannot refuse. Included by configmap.yaml, which every release has. */}}
{{- define "kube-admission-proxy.validate" -}}
{{- $values := .Values }}
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
{{- range $name, $from := dict "clientCA" $values.authentication.clientCA "requestHeader" $values.authentication.requestHeader }}
{{- if and $from.configMap $from.secret }}
{{- fail (printf "authentication.%s.configMap and authentication.%s.secret exclude each other" $name $name) }}
{{- end }}
{{- end }}
{{- $header := $values.authentication.requestHeader }}
{{- if and (or $header.allowedNames $header.usernameHeaders $header.uidHeaders $header.groupHeaders $header.extraHeadersPrefix) (not (or $header.configMap $header.secret)) }}
{{- fail "authentication.requestHeader has no effect without authentication.requestHeader.configMap or authentication.requestHeader.secret" }}
{{- end }}
{{- if and $values.audit.volume (not $values.audit.policy) }}
{{- fail "audit.volume has no effect without audit.policy" }}
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
{{- if and $values.networkPolicy.enabled $values.hostNetwork }}
{{- fail "networkPolicy.enabled has no effect with hostNetwork=true: a NetworkPolicy does not select pods of the host's network" }}
{{- end }}
{{- if eq (int $values.serving.port) (int $values.serving.healthPort) }}
{{- fail "serving.port and serving.healthPort must differ" }}
{{- end }}
{{- end }}

{{- define "kube-admission-proxy.validatePlugins" -}}
{{- $admission := .Values.admission }}
{{- $known := (.Files.Get "files/rbac.yaml" | fromYaml).plugins }}
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

{{/* The names of the enabled plugins, as a YAML list in alphabetical order. */}}
{{- define "kube-admission-proxy.plugins" -}}
{{- $admission := .Values.admission }}
{{- $enabled := list }}
{{- range $name, $plugin := (.Files.Get "files/rbac.yaml" | fromYaml).plugins }}
{{- if or (has $name $admission.enablePlugins) (and $plugin.default (not (has $name $admission.disablePlugins))) }}
{{- $enabled = append $enabled $name }}
{{- end }}
{{- end }}
{{- toYaml $enabled }}
{{- end }}
