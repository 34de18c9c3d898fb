{{- /* Labels of an object: the root, the label app.kubernetes.io/name, the component. Selectors use the name alone. */}}
{{- define "fedgate.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/component: {{ index . 2 }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: fedgate
app.kubernetes.io/version: {{ $root.Chart.AppVersion | replace "+" "_" | trunc 63 | quote }}
{{- end }}

{{- /*
The objects of a generated file: the root, the path of the file, the component. Namespace fedgate-system is left out,
because templates/namespace.yaml has it. An uninstall leaves Namespaces and definitions, because it would take Secrets and
tenants' objects along.
*/}}
{{- define "fedgate.objects" -}}
{{- $root := index . 0 }}
{{- $labels := include "fedgate.labels" (list $root "fedgate" (index . 2)) | fromYaml }}
{{- range $document := $root.Files.Get (index . 1) | splitList "\n---\n" }}
{{- $object := fromYaml $document }}
{{- $metadata := $object.metadata }}
{{- if ne (printf "%s %s" $object.kind $metadata.name) "Namespace fedgate-system" }}
{{- $_ := set $metadata "labels" (merge dict $labels ($metadata.labels | default dict)) }}
{{- if has $object.kind (list "Namespace" "CustomResourceDefinition") }}
{{- $keep := dict "helm.sh/resource-policy" "keep" }}
{{- $_ := set $metadata "annotations" (merge $keep ($metadata.annotations | default dict)) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The Namespace of the Pods of this release; empty if it has none. The schema keeps the provisioner apart. */}}
{{- define "fedgate.podNamespace" -}}
{{- if or (has "host" .Values.planes) (has "cell-host" .Values.planes) (has "returns-host" .Values.planes) -}}
fedgate-system
{{- else if has "provisioner-host" .Values.planes -}}
fedgate-provisioner
{{- end -}}
{{- end }}

{{- /* A digest wins over a tag. */}}
{{- define "fedgate.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* A schema cannot compare two values. */}}
{{- define "fedgate.probePort" -}}
{{- with .Values.admin -}}
{{- if eq (int .port) (int .probePort) -}}
{{- fail (printf "admin.port and admin.probePort are both %d: give each a port of its own" (int .port)) -}}
{{- end -}}
{{ .probePort }}
{{- end -}}
{{- end }}

{{- /* Flags as arguments. Numbers of a file of values are floating-point numbers, which Helm prints as 1e+06. */}}
{{- define "fedgate.flags" -}}
{{- range $flag, $value := . }}
{{- $all := kindIs "slice" $value | ternary $value (list $value) }}
{{- range $one := $all }}
{{- $text := kindIs "float64" $one | ternary (int64 $one) $one }}
{{ printf "- %s" (printf "--%s=%v" $flag $text | quote) }}
{{- end }}
{{- end }}
{{- end }}
