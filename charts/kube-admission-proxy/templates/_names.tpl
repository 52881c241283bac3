{{/* Names and labels. */}}

{{- define "kube-admission-proxy.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "kube-admission-proxy.fullname" -}}
{{- $name := include "kube-admission-proxy.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "kube-admission-proxy.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kube-admission-proxy.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kube-admission-proxy.labels" -}}
{{ include "kube-admission-proxy.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The name of a cluster-scoped object, which two releases in two namespaces must not share. */}}
{{- define "kube-admission-proxy.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "kube-admission-proxy.fullname" .) }}
{{- end }}

{{/* The same for kinds whose names are DNS names. */}}
{{- define "kube-admission-proxy.clusterObjectName" -}}
{{- printf "%s-%s" .Release.Namespace (include "kube-admission-proxy.fullname" .) }}
{{- end }}

{{- define "kube-admission-proxy.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "kube-admission-proxy.fullname" .) }}
{{- end }}

{{- define "kube-admission-proxy.tlsSecret" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "kube-admission-proxy.fullname" .)) }}
{{- end }}

{{- define "kube-admission-proxy.image" -}}
{{- $image := .Values.image }}
{{- $path := $image.repository }}
{{- with $image.registry }}{{ $path = printf "%s/%s" . $path }}{{ end }}
{{- if $image.digest }}
{{- printf "%s@%s" $path $image.digest }}
{{- else }}
{{- printf "%s:%s" $path ($image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* Whether the pods use the service account at the API server of the cluster: "true" or nothing. */}}
{{- define "kube-admission-proxy.hasRights" -}}
{{- if and .Values.deployment.enabled (eq .Values.upstream.kind "inCluster") }}true{{ end }}
{{- end }}

{{/* The user of the pods at the API server of the cluster. */}}
{{- define "kube-admission-proxy.user" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "kube-admission-proxy.serviceAccountName" .) }}
{{- end }}

{{/* The service account that forwards requests, or nothing. */}}
{{- define "kube-admission-proxy.impersonator" -}}
{{- $upstream := .Values.upstream }}
{{- if and (include "kube-admission-proxy.hasRights" .) $upstream.impersonator.create (eq $upstream.identity "impersonate") (not .Values.webhook.only) }}
{{- $upstream.impersonator.name | default (printf "%s-impersonator" (include "kube-admission-proxy.fullname" .)) }}
{{- end }}
{{- end }}

{{/* The mark of admitted requests, or nothing. */}}
{{- define "kube-admission-proxy.admittedMark" -}}
{{- if .Values.upstream.admittedMark }}
{{- .Values.upstream.admittedMark }}
{{- else if .Values.guard.enabled }}
{{- printf "%s/%s" .Release.Namespace (include "kube-admission-proxy.fullname" .) }}
{{- end }}
{{- end }}

{{/* The hosts by which clients outside of the cluster reach the proxy, as a YAML list. */}}
{{- define "kube-admission-proxy.publicNames" -}}
{{- $names := .Values.tls.dnsNames }}
{{- if .Values.ingress.enabled }}{{ $names = concat $names .Values.ingress.hosts }}{{ end }}
{{- if .Values.tlsRoute.enabled }}{{ $names = concat $names .Values.tlsRoute.hostnames }}{{ end }}
{{- $names | uniq | toYaml }}
{{- end }}

{{/* The DNS names of the Services, as a YAML list. */}}
{{- define "kube-admission-proxy.serviceNames" -}}
{{- $fullname := include "kube-admission-proxy.fullname" . }}
{{- $services := ternary (list) (list $fullname) .Values.webhook.only }}
{{- if .Values.webhook.enabled }}{{ $services = append $services (printf "%s-webhook" $fullname) }}{{ end }}
{{- range $services }}
- {{ . }}
- {{ . }}.{{ $.Release.Namespace }}
- {{ . }}.{{ $.Release.Namespace }}.svc
{{- end }}
{{- end }}
