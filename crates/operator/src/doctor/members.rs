//! The way by which the gateway asks members whether deleted objects are gone: the hub's proxy of each Cluster, which acts in
//! the gateway's name there (contract: clusters.md §3.4 and §9).

use super::{Check, Finding, Subject};
use crate::membership::cluster::Cluster;
use fedgate_engine::{executor::at_member, plane::watch::is_not_served};
use fedgate_gateway::single_member::probe::proves_absence;
use fedgate_kinds::{FederatedKind, FinishedWhen};
use futures::{StreamExt, stream};
use kube::{
    Api,
    core::{ApiResource, DynamicObject},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

/// A name that no object has: an API server admits no capital letters.
const NO_OBJECT: &str = "FEDGATE-DOCTOR";
/// A namespace that every member has.
const NAMESPACE: &str = "default";
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 16;
/// Time for one member, and for all of them.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(8));

/// Reason why a member cannot be asked: its place in the report, the words before the names of the members, and the next step,
/// both with places for names.
type Fault = (u8, &'static str, &'static str);

const IMPERSONATOR: Fault = (
    0,
    "the hub's proxy has no good credential to act in the gateway's name (spec.impersonatorSecretRef)",
    "join them again with it: fedgate cells join --proxy --rights full, karmadactl join, or \
     --report-secrets=KubeImpersonator of karmada-agent",
);
const ENDPOINT: Fault = (
    1,
    "the hub's proxy does not know the address of these members (spec.apiEndpoint)",
    "set it, of a member with karmada-agent by its --cluster-api-endpoint, to an address that the hub reaches",
);
const NOT_READY: Fault = (
    2,
    "members whose Clusters are not ready were not asked whether an object is gone",
    "look into their conditions: kubectl describe clusters.cluster.karmada.io {members}",
);
const BY_HUB: Fault = (
    3,
    "the hub does not let this user get clusters/proxy",
    "apply {folder} and bind its roles to the user in {flag}",
);
const BY_PROXY: Fault = (
    4,
    "the hub's proxy may not act in the name of this user or its groups",
    "use a client certificate without organization in {flag}, and bind clusters/proxy to its user by a ClusterRoleBinding, \
     from which Karmada derives it: apply {folder}",
);
const BY_MEMBER: Fault = (
    5,
    "members do not let this user get {kind}",
    "apply manifests/member to these members: {members}",
);
const NOT_SERVED: Fault = (
    6,
    "members do not serve {kind}, so that no object of this kind goes there",
    "install the CustomResourceDefinition with this version at those of {members} that are to have such objects",
);
const NO_PROXY: Fault = (
    7,
    "the hub does not serve the proxy of these Clusters",
    "run doctor again if they have just left; else let karmada-aggregated-apiserver serve it: kubectl get apiservice \
     v1alpha1.cluster.karmada.io",
);
const NO_ANSWER: Fault = (
    8,
    "members do not answer through the hub's proxy",
    "make sure that karmada-aggregated-apiserver reaches their spec.apiEndpoint: kubectl get --raw \
     /apis/cluster.karmada.io/v1alpha1/clusters/{first}/proxy/readyz",
);
const OTHER: Fault = (
    9,
    "members or the hub's proxy give an answer that proves nothing",
    "look at it: kubectl get --raw /apis/cluster.karmada.io/v1alpha1/clusters/{first}/proxy/version",
);

/// The members with a fault, and the message of the first.
#[derive(Debug, Default)]
struct Found {
    members: BTreeSet<String>,
    message: String,
}

/// The kinds whose deletion waits for the member.
fn asked(kinds: &[FederatedKind]) -> impl Iterator<Item = &FederatedKind> {
    kinds
        .iter()
        .filter(|kind| kind.deletion.finished_when == FinishedWhen::MemberAbsent)
}

/// Asks each member about an object that does not exist, of each kind whose deletion waits for the member.
pub(super) async fn check(subject: &Subject, clusters: &[Value], kinds: &[FederatedKind]) -> Vec<Finding> {
    let end = Instant::now() + PATIENCE.1;
    let pairs = asked(kinds).flat_map(|kind| {
        clusters
            .iter()
            .map(move |cluster| (Cluster(cluster), &kind.resource))
    });
    let pairs: Vec<_> = pairs.collect();
    if pairs.is_empty() {
        return Vec::new();
    }
    let mut faults: BTreeMap<(Fault, String), Found> = BTreeMap::new();
    let mut answers = stream::iter(pairs)
        .map(|(cluster, kind)| async move {
            let answer = member(subject, cluster, kind, end).await;
            (cluster.name().to_owned(), kind, answer)
        })
        .buffered(AT_ONCE);
    while let Some((name, kind, answer)) = answers.next().await {
        if let Err((fault, message)) = answer {
            let kind = match fault {
                BY_MEMBER => named(kind),
                NOT_SERVED => format!("{}/{}", named(kind), kind.version),
                _ => String::new(),
            };
            let found = faults.entry((fault, kind)).or_default();
            if found.members.is_empty() {
                found.message = message;
            }
            found.members.insert(name);
        }
    }
    if faults.is_empty() {
        let text = format!(
            "all {} members say through the hub's proxy whether an object is gone",
            clusters.len()
        );
        return vec![subject.ok(Check::Members, text)];
    }
    let findings = faults.iter();
    findings
        .map(|((fault, kind), found)| finding(*fault, kind, found, subject))
        .collect()
}

/// Asks a member; an error is the fault, and what was said.
async fn member(
    subject: &Subject,
    cluster: Cluster<'_>,
    kind: &ApiResource,
    end: Instant,
) -> Result<(), (Fault, String)> {
    if let Some(fault) = of_cluster(cluster) {
        return Err((fault, String::new()));
    }
    let api: Api<DynamicObject> = Api::all_with(
        subject.client.client(),
        &at_member(cluster.name(), kind, NAMESPACE),
    );
    let deadline = end.min(Instant::now() + PATIENCE.0);
    match timeout_at(deadline, api.get(NO_OBJECT)).await {
        Ok(Ok(_)) => Err((OTHER, format!("it has an object {NO_OBJECT}"))),
        Ok(Err(kube::Error::Api(status))) if proves_absence(kind, NO_OBJECT, &status) => Ok(()),
        Ok(Err(error)) => Err(of_error(kind, &error)),
        Err(_) => Err((NO_ANSWER, "no answer in time".to_owned())),
    }
}

/// The fault that the Cluster itself shows. Those of the sandbox's stand-in have no credentials.
fn of_cluster(cluster: Cluster<'_>) -> Option<Fault> {
    let (spec, is_real) = (&cluster.0["spec"], !cluster.is_stand_in());
    let is_empty = |text: &Value| text.as_str().is_none_or(str::is_empty);
    let faults = [
        (
            IMPERSONATOR,
            is_real && is_empty(&spec["impersonatorSecretRef"]["name"]),
        ),
        (ENDPOINT, is_real && is_empty(&spec["apiEndpoint"])),
        (NOT_READY, !cluster.is_ready()),
    ];
    let fault = faults.into_iter().find(|(_, has)| *has);
    fault.map(|(fault, _)| fault)
}

/// The fault that a refusal shows, of the hub or of the member, and what was said.
fn of_error(kind: &ApiResource, error: &kube::Error) -> (Fault, String) {
    let kube::Error::Api(status) = error else {
        return (NO_ANSWER, error.to_string());
    };
    let details = status.details.as_ref();
    let is_about = |group: &str, plural: &str| {
        details.is_some_and(|details| details.group == group && details.kind == plural)
    };
    // The member's own answer to an unknown path is no Status.
    if details.is_none() && is_not_served(error) {
        return (NOT_SERVED, String::new());
    }
    let fault = match status.code {
        401 => IMPERSONATOR,
        _ if status.message.contains("cannot impersonate resource") => BY_PROXY,
        403 if is_about("cluster.karmada.io", "clusters") => BY_HUB,
        403 if is_about(&kind.group, &kind.plural) => BY_MEMBER,
        404 if is_about("cluster.karmada.io", "clusters") => NO_PROXY,
        404 if is_about("", "secrets") => IMPERSONATOR,
        500.. => NO_ANSWER,
        _ => OTHER,
    };
    (fault, format!("{} ({})", status.message, status.code))
}

fn named(kind: &ApiResource) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

fn finding(fault: Fault, kind: &str, found: &Found, subject: &Subject) -> Finding {
    let (_, text, next) = fault;
    let members: Vec<&str> = found.members.iter().map(String::as_str).collect();
    let places = [
        ("{members}", members.join(" ")),
        ("{first}", members.first().copied().unwrap_or_default().to_owned()),
        ("{flag}", subject.role.flag().to_owned()),
        ("{folder}", subject.role.folder().to_owned()),
    ];
    let fill = |next: String, (place, word): &(&str, String)| next.replace(place, word);
    let next = places.iter().fold(next.to_owned(), fill);
    let mut text = format!("{}: {}", text.replace("{kind}", kind), members.join(", "));
    if !found.message.is_empty() {
        text = format!("{text} ({})", found.message);
    }
    if fault == NOT_READY || fault == NOT_SERVED {
        subject.open(Check::Members, text, next)
    } else {
        subject.fail(Check::Members, text, next)
    }
}
