{{- define "berth.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- end }}

{{- define "berth.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "berth.labels" -}}
{{ include "berth.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: scheduler
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "berth.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "berth.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ required "serviceAccount.name must name an account where serviceAccount.create is false" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "berth.workload" -}}
{{- if not .Values.persistence.enabled }}Deployment
{{- else if or .Values.volumes.cache .Values.volumes.state }}{{ fail "persistence.enabled and volumes exclude each other" }}
{{- else }}StatefulSet{{ end }}
{{- end }}

{{- define "berth.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{- /* The whole KubeSchedulerConfiguration. */ -}}
{{- define "berth.configuration" -}}
{{- $lease := ternary (dict "resourceName" "kube-scheduler" "resourceNamespace" "kube-system") (dict "resourceName" (include "berth.fullname" .) "resourceNamespace" .Release.Namespace) .Values.inKubeSchedulersPlace }}
{{- $profile := dict "schedulerName" (ternary "default-scheduler" .Values.schedulerName .Values.inKubeSchedulersPlace) }}
{{- $own := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" "leaderElection" $lease "profiles" (list $profile) }}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.configuration)) }}
{{- end }}
