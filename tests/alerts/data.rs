//! Alerts and dashboard as they are in `manifests/monitoring`.

use crate::monitoring;
use serde_json::Value;
use std::{fs, sync::LazyLock};

/// An alert.
#[derive(Debug)]
pub(crate) struct Alert {
    /// Name of the alert and of its runbook.
    pub(crate) name: String,
    /// Expression of `PromQL` that is true while the alert is due.
    pub(crate) expression: String,
    /// Time for which the expression has to be true, as a duration of Prometheus.
    pub(crate) after: String,
    /// Urgency: critical, warning or info.
    pub(crate) severity: String,
    /// The whole rule.
    pub(crate) rule: Value,
}

/// A panel, or a row of panels.
#[derive(Debug)]
pub(crate) struct Panel {
    /// Title.
    pub(crate) title: String,
    /// Expressions; a row has none.
    pub(crate) expressions: Vec<String>,
    /// The whole panel.
    pub(crate) whole: Value,
}

/// All alerts.
pub(crate) static ALERTS: LazyLock<Vec<Alert>> = LazyLock::new(|| {
    let text = fs::read_to_string(monitoring("alerts.yaml")).unwrap();
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    let [group] = file["groups"].as_array().unwrap().as_slice() else {
        panic!("alerts are in one group");
    };
    let rules = group["rules"].as_array().unwrap().iter();
    let alert = |rule: &Value| Alert {
        name: text_of(&rule["alert"]),
        expression: text_of(&rule["expr"]),
        after: text_of(&rule["for"]),
        severity: text_of(&rule["labels"]["severity"]),
        rule: rule.clone(),
    };
    rules.map(alert).collect()
});

/// The dashboard.
pub(crate) static DASHBOARD: LazyLock<Value> = LazyLock::new(|| {
    let text = fs::read_to_string(monitoring("dashboard.json")).unwrap();
    serde_json::from_str(&text).unwrap()
});

/// All panels and rows of the dashboard.
pub(crate) static PANELS: LazyLock<Vec<Panel>> = LazyLock::new(|| {
    let panels = DASHBOARD["panels"].as_array().unwrap().iter();
    let panel = |panel: &Value| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        Panel {
            title: text_of(&panel["title"]),
            expressions: targets.map(|target| text_of(&target["expr"])).collect(),
            whole: panel.clone(),
        }
    };
    panels.map(panel).collect()
});

fn text_of(value: &Value) -> String {
    let text = value.as_str();
    text.unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
