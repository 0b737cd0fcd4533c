{{- define "berth.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- end }}

{{- define "berth.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* The labels of every object. */ -}}
{{- define "berth.labels" -}}
{{- include "berth.labelsWith" (list . (dict)) }}
{{- end }}

{{- /* The same with further labels, which are the second value of the list. None of them replaces a label of the selectors. */ -}}
{{- define "berth.labelsWith" -}}
{{- $root := first . }}
{{- $chart := printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- $own := dict "app.kubernetes.io/version" $root.Chart.AppVersion "app.kubernetes.io/component" "scheduler" }}
{{- $own = merge $own (dict "app.kubernetes.io/managed-by" $root.Release.Service "helm.sh/chart" $chart) }}
{{- $selected := include "berth.selectorLabels" $root | fromYaml }}
{{- toYaml (mergeOverwrite $own (deepCopy $root.Values.commonLabels) (deepCopy (last .)) $selected) }}
{{- end }}

{{- define "berth.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "berth.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ required "serviceAccount.name must name an account where serviceAccount.create is false" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "berth.workload" -}}
{{- if not .Values.persistence.enabled }}Deployment
{{- else if or .Values.volumes.cache .Values.volumes.state }}{{ fail "persistence.enabled and volumes exclude each other" }}
{{- else }}StatefulSet{{ end }}
{{- if and (gt (int .Values.replicas) 1) (hasKey .Values.volumes.state "persistentVolumeClaim") }}
{{- fail "volumes.state is one claim for several replicas, and each replica needs its own state: use persistence.enabled" }}
{{- end }}
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

{{- /* The part of the configuration that a running replica does not take from a changed file. Empty where no value sets it. */ -}}
{{- define "berth.fixedConfiguration" -}}
{{- $fixed := pick .Values.configuration "leaderElection" "delayCacheUntilActive" }}
{{- with omit (default dict .Values.configuration.clientConnection) "qps" "burst" }}
{{- $_ := set $fixed "clientConnection" . }}
{{- end }}
{{- with $fixed }}
{{- toJson . }}
{{- end }}
{{- end }}
