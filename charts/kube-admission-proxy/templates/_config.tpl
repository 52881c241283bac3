{{/* The files of the configuration. */}}

{{- define "kube-admission-proxy.kubeconfig" -}}
apiVersion: v1
kind: Config
clusters:
  - name: upstream
    cluster:
      server: {{ .Values.upstream.server | quote }}
      certificate-authority: /etc/kube-admission-proxy/upstream/ca.crt
users:
  - name: proxy
    user:
      tokenFile: /etc/kube-admission-proxy/upstream/token
contexts:
  - name: upstream
    context: {cluster: upstream, user: proxy}
current-context: upstream
{{- end }}

{{/* The file with the authorities that in-cluster clients need, or nothing. */}}
{{- define "kube-admission-proxy.authorityOfClients" -}}
{{- if and .Values.inject.enabled (not .Values.inject.clusterAuthority) }}
{{- ternary "/etc/kube-admission-proxy/authority/ca.crt" "/etc/kube-admission-proxy/tls/ca.crt" (eq .Values.tls.mode "auto") }}
{{- end }}
{{- end }}

{{/* The configurations of plugins by name, as YAML. */}}
{{- define "kube-admission-proxy.pluginConfig" -}}
{{- $configurations := deepCopy .Values.admission.pluginConfig }}
{{- if .Values.inject.enabled }}
{{- $clients := dict "apiVersion" "config.kube-admission-proxy.dev/v1alpha1" "kind" "InClusterClientsConfiguration" "host" (printf "%s.%s.svc" (include "kube-admission-proxy.fullname" .) .Release.Namespace) "port" (int .Values.service.port) }}
{{- with include "kube-admission-proxy.authorityOfClients" . }}{{ $_ := set $clients "certificateAuthority" . }}{{ end }}
{{- $_ := set $configurations "InClusterClients" $clients }}
{{- end }}
{{- toYaml $configurations }}
{{- end }}

{{/* The AdmissionConfiguration, or nothing. */}}
{{- define "kube-admission-proxy.admissionConfiguration" -}}
{{- $admission := .Values.admission }}
{{- $kinds := dict "MutatingAdmissionWebhook" "WebhookAdmissionConfiguration" "ValidatingAdmissionWebhook" "WebhookAdmissionConfiguration" "MutatingAdmissionPolicy" "MutatingAdmissionPolicyConfiguration" "ValidatingAdmissionPolicy" "ValidatingAdmissionPolicyConfiguration" }}
{{- $configurations := include "kube-admission-proxy.pluginConfig" . | fromYaml }}
{{- $plugins := list }}
{{- range $name := keys $configurations $admission.manifests | uniq | sortAlpha }}
{{- $configuration := deepCopy (get $configurations $name | default dict) }}
{{- if hasKey $admission.manifests $name }}
{{- $folder := dict "apiVersion" "apiserver.config.k8s.io/v1" "kind" (get $kinds $name) "staticManifestsDir" (printf "/etc/kube-admission-proxy/manifests/%s" $name) }}
{{- $configuration = merge $configuration $folder }}
{{- end }}
{{- $plugins = append $plugins (dict "name" $name "configuration" $configuration) }}
{{- end }}
{{- if $plugins }}
{{- toYaml (dict "apiVersion" "apiserver.config.k8s.io/v1" "kind" "AdmissionConfiguration" "plugins" $plugins) }}
{{- end }}
{{- end }}

{{/* The data of the ConfigMap of files that the proxy reads at its start, or nothing. */}}
{{- define "kube-admission-proxy.files" -}}
{{- $files := dict }}
{{- if eq .Values.upstream.kind "inCluster" }}
{{- $_ := set $files "kubeconfig" (printf "%s\n" (include "kube-admission-proxy.kubeconfig" .)) }}
{{- end }}
{{- with include "kube-admission-proxy.admissionConfiguration" . }}
{{- $_ := set $files "admission.yaml" (printf "%s\n" .) }}
{{- end }}
{{- with .Values.audit.policy }}
{{- $_ := set $files "audit-policy.yaml" (printf "%s\n" (toYaml .)) }}
{{- end }}
{{- with $files }}{{ toYaml . }}{{ end }}
{{- end }}
