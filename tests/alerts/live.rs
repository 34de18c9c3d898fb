//! Gateway and cell as processes of their own, on planes that the simulator plays: what they serve under `/metrics`.

use crate::{
    dashboard,
    data::ALERTS,
    gateway::Gateway,
    objects,
    planes::{self, Planes},
    promql, promtool, root,
};
use anyhow::{Context, Result, ensure};
use fedgate_engine::metrics::Metrics;
use fedgate_simulator::Definition;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Time between two samples of a recording.
const INTERVAL: Duration = Duration::from_secs(30);

/// A role's answer to a scrape.
pub(crate) async fn scrape(role: &Gateway) -> Result<String> {
    let address = &role.address;
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no body")?;
    ensure!(head.contains(" 200 "), "{head}");
    Ok(body.to_owned())
}

/// Hub, two projects with a deployment each, and two gateways of which one leads.
async fn gateways(name: &str) -> Result<(Planes, [Gateway; 2])> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alerts").join(name);
    let mut planes = Planes::up(dir).await?;
    planes.grow(2)?;
    for project in &planes.projects {
        let mut deployment = objects::deployment("web", "DFW", None);
        deployment["metadata"]["namespace"] = json!(planes::NAMESPACE);
        deployment["apiVersion"] = json!("compute.datumapis.com/v1alpha");
        deployment["kind"] = json!("WorkloadDeployment");
        project.create(deployment).map_err(planes::failed)?;
    }
    let (hub, projects, process) = (planes.hub_kubeconfig(), planes.directory(), planes.process());
    let flags: [&OsStr; 6] = [
        "--hub-kubeconfig".as_ref(),
        hub.as_ref(),
        "--project-mode".as_ref(),
        "directory".as_ref(),
        "--project-directory".as_ref(),
        projects.as_ref(),
    ];
    let first = Gateway::role("gateway", "first", &flags, &process).await?;
    let second = Gateway::role("gateway", "second", &flags, &process).await?;
    for gateway in [&first, &second] {
        gateway.at_rest().await?;
    }
    Ok((planes, [first, second]))
}

/// A cell on the planes of gateways.
async fn cell(planes: &Planes) -> Result<Gateway> {
    let own = planes.project("dfw-1")?;
    let plain = |group, kind, plural| Arc::new(Definition::plain(group, "v1", kind, plural, true, true));
    own.define_all(&[
        plain("", "Pod", "pods"),
        plain("", "Service", "services"),
        plain("networking.k8s.io", "NetworkPolicy", "networkpolicies"),
    ]);
    own.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fedgate-system"}}))
        .map_err(planes::failed)?;
    let file = planes.process().join("dfw-1.yaml");
    planes.kubeconfig("dfw-1", "fedgate-cell", &file)?;
    let hub = planes.hub_kubeconfig();
    let flags: [&OsStr; 10] = [
        "--cell-kubeconfig".as_ref(),
        file.as_ref(),
        "--hub-kubeconfig".as_ref(),
        hub.as_ref(),
        "--name".as_ref(),
        "dfw-1".as_ref(),
        "--city".as_ref(),
        "DFW".as_ref(),
        "--location".as_ref(),
        "us-south-1".as_ref(),
    ];
    Gateway::role("cell", "cell", &flags, &planes.process()).await
}

/// The metrics that a scrape has, by the lines that say their types.
fn families(scrape: &str) -> BTreeSet<&str> {
    scrape
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "verify: promtool judges"]
async fn metrics_of_gateway_and_cell_please_promtool_and_are_those_of_the_dashboard() -> Result<()> {
    let (planes, [first, second]) = gateways("scrape").await?;
    let cell = cell(&planes).await?;
    let mut served = String::new();
    for role in [&first, &second, &cell] {
        let text = scrape(role).await?;
        assert_eq!(promtool::complaints(&text), "", "{text}");
        let is_gateway = text.contains("\nfedgate_projects{");
        assert_eq!(
            is_gateway,
            role.address != cell.address,
            "FedgateDown tells gateways by this metric"
        );
        served.push_str(&text);
    }
    for reason in [
        "identity_mismatch",
        "namespace_labels_edited",
        "hub_namespace_claimed",
    ] {
        let line = format!("fedgate_identity_rejections_total{{reason=\"{reason}\"}} 0\n");
        assert!(
            served.contains(&line),
            "the first rejection has to be an increase: {line}"
        );
    }
    let served = families(&served);
    // These appear with the first object or answer that they count.
    let later = BTreeSet::from([
        "fedgate_quarantined_objects",
        "fedgate_quota_claims_orphaned_total",
        "fedgate_release_records_dropped_total",
        "fedgate_write_fights_total",
    ]);
    let rows = Metrics::new()?.rows();
    let missing: BTreeSet<&str> = dashboard::metrics(&rows)
        .into_iter()
        .filter(|name| !served.contains(name) && !later.contains(name))
        .collect();
    assert!(missing.is_empty(), "no scrape has {missing:?}");
    for role in [cell, second, first] {
        role.stop().await?;
    }
    Ok(())
}

#[test]
#[ignore = "verify: promtool judges"]
fn promtool_complains_of_a_metric_without_help() {
    let said = promtool::complaints("# TYPE fedgate_x counter\nfedgate_x 1\n");
    assert!(said.contains("no help text") && said.contains("_total"), "{said}");
}

/// Two gateways at rest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Recording {
    /// How long they were recorded.
    pub(crate) minutes: u32,
    /// Each series with its values in the notation of promtool.
    pub(crate) series: BTreeMap<String, String>,
}

pub(crate) fn recording() -> Recording {
    let text = std::fs::read_to_string(recorded()).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn recorded() -> PathBuf {
    root().join("tests/alerts/idle.json")
}

/// The series that alerts ask for.
fn asked() -> BTreeSet<&'static str> {
    ALERTS
        .iter()
        .flat_map(|alert| promql::names(&alert.expression).metrics)
        .collect()
}

/// Records two gateways at rest, if the number of minutes is given. Times are counted from the first sample, as those
/// of promtool are.
#[tokio::test(flavor = "multi_thread")]
async fn record_gateways_at_rest() -> Result<()> {
    let Some(minutes) = std::env::var_os("FEDGATE_RECORD_IDLE") else {
        return Ok(());
    };
    let minutes: u32 = minutes.to_string_lossy().parse()?;
    let (_planes, gateways) = gateways("idle").await?;
    let mut samples: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let began = std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_secs_f64();
    let mut ticks = tokio::time::interval(INTERVAL);
    for _ in 0..=minutes * 2 {
        ticks.tick().await;
        for (pod, gateway) in gateways.iter().enumerate() {
            let text = scrape(gateway).await?;
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (series, value) = line.rsplit_once(' ').context("a line has no value")?;
                let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
                if !asked().contains(name) {
                    continue;
                }
                let comma = if labels == "}" { "" } else { "," };
                let series = format!("{name}{{job=\"fedgate-gateway\",pod=\"{pod}\"{comma}{labels}");
                let mut value: f64 = value.replace("+Inf", "inf").parse()?;
                if name.ends_with("_timestamp_seconds") || name == "process_start_time_seconds" {
                    value -= began;
                }
                samples.entry(series).or_default().push(value);
            }
        }
    }
    let series = samples
        .into_iter()
        .map(|(series, values)| (series, notation(&values)));
    let recording = Recording {
        minutes,
        series: series.collect(),
    };
    std::fs::write(recorded(), serde_json::to_string_pretty(&recording)? + "\n")?;
    for gateway in gateways {
        gateway.stop().await?;
    }
    Ok(())
}

/// Values as promtool reads them: a value that stays is written once.
fn notation(values: &[f64]) -> String {
    let mut parts: Vec<(String, usize)> = Vec::new();
    for value in values {
        // promtool knows no infinity.
        let text = if value.is_infinite() {
            "1e18".to_owned()
        } else {
            value.to_string()
        };
        match parts.last_mut() {
            Some((last, count)) if *last == text => *count += 1,
            _ => parts.push((text, 0)),
        }
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(text, more)| if more == 0 { text } else { format!("{text}x{more}") })
        .collect();
    parts.join(" ")
}

#[test]
fn values_that_stay_are_written_once() {
    assert_eq!(notation(&[1.0, 1.0, 1.0, 2.5, f64::INFINITY]), "1x2 2.5 1e18");
}
