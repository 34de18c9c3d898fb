//! Monitors, rules and dashboard as templates of the chart.

use super::{
    MonitoringError, alerts, dashboard,
    files::{Places, pod_monitor, rule, service_monitor},
};
use fedgate_engine::metrics::Row;
use fedgate_manifests::{
    CELL, GATEWAY, NAMESPACE, RETURNS,
    helm::{Document, Template, Templates},
};
use serde_json::{Value, json};

/// Labels that the values add to monitors and rules.
const LABELS: &str = "{{- with .Values.monitoring.labels }}\n{{- toYaml . | nindent +0 }}\n{{- end }}";
const HOSTS: &str = "or (has \"host\" .Values.planes) (has \"cell-host\" .Values.planes) (has \"returns-host\" .Values.planes)";

/// All templates; `rows` are the metrics.
pub fn templates(rows: &[Row]) -> Result<Vec<Templates>, MonitoringError> {
    Ok(vec![monitors(), rules(rows)?, board(rows)?])
}

fn document(condition: &str, name: &'static str, component: &'static str, object: Value) -> Document {
    Document {
        condition: condition.to_owned(),
        name,
        component,
        labels: LABELS.to_owned(),
        annotations: "",
        object,
    }
}

/// Of the values; `role` names the Pods, which a scrape over TLS reaches by addresses that no certificate has.
fn places(role: &str, template: &mut Template) -> Places {
    Places {
        interval: template.value(".Values.monitoring.interval"),
        secret: template.value(".Values.admin.existingSecret"),
        endpoint: template.fields(format!(
            "{{{{- if .Values.admin.tls.secretName }}}}\nscheme: https\ntlsConfig:\n  serverName: {role}.{NAMESPACE}.svc\n  \
             ca:\n    secret:\n      name: {{{{ .Values.admin.tls.secretName }}}}\n      key: ca.crt\n{{{{- end }}}}"
        )),
    }
}

fn monitors() -> Templates {
    let mut template = Template::default();
    let gateway = places(GATEWAY, &mut template);
    let cell = places(CELL, &mut template);
    let returns = places(RETURNS, &mut template);
    let kind =
        |kind: &str| format!("and (has \"host\" .Values.planes) (eq .Values.monitoring.kind \"{kind}\")");
    let documents = vec![
        document(
            &kind("ServiceMonitor"),
            GATEWAY,
            "gateway",
            service_monitor(&gateway),
        ),
        document(
            &kind("PodMonitor"),
            GATEWAY,
            "gateway",
            pod_monitor(GATEWAY, &gateway),
        ),
        // The program has no Service.
        document(
            "and (has \"cell-host\" .Values.planes) (ne .Values.monitoring.kind \"none\")",
            CELL,
            "cell",
            pod_monitor(CELL, &cell),
        ),
        document(
            "and (has \"returns-host\" .Values.planes) (ne .Values.monitoring.kind \"none\")",
            RETURNS,
            "returns",
            pod_monitor(RETURNS, &returns),
        ),
    ];
    Templates {
        path: "monitoring/monitors.yaml".to_owned(),
        documents,
        template,
    }
}

/// Without a second replica on purpose, or without election, some rules would always fire.
fn rules(rows: &[Row]) -> Result<Templates, MonitoringError> {
    let mut template = Template::default();
    let runbooks = template.text("{{ .Values.monitoring.rules.runbookBase }}");
    let mut groups = alerts::groups(rows, &runbooks)?;
    let lacking = |condition: &str| {
        let of = |plane: &str, role: &str| {
            format!(
                "(and (has \"{plane}\" .Values.planes) ({}))",
                condition.replace("ROLE", role)
            )
        };
        format!(
            "{{{{- if not (or {} {} {}) }}}}",
            of("host", "gateway"),
            of("cell-host", "cell"),
            of("returns-host", "returns")
        )
    };
    let unelected = "eq (get .Values.ROLE.flags \"leader-elect\" | toString) \"false\"";
    for (alert, condition) in [
        ("FedgateNoStandby", "lt (int .Values.ROLE.replicas) 2"),
        ("FedgateNoLeader", unelected),
    ] {
        let Some(rules) = groups[0]["rules"].as_array_mut() else {
            continue;
        };
        if let Some(at) = rules.iter().position(|rule| rule["alert"] == alert) {
            rules.insert(at + 1, json!(template.lines("{{- end }}")));
            rules.insert(at, json!(template.lines(lacking(condition))));
        }
    }
    let condition = format!("and ({HOSTS}) .Values.monitoring.rules.enabled");
    Ok(Templates {
        path: "monitoring/rules.yaml".to_owned(),
        documents: vec![document(&condition, "fedgate", "monitoring", rule(&groups))],
        template,
    })
}

fn board(rows: &[Row]) -> Result<Templates, MonitoringError> {
    let text = format!("{:#}\n", dashboard::dashboard(rows)?);
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "fedgate-dashboard", "namespace": NAMESPACE, "labels": {"grafana_dashboard": "1"}},
        "data": {"fedgate.json": text},
    });
    let condition = format!("and ({HOSTS}) .Values.monitoring.dashboard.enabled");
    Ok(Templates {
        path: "monitoring/dashboard.yaml".to_owned(),
        documents: vec![Document {
            labels: String::new(),
            ..document(&condition, "fedgate", "monitoring", object)
        }],
        template: Template::default(),
    })
}
