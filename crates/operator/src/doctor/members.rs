//! The way by which the gateway asks members whether deleted objects are gone: the hub's proxy of each Cluster, which acts in
//! the gateway's name there (contract: clusters.md §3.4 and §9).

use super::{Check, Finding, Subject, clusters::is_ready, clusters::is_stand_in};
use fedgate_engine::{executor::at_member, plane::watch::is_not_served};
use fedgate_gateway::single_member::probe::proves_absence;
use fedgate_kinds::{FederatedKind, FinishedWhen};
use futures::{StreamExt, stream};
use kube::{
    Api,
    core::{ApiResource, DynamicObject},
};
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

/// Reason why a member cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// The proxy has no credential, or not a good one, by which it acts in another's name.
    Impersonator,
    /// The hub does not know the member's address.
    Endpoint,
    /// The Cluster is not ready, so nobody was asked.
    NotReady,
    /// The hub refuses.
    ByHub,
    /// The member does not let the proxy act in the user's name.
    ByProxy,
    /// The member refuses the user for this kind.
    ByMember(String),
    /// The member does not serve this kind.
    NotServed(String),
    /// The hub answers that there is no such Cluster.
    NoProxy,
    /// The member was not reached.
    NoAnswer,
    /// An answer that proves nothing.
    Other,
}

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
pub(super) async fn check(
    subject: &Subject,
    clusters: &[DynamicObject],
    kinds: &[FederatedKind],
) -> Vec<Finding> {
    let end = Instant::now() + PATIENCE.1;
    let pairs = asked(kinds).flat_map(|kind| clusters.iter().map(move |cluster| (cluster, &kind.resource)));
    let pairs: Vec<_> = pairs.collect();
    if pairs.is_empty() {
        return Vec::new();
    }
    let mut faults: BTreeMap<Fault, Found> = BTreeMap::new();
    let mut answers = stream::iter(pairs)
        .map(|(cluster, kind)| async move {
            let name = cluster.metadata.name.clone().unwrap_or_default();
            let answer = member(subject, (&name, cluster), kind, end).await;
            (name, answer)
        })
        .buffered(AT_ONCE);
    while let Some((name, answer)) = answers.next().await {
        if let Err((fault, message)) = answer {
            let found = faults.entry(fault).or_default();
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
    let findings = faults.into_iter();
    findings
        .map(|(fault, found)| fault.finding(subject, &found))
        .collect()
}

/// Asks a member; an error is the fault, and what was said.
async fn member(
    subject: &Subject,
    (name, cluster): (&str, &DynamicObject),
    kind: &ApiResource,
    end: Instant,
) -> Result<(), (Fault, String)> {
    if let Some(fault) = of_cluster(cluster) {
        return Err((fault, String::new()));
    }
    let api: Api<DynamicObject> = Api::all_with(subject.client.client(), &at_member(name, kind, NAMESPACE));
    let deadline = end.min(Instant::now() + PATIENCE.0);
    match timeout_at(deadline, api.get(NO_OBJECT)).await {
        Ok(Ok(_)) => Err((Fault::Other, format!("it has an object {NO_OBJECT}"))),
        Ok(Err(kube::Error::Api(status))) if proves_absence(kind, NO_OBJECT, &status) => Ok(()),
        Ok(Err(error)) => Err(of_error(kind, &error)),
        Err(_) => Err((Fault::NoAnswer, "no answer in time".to_owned())),
    }
}

/// The fault that the Cluster itself shows. Those of the sandbox's stand-in have no credentials.
fn of_cluster(cluster: &DynamicObject) -> Option<Fault> {
    let spec = &cluster.data["spec"];
    let is_empty = |text: Option<&str>| text.is_none_or(str::is_empty);
    if !is_stand_in(cluster) {
        if is_empty(spec["impersonatorSecretRef"]["name"].as_str()) {
            return Some(Fault::Impersonator);
        }
        if is_empty(spec["apiEndpoint"].as_str()) {
            return Some(Fault::Endpoint);
        }
    }
    (!is_ready(cluster)).then_some(Fault::NotReady)
}

/// The fault that a refusal shows, of the hub or of the member, and what was said.
fn of_error(kind: &ApiResource, error: &kube::Error) -> (Fault, String) {
    let kube::Error::Api(status) = error else {
        return (Fault::NoAnswer, error.to_string());
    };
    let details = status.details.as_ref();
    let is_about = |group: &str, plural: &str| {
        details.is_some_and(|details| details.group == group && details.kind == plural)
    };
    // The member's own answer to an unknown path is no Status.
    if details.is_none() && is_not_served(error) {
        return (
            Fault::NotServed(format!("{}/{}", named(kind), kind.version)),
            String::new(),
        );
    }
    let fault = match status.code {
        401 => Fault::Impersonator,
        _ if status.message.contains("cannot impersonate resource") => Fault::ByProxy,
        403 if is_about("cluster.karmada.io", "clusters") => Fault::ByHub,
        403 if is_about(&kind.group, &kind.plural) => Fault::ByMember(named(kind)),
        404 if is_about("cluster.karmada.io", "clusters") => Fault::NoProxy,
        404 if is_about("", "secrets") => Fault::Impersonator,
        500.. => Fault::NoAnswer,
        _ => Fault::Other,
    };
    (fault, format!("{} ({})", status.message, status.code))
}

fn named(kind: &ApiResource) -> String {
    format!("{}.{}", kind.plural, kind.group)
}

impl Fault {
    fn finding(&self, subject: &Subject, found: &Found) -> Finding {
        let members: Vec<&str> = found.members.iter().map(String::as_str).collect();
        let kind = match self {
            Self::ByMember(kind) | Self::NotServed(kind) => kind,
            _ => "",
        };
        let (text, next) = self.words();
        let next = [
            ("{members}", members.join(" ").as_str()),
            ("{first}", members.first().unwrap_or(&"")),
            ("{flag}", subject.role.flag()),
            ("{folder}", subject.role.folder()),
        ]
        .iter()
        .fold(next.to_owned(), |next, (place, word)| next.replace(place, word));
        let mut text = format!("{}: {}", text.replace("{kind}", kind), members.join(", "));
        if !found.message.is_empty() {
            text = format!("{text} ({})", found.message);
        }
        match self {
            Self::NotReady => subject.open(Check::Members, text, next),
            _ => subject.fail(Check::Members, text, next),
        }
    }

    /// The words before the names of the members, and the next step, with places for names.
    const fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::Impersonator => (
                "the hub's proxy has no good credential to act in the gateway's name (spec.impersonatorSecretRef)",
                "join them again with it: fedgate cells join --proxy --rights full, karmadactl join, or \
                 --report-secrets=KubeImpersonator of karmada-agent",
            ),
            Self::Endpoint => (
                "the hub's proxy does not know the address of these members (spec.apiEndpoint)",
                "set it, of a member with karmada-agent by its --cluster-api-endpoint, to an address that the hub reaches",
            ),
            Self::NotReady => (
                "members whose Clusters are not ready were not asked whether an object is gone",
                "look into their conditions: kubectl describe clusters.cluster.karmada.io {members}",
            ),
            Self::ByHub => (
                "the hub does not let this user get clusters/proxy",
                "apply {folder} and bind its roles to the user in {flag}",
            ),
            Self::ByProxy => (
                "the hub's proxy may not act in the name of this user or its groups",
                "use a client certificate without organization in {flag}, and bind clusters/proxy to its user by a \
                 ClusterRoleBinding, from which Karmada derives it: apply {folder}",
            ),
            Self::ByMember(_) => (
                "members do not let this user get {kind}",
                "apply manifests/member to these members: {members}",
            ),
            Self::NotServed(_) => (
                "members do not serve {kind}",
                "install its CustomResourceDefinition, or a version of it that has this one, at {members}",
            ),
            Self::NoProxy => (
                "the hub does not serve the proxy of these Clusters",
                "run doctor again if they have just left; else let karmada-aggregated-apiserver serve it: kubectl get \
                 apiservice v1alpha1.cluster.karmada.io",
            ),
            Self::NoAnswer => (
                "members do not answer through the hub's proxy",
                "make sure that karmada-aggregated-apiserver reaches their spec.apiEndpoint: kubectl get --raw \
                 /apis/cluster.karmada.io/v1alpha1/clusters/{first}/proxy/readyz",
            ),
            Self::Other => (
                "members or the hub's proxy give an answer that proves nothing",
                "look at it: kubectl get --raw /apis/cluster.karmada.io/v1alpha1/clusters/{first}/proxy/version",
            ),
        }
    }
}
