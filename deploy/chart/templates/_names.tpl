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

{{- /* The rights that the settings need, by the parts that are generated from growth's own tables. */ -}}
{{- define "growth.rules" -}}
{{- $settings := .Values.settings -}}
{{- $provider := $settings.provider | default "kwok" -}}
{{- $file := .Files.Get (printf "generated/rules-%s.yaml" $provider) -}}
{{- if not $file }}{{ fail (printf "settings.provider: there is no provider %s" $provider) }}{{ end -}}
{{- $parts := $file | fromYaml -}}
{{- $off := splitList "," ($settings.featureGates | default "") -}}
{{- $buffers := not (has "CapacityBuffer=false" $off) -}}
{{- $warm := not (has "PoolAutoscaler=false" $off) -}}
{{- $rules := $parts.watch -}}
{{- if $buffers }}{{ $rules = concat $rules $parts.watchBuffers }}{{ end -}}
{{- if $warm }}{{ $rules = concat $rules $parts.watchWarmPools }}{{ end -}}
{{- $scheduler := dig "plans" "scheduler" dict $settings -}}
{{- $standsIn := or (dig "servesDefault" false $scheduler) (eq (dig "name" "growth" $scheduler) "default-scheduler") -}}
{{- if and (dig "enabled" false $scheduler) $standsIn }}{{ $rules = concat $rules $parts.watchKubeScheduler }}{{ end -}}
{{- if not $settings.observe }}
{{- $rules = concat $rules $parts.act -}}
{{- if $buffers }}{{ $rules = concat $rules $parts.actBuffers }}{{ end -}}
{{- if $warm }}{{ $rules = concat $rules $parts.actWarmPools }}{{ end -}}
{{- if dig "enabled" false $scheduler }}{{ $rules = concat $rules $parts.actScheduler }}{{ end -}}
{{- end }}
{{- if include "growth.exposedPagePort" . }}{{ $rules = concat $rules $parts.page }}{{ end -}}
{{- if $warm }}
{{- range dig "plans" "warmPools" "kinds" list $settings }}
{{- $scale := dict "apiGroups" (list .group) "resources" (list (printf "%s/scale" .plural)) -}}
{{- if .readsScale }}{{ $rules = append $rules (merge (dict "verbs" (list "get")) $scale) }}
{{- else }}{{ $rules = append $rules (dict "apiGroups" (list .group) "resources" (list .plural) "verbs" (list "list" "watch")) }}{{ end -}}
{{- if not $settings.observe }}{{ $rules = append $rules (merge (dict "verbs" (list "patch")) $scale) }}{{ end -}}
{{- end }}
{{- end }}
{{- toYaml $rules }}
{{- end }}

{{- define "growth.leaseRules" -}}
{{- $file := .Files.Get (printf "generated/rules-%s.yaml" (.Values.settings.provider | default "kwok")) -}}
{{- $rules := $file | replace "GROWTH_INSTALLATION" (.Values.settings.installation | default "growth") | fromYaml -}}
{{- toYaml $rules.lease }}
{{- end }}
