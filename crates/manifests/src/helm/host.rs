//! The Pods of gateway and cell as templates.

use super::{Document, Template, Templates, any};
use crate::{
    ManifestError, OPERATOR,
    deployment::{
        self, CELL_ROLE, GATEWAY_ROLE, Places, RETURNS_ROLE, Role, admin_flags, cell_name, cell_name_flag,
        hub_flag, mount, own_namespace, project_secrets, spread_over, tcp, volume,
    },
    rbac,
};
use serde_json::{Map, Value, json};

/// Name of the volume of `projects.existingSecret`.
const PROJECTS: &str = "projects";
/// Volume of the token for projects whose API servers accept the tokens of the host's cluster.
const PROJECT_TOKEN: &str = "project-token";

/// Templates of the roles, and of the operators' Role that all share.
pub(super) fn templates() -> Result<Vec<Templates>, ManifestError> {
    Ok(vec![
        operator(),
        role(&GATEWAY_ROLE, "host")?,
        role(&CELL_ROLE, "cell-host")?,
        role(&RETURNS_ROLE, "returns-host")?,
    ])
}

fn operator() -> Templates {
    let mut template = Template::default();
    let secret = template.text("{{ .Values.admin.existingSecret }}");
    let subjects = template.yaml(".Values.operator.subjects");
    let hosts = any(&["host", "cell-host", "returns-host"]);
    let document = |condition: String, object| Document {
        condition,
        name: "fedgate",
        component: "operator",
        labels: String::new(),
        annotations: "",
        object,
    };
    Templates {
        path: "host/operator.yaml".to_owned(),
        documents: vec![
            document(hosts.clone(), rbac::operator(&secret)),
            document(
                format!("and ({hosts}) .Values.operator.subjects"),
                rbac::role_binding(OPERATOR, &subjects),
            ),
        ],
        template,
    }
}

fn role(role: &Role, plane: &'static str) -> Result<Templates, ManifestError> {
    let mut template = Template::default();
    let places = places(role, &mut template)?;
    let is_policy = |object: &Value| object["kind"] == "NetworkPolicy";
    let documents = deployment::objects(role, &places)
        .into_iter()
        .map(|object| {
            let here = any(&[plane]);
            Document {
                condition: if is_policy(&object) {
                    format!("and ({here}) .Values.networkPolicy.enabled")
                } else {
                    here
                },
                name: role.name,
                component: role.command,
                labels: String::new(),
                annotations: "",
                object,
            }
        })
        .collect();
    Ok(Templates {
        path: format!("{plane}/{}.yaml", role.command),
        documents,
        template,
    })
}

/// The open places with the values of the chart.
fn places(role: &Role, template: &mut Template) -> Result<Places, ManifestError> {
    let values = format!(".Values.{}", role.command);
    let port = template.text("{{ .Values.admin.port }}");
    let probe_port = template.text("{{ include \"fedgate.probePort\" . }}");
    Ok(Places {
        replicas: template.value(&format!("{values}.replicas")),
        image: template.value("include \"fedgate.image\" . | quote"),
        container: container(role, template)?,
        resources: template.yaml(&format!("{values}.resources")),
        args: args(role, [&port, &probe_port], template)?,
        port: json!(port),
        probe_port: json!(probe_port),
        pod: pod(&values, template),
        security: template.fields("{{- with .Values.fsGroup }}\nfsGroup: {{ int64 . }}\n{{- end }}"),
        spread: json!([json!(spread(role, template)?)]),
        volumes: volumes(role, template)?,
        mounts: mounts(role, template)?,
        from: from(template),
        to: to(template),
        api_server_ports: json!([ports(template)?]),
        egress: vec![json!(template.lines(
            "{{- with .Values.networkPolicy.extraEgress }}\n{{- toYaml . | nindent +0 }}\n{{- end }}"
        ))],
    })
}

/// An entry of a list that only a role with a hub has; all but a cell always have one.
fn with_hub(role: &Role, entry: Value, template: &mut Template) -> Result<Value, ManifestError> {
    if role.command != CELL_ROLE.command {
        return Ok(entry);
    }
    let mark = template.when(".Values.hub.existingSecret", &json!([entry]))?;
    Ok(json!(mark))
}

fn container(role: &Role, template: &mut Template) -> Result<Map<String, Value>, ManifestError> {
    let mut fields =
        template.fields("{{- with .Values.image.pullPolicy }}\nimagePullPolicy: {{ . }}\n{{- end }}");
    if role.is_at_member() {
        let env = json!({"env": cell_name()});
        let mark = template.when("and .Values.hub.existingSecret (not .Values.cell.name)", &env)?;
        fields.insert(mark, Value::Null);
    }
    Ok(fields)
}

fn args(
    role: &Role,
    [port, probes]: [&str; 2],
    template: &mut Template,
) -> Result<Vec<Value>, ManifestError> {
    let mut args = Vec::new();
    let when = |condition: &str, args: Value, template: &mut Template| -> Result<Value, ManifestError> {
        template.when(condition, &args).map(Value::from)
    };
    args.push(with_hub(role, hub_flag(), template)?);
    if role.is_at_member() {
        let named = json!([format!("--name={}", template.text("{{ .Values.cell.name }}"))]);
        args.push(when(".Values.cell.name", named, template)?);
        let unnamed = "and .Values.hub.existingSecret (not .Values.cell.name)";
        args.push(when(unnamed, json!([cell_name_flag()]), template)?);
    } else {
        let mode = template.text("{{ .Values.projects.mode }}");
        args.push(json!(format!("--project-mode={mode}")));
        args.extend(projects(template)?);
        let hub = json!(["--admin-auth=hub"]);
        args.push(when("eq .Values.admin.auth \"hub\"", hub, template)?);
    }
    args.extend(own_namespace(role));
    args.extend(admin_flags(port, probes));
    let tls = json!(["--admin-tls-directory=/etc/fedgate/tls"]);
    args.push(when(".Values.admin.tls.secretName", tls, template)?);
    let flags = format!(
        "{{{{- include \"fedgate.flags\" .Values.{}.flags | trim | nindent +0 }}}}",
        role.command
    );
    let any = format!(
        "{{{{- if .Values.{}.flags }}}}\n{flags}\n{{{{- end }}}}",
        role.command
    );
    args.push(json!(template.lines(any)));
    Ok(args)
}

/// The flags of the gateway's source of projects, by its mode.
fn projects(template: &mut Template) -> Result<Vec<Value>, ManifestError> {
    let namespace = template.text("{{ .Values.projects.secretsNamespace }}");
    let rows = [
        (
            "eq .Values.projects.mode \"secrets\"",
            project_secrets(&namespace),
        ),
        (
            "and (eq .Values.projects.mode \"secrets\") .Values.projects.existingSecret",
            json!("--project-secrets-kubeconfig=/etc/fedgate/projects/kubeconfig"),
        ),
        (
            "eq .Values.projects.mode \"directory\"",
            json!("--project-directory=/etc/fedgate/projects"),
        ),
        (
            "eq .Values.projects.mode \"single\"",
            json!("--project-kubeconfig=/etc/fedgate/projects/kubeconfig"),
        ),
        (
            "and (eq .Values.projects.mode \"milo\") .Values.projects.existingSecret",
            json!("--project-kubeconfig=/etc/fedgate/projects/kubeconfig"),
        ),
    ];
    rows.into_iter()
        .map(|(condition, flag)| template.when(condition, &json!([flag])).map(Value::from))
        .collect()
}

/// Where the Pods may run.
fn pod(values: &str, template: &mut Template) -> Map<String, Value> {
    let mut fields = template.fields(
        "{{- with .Values.image.pullSecrets }}\nimagePullSecrets:\n{{- range . }}\n- name: {{ . }}\n{{- end }}\n{{- end }}",
    );
    for field in ["nodeSelector", "tolerations", "affinity"] {
        fields.extend(template.fields(format!(
            "{{{{- with {values}.{field} }}}}\n{field}: {{{{- toYaml . | nindent +2 }}}}\n{{{{- end }}}}"
        )));
    }
    fields.extend(template.fields(format!(
        "{{{{- with {values}.priorityClassName }}}}\npriorityClassName: {{{{ . }}}}\n{{{{- end }}}}"
    )));
    fields
}

fn spread(role: &Role, template: &mut Template) -> Result<String, ManifestError> {
    let field = |name: &str, template: &mut Template| template.value(&format!(".{name}"));
    let (key, unsatisfiable, skew) = (
        field("topologyKey", template),
        field("whenUnsatisfiable", template),
        field("maxSkew | default 1", template),
    );
    let one = crate::to_yaml("spread", &json!([spread_over(role, &key, &unsatisfiable, &skew)]))?;
    Ok(template.lines(format!(
        "{{{{- range .Values.topologySpread }}}}\n{one}{{{{- end }}}}"
    )))
}

fn volumes(role: &Role, template: &mut Template) -> Result<Vec<Value>, ManifestError> {
    let hub = volume("hub", &template.text("{{ .Values.hub.existingSecret }}"));
    let admin = volume("admin", &template.text("{{ .Values.admin.existingSecret }}"));
    let tls = volume("tls", &template.text("{{ .Values.admin.tls.secretName }}"));
    let mut volumes = vec![with_hub(role, hub, template)?, admin];
    volumes.push(json!(
        template.when(".Values.admin.tls.secretName", &json!([tls]))?
    ));
    if role.command == GATEWAY_ROLE.command {
        let projects = volume(PROJECTS, &template.text("{{ .Values.projects.existingSecret }}"));
        volumes.push(json!(
            template.when(".Values.projects.existingSecret", &json!([projects]))?
        ));
        let token = token_volume(&template.value(".Values.projects.tokenAudience | quote"));
        volumes.push(json!(
            template.when(".Values.projects.tokenAudience", &json!([token]))?
        ));
    }
    let more = format!(
        "{{{{- range .Values.{}.extraVolumes }}}}\n- name: {{{{ .name }}}}\n  {{{{- toYaml .source | nindent +0 }}}}\n\
         {{{{- end }}}}",
        role.command
    );
    volumes.push(json!(template.lines(more)));
    Ok(volumes)
}

/// A token of the Pod's service account for other API servers than its own cluster's.
fn token_volume(audience: &Value) -> Value {
    json!({"name": PROJECT_TOKEN, "projected": {"defaultMode": 0o440, "sources": [
        {"serviceAccountToken": {"audience": audience, "expirationSeconds": 3600, "path": "token"}}]}})
}

fn mounts(role: &Role, template: &mut Template) -> Result<Vec<Value>, ManifestError> {
    let mut mounts = vec![
        with_hub(role, mount("hub"), template)?,
        mount("admin"),
        json!(template.when(".Values.admin.tls.secretName", &json!([mount("tls")]))?),
    ];
    if role.command == GATEWAY_ROLE.command {
        mounts.push(json!(
            template.when(".Values.projects.existingSecret", &json!([mount(PROJECTS)]))?
        ));
        mounts.push(json!(
            template.when(".Values.projects.tokenAudience", &json!([mount(PROJECT_TOKEN)]))?
        ));
    }
    let more = format!(
        "{{{{- range .Values.{}.extraVolumes }}}}\n- name: {{{{ .name }}}}\n  mountPath: {{{{ .mountPath }}}}\n  \
         readOnly: true\n{{{{- end }}}}",
        role.command
    );
    mounts.push(json!(template.lines(more)));
    Ok(mounts)
}

/// Any peer may ask, unless the values name some.
fn from(template: &mut Template) -> Map<String, Value> {
    template.fields(
        "{{- with concat .Values.networkPolicy.scrapeFrom .Values.networkPolicy.consoleFrom }}\nfrom:\n\
         {{- toYaml . | nindent +0 }}\n{{- end }}",
    )
}

/// API servers are anywhere, unless the values name their addresses.
fn to(template: &mut Template) -> Map<String, Value> {
    template.fields(
        "{{- with .Values.networkPolicy.apiServerCIDRs }}\nto:\n{{- range . }}\n- ipBlock:\n    cidr: {{ . }}\n\
         {{- end }}\n{{- end }}",
    )
}

fn ports(template: &mut Template) -> Result<Value, ManifestError> {
    let port = template.value(".");
    let one = crate::to_yaml("ports", &json!([tcp(&port)]))?;
    let lines = format!("{{{{- range .Values.networkPolicy.apiServerPorts }}}}\n{one}{{{{- end }}}}");
    Ok(json!(template.lines(lines)))
}
