//! The alerts.

use super::{MonitoringError, promql};
use Severity::{Critical, Info, Warning};
use fedgate_engine::metrics::Row;
use serde_json::{Map, Value, json};

/// How urgent an alert is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Tenants notice it: a person has to act now.
    Critical,
    /// A person has to act today.
    Warning,
    /// To be known.
    Info,
}

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// An alert, with texts in the template language of Prometheus.
#[derive(Debug, Clone, Copy)]
pub struct Alert {
    /// Its name, and that of its runbook.
    pub name: &'static str,
    /// When it is true.
    pub expression: &'static str,
    /// How long the expression has to be true, as a duration of Prometheus.
    pub after: &'static str,
    /// How long it goes on firing once the expression is false.
    pub keep_firing: Option<&'static str>,
    /// How urgent it is.
    pub severity: Severity,
    /// One line.
    pub summary: &'static str,
    /// The state that it reports, with figures.
    pub description: &'static str,
}

const fn alert(
    (severity, name): (Severity, &'static str),
    after: &'static str,
    expression: &'static str,
    summary: &'static str,
    description: &'static str,
) -> Alert {
    Alert {
        name,
        expression,
        after,
        keep_firing: None,
        severity,
        summary,
        description,
    }
}

/// All alerts, the most urgent of a matter first. Gauges are taken by `max`, since both replicas have them; rates are
/// summed, since the leader alone writes.
pub const ALERTS: &[Alert] = &[
    alert(
        (Critical, "FedgateDown"),
        "5m",
        "absent(fedgate_projects)",
        "No gateway is scraped",
        "Prometheus has had no figures of any gateway for 5 minutes.",
    ),
    alert(
        (Critical, "FedgateNoLeader"),
        "1m",
        "max by (job, name) (leader_election_master_status) < 1",
        "No replica of {{ $labels.job }} may write",
        "No replica of {{ $labels.job }} has held the Lease {{ $labels.name }} for a minute, so nothing is written.",
    ),
    alert(
        (Warning, "FedgateNoStandby"),
        "15m",
        "count by (job, name) (leader_election_master_status) < 2",
        "{{ $labels.job }} has no standby",
        "{{ $labels.job }} has had a single replica for 15 minutes. If it ends, nothing is written until it is back.",
    ),
    alert(
        (Critical, "FedgateHubDisconnected"),
        "2m",
        "max by (job) (fedgate_planes{plane=\"hub\", state=\"connected\"}) < 1",
        "{{ $labels.job }} has no connection to the hub",
        "No replica of {{ $labels.job }} has had all its watches of the hub for 2 minutes.",
    ),
    alert(
        (Warning, "FedgateProjectsDisconnected"),
        "10m",
        "sum by (job) (max by (job, state) (fedgate_planes{plane=\"project\", state!=\"connected\"})) / sum by (job) (max by (job, state) (fedgate_planes{plane=\"project\"})) > 0.05",
        "{{ $labels.job }} has no connection to many projects",
        "{{ $value | humanizePercentage }} of the projects of {{ $labels.job }} have not been connected for 10 minutes.",
    ),
    alert(
        (Info, "FedgateProjectRefused"),
        "15m",
        "max by (job) (fedgate_projects{state=~\"refused|other_hub\"}) > 0",
        "{{ $value }} projects are not federated by {{ $labels.job }}",
        "For 15 minutes {{ $value }} projects have had a kubeconfig that {{ $labels.job }} refuses, or deployments that name another hub: these are not synced.",
    ),
    alert(
        (Warning, "FedgateMissingRight"),
        "5m",
        "max by (job, plane) (fedgate_planes{state=\"unauthorized\"}) > 0",
        "{{ $labels.job }} lacks a right or a valid credential ({{ $labels.plane }})",
        "{{ $value }} planes of kind {{ $labels.plane }} have rejected the credential or a request of {{ $labels.job }} for 5 minutes.",
    ),
    alert(
        (Critical, "FedgateCredentialExpiresToday"),
        "5m",
        "min by (job, plane) (fedgate_credential_expiry_timestamp_seconds) - time() < 86400",
        "A credential for plane {{ $labels.plane }} expires within a day",
        "A credential of {{ $labels.job }} for a plane of kind {{ $labels.plane }} expires in {{ $value | humanizeDuration }}.",
    ),
    alert(
        (Warning, "FedgateCredentialExpiring"),
        "1h",
        "min by (job, plane) (fedgate_credential_expiry_timestamp_seconds) - time() < 604800",
        "A credential for plane {{ $labels.plane }} expires within a week",
        "A credential of {{ $labels.job }} for a plane of kind {{ $labels.plane }} expires in {{ $value | humanizeDuration }}.",
    ),
    alert(
        (Critical, "FedgateLatencyVeryHigh"),
        "10m",
        "histogram_quantile(0.99, sum by (job, le) (rate(fedgate_federation_seconds_bucket{stage=\"project_to_hub\"}[5m]))) > 10",
        "Changes reach the hub late",
        "One change in a hundred takes {{ $value | humanizeDuration }} from the project to the hub.",
    ),
    alert(
        (Warning, "FedgateLatencyHigh"),
        "10m",
        "histogram_quantile(0.99, sum by (job, le) (rate(fedgate_federation_seconds_bucket{stage=\"project_to_hub\"}[5m]))) > 2",
        "Changes reach the hub late",
        "One change in a hundred takes {{ $value | humanizeDuration }} from the project to the hub.",
    ),
    alert(
        (Critical, "FedgateUndeliveredLong"),
        "5m",
        "max by (job) (fedgate_oldest_undelivered_seconds{stage=\"project_to_hub\"}) > 900",
        "A tenant's change has not reached the hub for long",
        "The oldest change that is not on the hub has waited for {{ $value | humanizeDuration }}.",
    ),
    alert(
        (Warning, "FedgateUndelivered"),
        "5m",
        "max by (job) (fedgate_oldest_undelivered_seconds{stage=\"project_to_hub\"}) > 120",
        "A tenant's change has not reached the hub",
        "The oldest change that is not on the hub has waited for {{ $value | humanizeDuration }}.",
    ),
    alert(
        (Warning, "FedgateNotReturned"),
        "5m",
        "max by (job, stage) (fedgate_oldest_undelivered_seconds{stage=~\"hub_status_to_project|writeback_to_projection\"}) > 120",
        "Projects do not see the state of their deployments ({{ $labels.stage }})",
        "At stage {{ $labels.stage }} the oldest object has waited for {{ $value | humanizeDuration }}.",
    ),
    alert(
        (Warning, "FedgateCellDelivery"),
        "5m",
        "max by (job) (fedgate_oldest_undelivered_seconds{stage=\"hub_to_cell\"}) > 600",
        "Karmada does not deliver to a cell",
        "The oldest copy that is on the hub and not at its cells has waited for {{ $value | humanizeDuration }}.",
    ),
    alert(
        (Warning, "FedgateStuckKeys"),
        "10m",
        "sum by (job, controller) (fedgate_stuck_keys) > 0",
        "Controller {{ $labels.controller }} fails on {{ $value }} objects",
        "{{ $value }} objects have failed in controller {{ $labels.controller }} of {{ $labels.job }} for more than a minute, and some have for 10 minutes.",
    ),
    alert(
        (Warning, "FedgateStuckDeletion"),
        "5m",
        "max by (job) (fedgate_oldest_pending_deletion_seconds) > 900",
        "A deletion does not end",
        "The oldest deletion in {{ $labels.job }} has been under way for {{ $value | humanizeDuration }}.",
    ),
    alert(
        (Info, "FedgateQuarantine"),
        "15m",
        "max by (job, kind, reason) (fedgate_quarantined_objects) > 0",
        "{{ $value }} objects of kind {{ $labels.kind }} are refused ({{ $labels.reason }})",
        "{{ $labels.job }} refuses {{ $value }} objects of kind {{ $labels.kind }} as they are: {{ $labels.reason }}.",
    ),
    alert(
        (Critical, "FedgateIdentityRejection"),
        "0m",
        "sum by (job, reason) (increase(fedgate_identity_rejections_total[10m])) > 0",
        "An object claims an identity that is not its own ({{ $labels.reason }})",
        "{{ $labels.job }} has rejected an identity in the last 10 minutes: {{ $labels.reason }}.",
    ),
    alert(
        (Critical, "FedgateGarbageBrake"),
        "5m",
        "max by (job) (fedgate_garbage_brake) == 1",
        "{{ $labels.job }} deletes no orphans, because there are too many at once",
        "A project or the hub has probably been restored or emptied: the brake has held for 5 minutes.",
    ),
    alert(
        (Warning, "FedgateOrphans"),
        "1h",
        "max by (job) (fedgate_orphan_hub_objects) > 0",
        "{{ $value }} objects on the hub have no origin",
        "{{ $value }} objects on the hub have had no origin in a project for an hour.",
    ),
    alert(
        (Warning, "FedgateInterpreterDrift"),
        "5m",
        "max by (job) (fedgate_interpreter_drift) > 0",
        "An interpreter on the hub is not ours",
        "{{ $value }} ResourceInterpreterCustomizations differ from those of the gateway, or are a second one for a kind.",
    ),
    alert(
        (Warning, "FedgateWriteFight"),
        "10m",
        "sum by (job, kind) (rate(fedgate_write_fights_total[10m])) > 0.05",
        "Another client changes {{ $labels.kind }} objects back",
        "{{ $labels.job }} has repeated {{ $value | humanize }} writes of {{ $labels.kind }} objects a second for 10 minutes.",
    ),
    alert(
        (Warning, "FedgateIdleReconciles"),
        "10m",
        "sum by (job) (rate(fedgate_noop_reconciles_total[10m])) / sum by (job) (rate(controller_runtime_reconcile_total[10m])) > 0.95 and sum by (job) (rate(controller_runtime_reconcile_total[10m])) > 5",
        "{{ $labels.job }} works without an effect",
        "{{ $value | humanizePercentage }} of the reconciles of {{ $labels.job }} have had nothing to write for 10 minutes.",
    ),
    Alert {
        keep_firing: Some("30m"),
        ..alert(
            (Warning, "FedgateErrorRatio"),
            "15m",
            "sum by (job) (rate(controller_runtime_reconcile_errors_total[5m])) / sum by (job) (rate(controller_runtime_reconcile_total[5m])) > 0.2 and sum by (job) (rate(controller_runtime_reconcile_errors_total[5m])) > 0.1",
            "Many reconciles of {{ $labels.job }} fail",
            "{{ $value | humanizePercentage }} of the reconciles of {{ $labels.job }} have failed for 15 minutes.",
        )
    },
    alert(
        (Warning, "FedgateCellNotReady"),
        "10m",
        "max by (job) (fedgate_cells{state=\"not_ready\"}) > 0",
        "{{ $value }} cells are not ready",
        "Karmada has had no ready connection to {{ $value }} cells for 10 minutes.",
    ),
    alert(
        (Info, "FedgateCityWithoutCell"),
        "15m",
        "max by (job) (fedgate_federated_objects{reason=\"NoCellForCity\"}) > 0",
        "{{ $value }} deployments name a city without a cell",
        "{{ $value }} deployments have named a city without a cell for 15 minutes.",
    ),
    alert(
        (Warning, "FedgateQueueBacklog"),
        "15m",
        "max by (job, name) (workqueue_depth) > 1000",
        "{{ $labels.job }} does not keep up",
        "{{ $value }} keys of {{ $labels.job }} are ready and wait for a worker.",
    ),
    alert(
        (Warning, "FedgateRestarting"),
        "0m",
        "sum by (job) (changes(process_start_time_seconds[30m])) > 3",
        "{{ $labels.job }} restarts again and again",
        "Processes of {{ $labels.job }} have started {{ $value }} times in the last 30 minutes.",
    ),
    alert(
        (Warning, "FedgateMemoryHigh"),
        "15m",
        "max by (job) (process_resident_memory_bytes / fedgate_memory_limit_bytes) > 0.9",
        "{{ $labels.job }} is close to its memory limit",
        "A process of {{ $labels.job }} has used {{ $value | humanizePercentage }} of its memory limit for 15 minutes.",
    ),
    alert(
        (Info, "FedgateVersionSkew"),
        "1h",
        "count by (job) (count by (job, version) (fedgate_build_info)) > 1",
        "Replicas of {{ $labels.job }} have different versions",
        "{{ $labels.job }} has run {{ $value }} versions beside each other for an hour.",
    ),
];

/// The alerts in a rule file of Prometheus. Runbooks are below `runbooks`, an address without a slash at its end.
pub(super) fn groups(rows: &[Row], runbooks: &str) -> Result<Value, MonitoringError> {
    let mut rules = Vec::new();
    for alert in ALERTS {
        promql::check(alert.expression, rows).map_err(|fault| MonitoringError {
            name: alert.name,
            fault,
        })?;
        rules.push(rule(alert, runbooks));
    }
    Ok(json!([{"name": "fedgate", "rules": rules}]))
}

fn rule(alert: &Alert, runbooks: &str) -> Value {
    let mut rule = Map::new();
    rule.insert("alert".to_owned(), alert.name.into());
    rule.insert("expr".to_owned(), alert.expression.into());
    rule.insert("for".to_owned(), alert.after.into());
    if let Some(keep_firing) = alert.keep_firing {
        rule.insert("keep_firing_for".to_owned(), keep_firing.into());
    }
    rule.insert("labels".to_owned(), json!({"severity": alert.severity.as_str()}));
    let annotations = json!({
        "summary": alert.summary,
        "description": alert.description,
        "runbook_url": format!("{runbooks}/{}.md", alert.name),
        "dashboard_url": super::dashboard::PATH,
    });
    rule.insert("annotations".to_owned(), annotations);
    Value::Object(rule)
}
