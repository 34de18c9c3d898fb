//! The gateway itself: its replicas, as their operations API answers.

use super::{Check, Finding, Verdict};
use crate::client::counted;
use fedgate_manifests::{ADMIN_SECRET, ADMIN_TOKEN, NAMESPACE};
use fedgate_operations::{Answer, CellCounts, HealthState, Overview, ReplicaRole};
use fedgate_terminal::error::{Absence, Error, Kind};
use std::collections::BTreeSet;

/// The plane in the report: the cluster that runs the gateway's Pods.
const PLANE: &str = "host";
const NEXT_POD: &str =
    "kubectl -n fedgate-system get pods -l app.kubernetes.io/name=fedgate-gateway, and their logs";

/// A replica by its address, and its overview.
pub type Replica = (String, Result<Answer<Overview>, Error>);

/// Checks the replicas; an error is one of the cluster that runs them, or of the token for their address.
pub fn gateway(replicas: &Result<Vec<Replica>, Error>) -> Vec<Finding> {
    let replicas = match replicas {
        Ok(replicas) => replicas,
        Err(error) => {
            return vec![Finding {
                absent: error.absence.is_some(),
                ..fail(text(error), next(error))
            }];
        }
    };
    if replicas.is_empty() {
        return vec![fail("no Pod of the gateway runs".to_owned(), NEXT_POD)];
    }
    let mut findings = silent(replicas);
    let answers = replicas.iter().filter_map(|(_, answer)| answer.as_ref().ok());
    let answers: Vec<&Answer<Overview>> = answers.collect();
    findings.extend(versions(&answers));
    let mut leaders = answers.iter();
    let leader = leaders.find(|answer| answer.header.replica.role != ReplicaRole::Standby);
    if leader.is_none() {
        findings.push(fail(
            "no replica leads".to_owned(),
            "docs/runbooks/FedgateNoLeader.md",
        ));
    }
    // Without a leader, what the standbys cannot reach is why.
    findings.extend(degraded(leader.map_or(&answers, std::slice::from_ref)));
    if let (true, Some(leader)) = (findings.is_empty(), leader) {
        let replica = &leader.header.replica;
        let count = counted(answers.len(), "replica");
        let text = format!(
            "{count} of version {} answer, {} leads",
            replica.version, replica.identity
        );
        findings.push(finding(Check::Gateway, Verdict::Ok, text, ""));
    }
    findings.extend(leader.and_then(|leader| leader.body.cells.as_ref()).map(cells));
    findings
}

/// The Clusters as the leader counts them.
fn cells(cells: &CellCounts) -> Finding {
    let CellCounts {
        ready,
        draining,
        not_ready,
        unlabelled,
        leaving,
    } = cells;
    let next = "fedgate cells list, or join a cell: fedgate cells join NAME --city CITY";
    let (verdict, next) = match (ready, not_ready + unlabelled) {
        (_, 1..) => (Verdict::Fail, next),
        (0, 0) => (Verdict::Open, next),
        _ => (Verdict::Ok, ""),
    };
    let text = format!(
        "Clusters: {ready} ready, {draining} being drained, {not_ready} not ready, {unlabelled} without a city, {leaving} leaving"
    );
    finding(Check::Cells, verdict, text, next)
}

/// The next step after an error of the host. The errors themselves name flags of other commands.
fn next(error: &Error) -> String {
    match (error.absence, &error.next) {
        (Some(Absence::Unusable), _) => {
            "correct --host-kubeconfig: it needs a context, a cluster and a user".to_owned()
        }
        (Some(Absence::Unreachable), _) => {
            "check clusters[].cluster.server in --host-kubeconfig, the network and the server itself"
                .to_owned()
        }
        (Some(Absence::Refused), _) => {
            "issue a new token or client certificate for the user in --host-kubeconfig".to_owned()
        }
        (None, Some(next)) if error.kind == Kind::Forbidden => next.clone(),
        // Every other answer of a host says that it lacks the token.
        (None, _) => format!(
            "kubectl -n {NAMESPACE} create secret generic {ADMIN_SECRET} \
             --from-literal={ADMIN_TOKEN}=$(openssl rand -hex 32) --dry-run=client -o yaml \
             | kubectl apply --server-side -f -"
        ),
    }
}

/// Replicas that do not answer.
fn silent(replicas: &[Replica]) -> Vec<Finding> {
    let errors = replicas
        .iter()
        .filter_map(|(address, answer)| Some((address, answer.as_ref().err()?)));
    errors
        .map(|(address, error)| {
            let what = text(error);
            // The error of a forward names the Pod itself.
            let what = if what.contains(address.as_str()) {
                what
            } else {
                format!("{address}: {what}")
            };
            fail(what, error.next.as_deref().unwrap_or(NEXT_POD))
        })
        .collect()
}

fn versions(answers: &[&Answer<Overview>]) -> Option<Finding> {
    let build = |answer: &&Answer<Overview>| {
        let replica = &answer.header.replica;
        format!("{} ({})", replica.version, replica.revision)
    };
    let versions: BTreeSet<String> = answers.iter().map(build).collect();
    (versions.len() > 1).then(|| {
        let versions: Vec<String> = versions.into_iter().collect();
        fail(
            format!("replicas run different versions: {}", versions.join(", ")),
            "wait for the rollout to end, or docs/runbooks/FedgateVersionSkew.md",
        )
    })
}

/// Why replicas are degraded, each reason once.
fn degraded(replicas: &[&Answer<Overview>]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let health = replicas.iter().map(|replica| &replica.body.health);
    for health in health.filter(|health| health.state == HealthState::Degraded) {
        let reasons = health.reasons.iter().map(|reason| {
            let (class, plane, word) = (reason.class.as_str(), &reason.plane, &reason.word);
            let text = format!("degraded: {class} {plane}: {word} ({})", reason.count);
            fail(text, reason.next.clone())
        });
        let unknown = || fail("degraded".to_owned(), "fedgate status");
        let unknown = health.reasons.is_empty().then(unknown);
        for reason in reasons.chain(unknown) {
            if findings.iter().all(|known| known.text != reason.text) {
                findings.push(reason);
            }
        }
    }
    findings
}

fn text(error: &Error) -> String {
    match &error.cause {
        Some(cause) => format!("{}: {cause}", error.what),
        None => error.what.clone(),
    }
}

fn fail(text: String, next: impl Into<String>) -> Finding {
    finding(Check::Gateway, Verdict::Fail, text, next)
}

fn finding(check: Check, verdict: Verdict, text: String, next: impl Into<String>) -> Finding {
    Finding {
        plane: PLANE.to_owned(),
        check,
        verdict,
        text,
        next: next.into(),
        absent: false,
    }
}
