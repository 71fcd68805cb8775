{{- /* What things are called, and what they have in common. */ -}}

{{- define "growth.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "growth.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "growth.name" .) }}
{{- end }}

{{- define "growth.selector" -}}
app.kubernetes.io/name: growth
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "growth.labels" -}}
{{ include "growth.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "growth.image" -}}
{{- $repository := required "image.repository: name the image that you built from deploy/Dockerfile" .Values.image.repository -}}
{{- if .Values.image.digest }}{{ printf "%s@%s" $repository .Values.image.digest }}{{ else }}{{ printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) }}{{ end }}
{{- end }}

{{- define "growth.port" -}}
{{- .Values.settings.listenPort | default 8080 | int }}
{{- end }}

{{- /* The port of the page, if others than the pod itself may reach it; else nothing. */ -}}
{{- define "growth.exposedPagePort" -}}
{{- $page := .Values.settings.page | default dict -}}
{{- if and (ne (get $page "enabled" | toString) "false") (not (has ($page.host | default "127.0.0.1") (list "127.0.0.1" "localhost" "::1"))) -}}
{{- $page.port | default 8081 | int }}
{{- end }}
{{- end }}

{{- /* The settings file: what the chart knows by itself, and over it what the values say. */ -}}
{{- define "growth.settings" -}}
{{- $known := dict "listenHost" "0.0.0.0" }}
{{- if .Values.catalogue }}{{ $_ := set $known "catalogue" "/etc/growth/catalogue.yaml" }}{{ end }}
{{- $fixed := dict "namespace" .Release.Namespace "listenPort" (include "growth.port" . | int) }}
{{- toYaml (mergeOverwrite $known (deepCopy .Values.settings) $fixed) }}
{{- end }}

{{- /* The rights of the provider, as generated from growth's own tables. */ -}}
{{- define "growth.rules" -}}
{{- $provider := .Values.settings.provider | default "kwok" -}}
{{- $rules := .Files.Get (printf "generated/rules-%s.yaml" $provider) -}}
{{- if not $rules }}{{ fail (printf "settings.provider: there is no provider %s" $provider) }}{{ end -}}
{{- $rules }}
{{- end }}
