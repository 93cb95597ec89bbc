{{/* Makes the list .key of .on that of its items and .more, by the field .by: the later of two is taken. */}}
{{- define "fastqps.list" }}
{{- $items := dict }}
{{- range concat (get .on .key | default list) (.more | default list) }}
{{- $_ := set $items (get . $.by) . }}
{{- end }}
{{- $sorted := list }}
{{- range keys $items | sortAlpha }}
{{- $sorted = append $sorted (get $items .) }}
{{- end }}
{{- if $sorted }}{{ $_ := set .on .key $sorted }}{{ end }}
{{- end }}

{{/* Lays .patch, the spec of a Deployment, over .on, another one: as kustomize does, of what the patches here use. */}}
{{- define "fastqps.lay" }}
{{- $pod := .on.template.spec }}
{{- $container := first $pod.containers }}
{{- $patch := dig "template" "spec" dict .patch }}
{{- $own := first ($patch.containers | default (list dict)) }}
{{- include "fastqps.list" (dict "on" $container "key" "env" "by" "name" "more" $own.env) }}
{{- include "fastqps.list" (dict "on" $container "key" "volumeMounts" "by" "mountPath" "more" $own.volumeMounts) }}
{{- include "fastqps.list" (dict "on" $pod "key" "volumes" "by" "name" "more" $patch.volumes) }}
{{- $_ := mergeOverwrite $container (omit $own "env" "volumeMounts") }}
{{- $_ := mergeOverwrite $pod (omit $patch "containers" "volumes") }}
{{- $_ := mergeOverwrite .on (omit .patch "template") }}
{{- end }}

{{/* The object .thing, with the labels and the namespace of the release .of. */}}
{{- define "fastqps.object" }}
{{- $labels := dict "app.kubernetes.io/part-of" "fastqps" }}
{{- $_ := set .thing.metadata "labels" (mergeOverwrite $labels (.thing.metadata.labels | default dict) .of.Values.labels) }}
{{- if ne .thing.kind "PriorityClass" }}{{ $_ := set .thing.metadata "namespace" .of.Release.Namespace }}{{ end }}
---
{{ toYaml .thing }}
{{- end }}

{{/* The ConfigMap .name, with .data, of the release .of. */}}
{{- define "fastqps.map" }}
{{- $metadata := dict "name" .name "labels" (.labels | default dict) }}
{{- $thing := dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" $metadata "data" .data }}
{{- include "fastqps.object" (dict "thing" $thing "of" .of) }}
{{- end }}
