//! The findings that the hub adds: the copy, its binding and the cluster it is scheduled to.

use super::{
    Beside, Evidence, Finding, Findings, Proof, Source,
    project::still_on,
    route::{Route, city_of},
};
use crate::view::{City, Condition, Instances, Object, location_of};
use fedgate_api::{conditions::types::READY, keys};
use std::collections::BTreeMap;

/// The objects of a project's namespace on the hub.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HubView {
    /// The hub namespace; `None` if it does not exist.
    pub(crate) namespace: Option<Object>,
    /// The policy of its city set.
    pub(crate) city_set: Option<Object>,
    /// The copies.
    pub(crate) copies: Vec<Object>,
    /// Karmada's `ResourceBinding`s.
    pub(crate) bindings: Vec<Object>,
    /// The `PropagationPolicy`s.
    pub(crate) policies: Vec<Object>,
    /// The Instances that cells have written back.
    pub(crate) instances: Instances,
    /// Karmada's `Cluster`s.
    pub(crate) clusters: Vec<Object>,
}

impl HubView {
    /// The copy of a deployment.
    pub(crate) fn copy(&self, deployment: &str) -> Option<&Object> {
        self.copies.iter().find(|copy| copy.name() == deployment)
    }

    /// The clusters that a deployment is scheduled to.
    pub(crate) fn scheduled(&self, deployment: &str) -> Vec<&str> {
        let binding = self.binding(deployment);
        let clusters = binding.map(|binding| binding.list("/spec/clusters"));
        let names = clusters.into_iter().flatten();
        names.filter_map(|cluster| cluster["name"].as_str()).collect()
    }

    fn binding(&self, deployment: &str) -> Option<&Object> {
        let name = binding_name(deployment);
        self.bindings.iter().find(|binding| binding.name() == name)
    }
}

fn binding_name(deployment: &str) -> String {
    format!("{deployment}-workloaddeployment")
}

/// Adds the hub's proofs.
pub(super) fn refine(findings: &mut Findings, evidence: &Evidence<'_>, deployment: &Object) {
    let view = match evidence.hub {
        Beside::NotNamed(_) => return,
        Beside::Unreadable(cause) => {
            findings.binding = Finding::new(Source::Hub, binding_name(deployment.name())).unseen(&**cause);
            return;
        }
        Beside::Read(view) => view,
    };
    let known = findings.hub.clone();
    findings.hub = hub(view, evidence.city, deployment);
    if findings.hub.proof != Proof::Holds && known.proof == Proof::Refused {
        // The project says why.
        findings.hub.proof = Proof::Refused;
        findings.hub.since = known.since;
        findings.hub.detail = format!("{}; {}", known.detail, findings.hub.detail);
    }
    findings.binding = binding(view, evidence.city, deployment);
    if findings.hub.proof == Proof::Holds
        && findings.binding.proof == Proof::NotYet
        && known.proof == Proof::Refused
    {
        findings.binding.detail = format!("{}; {}", findings.binding.detail, known.detail);
    }
    if let Some(unready) = cluster(view, deployment) {
        findings.cell = unready;
    } else if findings.cell.proof == Proof::NotYet
        && let Some(cluster) = unreported(view, deployment)
    {
        let finding = Finding::new(Source::Hub, cluster);
        findings.cell = finding.not_yet(findings.cell.since, "the cluster has reported no status");
    }
    projection(findings, view, evidence, deployment);
}

fn hub(view: &HubView, city: &City, deployment: &Object) -> Finding {
    let route = Route::wanted(view, city, deployment);
    let namespace = view.namespace.as_ref().map(Object::name).unwrap_or_default();
    let generation = deployment.generation();
    let finding = Finding::new(Source::Hub, format!("{namespace}/{}", deployment.name()));
    let since = deployment.spec_written();
    let Some(namespace) = &view.namespace else {
        return Finding::new(Source::Hub, "-").not_yet(since, "the hub namespace does not exist");
    };
    let Some(copy) = view.copy(deployment.name()) else {
        return finding.not_yet(since, "no copy");
    };
    let annotation = |key: &str| copy.0["metadata"]["annotations"][key].as_str();
    let carried = annotation(keys::SOURCE_GENERATION).and_then(|text| text.parse().ok());
    let finding = Finding {
        generation: carried,
        ..finding
    };
    if annotation(keys::SOURCE_UID).is_some_and(|uid| uid != deployment.uid()) {
        return finding.not_yet(since, "the copy is of an earlier deployment");
    }
    if carried != Some(generation) {
        return finding.not_yet(since, still_on(carried));
    }
    let written = copy.spec_written();
    if let Some(other) = route.other(copy) {
        if route.name.is_empty() {
            let location = location_of(deployment);
            let detail = format!("labelled with {other}; the city of location {location} is not known");
            return finding.unseen(detail);
        }
        return finding.not_yet(written, format!("labelled with {other}"));
    }
    if route.policy(view).is_none() {
        let Route { noun, name, .. } = route;
        return finding.not_yet(written, format!("no policy for {noun} {name}"));
    }
    let code = city_of(view, city, deployment);
    if !code.is_empty() && !delivered_to(view).is_some_and(|codes| codes.contains(&code)) {
        let set = namespace.label(keys::CITIES);
        return finding.not_yet(written, format!("the namespace's city set {set:?} lacks {code}"));
    }
    finding.holds(copy.spec_written(), format!("carries generation {generation}"))
}

/// The cities that the hub namespace is delivered to.
fn delivered_to(view: &HubView) -> Option<Vec<&str>> {
    let pointer = "/spec/placement/clusterAffinity/labelSelector/matchExpressions";
    let expressions = view.city_set.as_ref()?.list(pointer);
    let values = expressions
        .iter()
        .filter_map(|expression| expression["values"].as_array());
    Some(values.flatten().filter_map(|value| value.as_str()).collect())
}

fn binding(view: &HubView, city: &City, deployment: &Object) -> Finding {
    let finding = Finding::new(Source::Hub, binding_name(deployment.name()));
    let since = deployment.spec_written();
    let Some(copy) = view.copy(deployment.name()) else {
        return finding.not_yet(since, "no copy to bind");
    };
    let claim = copy.0["metadata"]["annotations"][keys::CLAIM_NAME].as_str();
    let policy = Route::wanted(view, city, deployment).policy(view);
    if let (Some(claim), Some(policy)) = (claim, policy)
        && claim != policy
    {
        let detail = format!("frozen: claimed by policy {claim}, not {policy}");
        return finding.refused(copy.spec_written(), detail);
    }
    let Some(binding) = view.binding(deployment.name()) else {
        return finding.not_yet(copy.spec_written(), "no binding");
    };
    let clusters = view.scheduled(deployment.name()).join(", ");
    if let Some(refused) = binding.condition("Scheduled").filter(|c| !c.holds()) {
        return from_condition(finding, refused);
    }
    let mut items = binding.list("/status/aggregatedStatus").iter();
    // Karmada leaves `applied` out unless it is true. An item that was not tried yet has no message.
    let refused = items.find_map(|item| {
        let message = item["appliedMessage"].as_str().unwrap_or_default();
        (item["applied"] != true && !message.is_empty()).then_some((item, message))
    });
    let applied = binding.condition("FullyApplied");
    if let Some((item, message)) = refused {
        let cluster = item["clusterName"].as_str().unwrap_or_default();
        let detail = format!("not applied to {cluster}: {message}");
        return finding.refused(applied.and_then(|applied| applied.since), detail);
    }
    match applied {
        Some(applied) if applied.holds() => finding.holds(applied.since, format!("scheduled to {clusters}")),
        Some(applied) => finding.not_yet(applied.since, applied.text()),
        None => finding.not_yet(binding.created(), "not applied yet"),
    }
}

/// A False condition refuses, an Unknown one has not decided.
fn from_condition(finding: Finding, condition: Condition<'_>) -> Finding {
    let detail = condition.text();
    if condition.refuses() {
        finding.refused(condition.since, detail)
    } else {
        finding.not_yet(condition.since, detail)
    }
}

/// A cluster of the deployment that is not ready.
fn cluster(view: &HubView, deployment: &Object) -> Option<Finding> {
    view.scheduled(deployment.name()).into_iter().find_map(|name| {
        let finding = Finding::new(Source::Hub, name);
        let Some(cluster) = view.clusters.iter().find(|cluster| cluster.name() == name) else {
            return Some(finding.refused(None, "the cluster does not exist"));
        };
        let ready = cluster.condition("Ready").filter(|ready| !ready.holds())?;
        let detail = format!("cluster not Ready: {}", ready.reason);
        Some(if ready.refuses() {
            finding.refused(ready.since, detail)
        } else {
            finding.not_yet(ready.since, detail)
        })
    })
}

/// The first cluster of the deployment that has reported no status of it.
fn unreported<'a>(view: &'a HubView, deployment: &Object) -> Option<&'a str> {
    let items = view.binding(deployment.name())?.list("/status/aggregatedStatus");
    let reports = |cluster: &str| {
        let item = items.iter().find(|item| item["clusterName"] == cluster);
        item.and_then(|item| item["status"].as_object())
            .is_some_and(|status| !status.is_empty())
    };
    let mut clusters = view.scheduled(deployment.name()).into_iter();
    clusters.find(|cluster| !reports(cluster))
}

/// Instances by name.
fn by_name(instances: &[Object]) -> BTreeMap<&str, &Object> {
    instances
        .iter()
        .map(|instance| (instance.name(), instance))
        .collect()
}

/// The first Instance that one of hub and project lacks, or that the project shows as it was.
fn projection(findings: &mut Findings, view: &HubView, evidence: &Evidence<'_>, deployment: &Object) {
    if findings.projection.proof != Proof::Holds {
        return;
    }
    let written = by_name(view.instances.of(deployment.name()));
    let projected = by_name(evidence.instances.of(deployment.name()));
    let ready = |instance: &Object| instance.condition(READY).map(|ready| ready.status.to_owned());
    let stale = written.iter().find_map(|(name, written)| {
        let (since, detail) = match projected.get(name) {
            None => (written.created(), "is on the hub and not in the project"),
            Some(projected) if ready(projected) != ready(written) => {
                let changed = written.condition(READY).and_then(|ready| ready.since);
                (changed, "has another Ready on the hub")
            }
            Some(_) => return None,
        };
        Some((since, format!("{name} {detail}")))
    });
    let unwritten = || {
        let name = projected.keys().find(|name| !written.contains_key(*name))?;
        let detail = format!("{name} is in the project and not on the hub");
        Some((findings.projection.since, detail))
    };
    if let Some((since, detail)) = stale.or_else(unwritten) {
        let finding = Finding::new(Source::Hub, findings.projection.object.clone());
        findings.projection = finding.not_yet(since, detail);
    }
}
