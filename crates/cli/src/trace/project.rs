//! The findings that the project alone allows.

use super::{Evidence, Finding, Findings, Source, own, words};
use crate::{
    rollout::{carries_spec, is_within_scale},
    view::{Counts, Object},
};
use fedgate_api::conditions::types::{AVAILABLE, FEDERATED, REPLICAS_READY};
use jiff::Timestamp;

/// The flag that shows hub and binding.
const SEE_HUB: &str = "see --hub-context";

/// The findings about all hops from the project's objects.
pub(super) fn findings(evidence: &Evidence<'_>) -> Findings {
    let Some(deployment) = evidence.deployment else {
        return without_deployment(evidence.workload);
    };
    let cell = cell(deployment);
    Findings {
        project: project(evidence, deployment),
        hub: hub(deployment),
        binding: Finding::new(
            Source::Project,
            format!("{}-workloaddeployment", deployment.name()),
        )
        .unseen(SEE_HUB),
        instances: instances(evidence, deployment),
        projection: projection(deployment, evidence.instances),
        cell,
    }
}

/// Nothing can be known of a city that has no deployment.
fn without_deployment(workload: &Object) -> Findings {
    let since = workload.spec_written();
    let available = workload.condition(AVAILABLE).filter(|c| c.status == "False");
    let reason = available.map(|c| words(c.reason, c.message));
    let detail = match reason {
        Some(reason) if !reason.is_empty() => format!("no deployment for the city; {reason}"),
        _ => "no deployment for the city".to_owned(),
    };
    let unseen = |object| Finding::new(Source::Project, object).unseen("no deployment");
    Findings {
        project: Finding::new(Source::Project, "-").not_yet(since, detail),
        hub: unseen("-"),
        binding: unseen("-"),
        cell: unseen("-"),
        instances: unseen("-"),
        projection: unseen("-"),
    }
}

fn project(evidence: &Evidence<'_>, deployment: &Object) -> Finding {
    let generation = deployment.generation();
    let mut finding = Finding::new(Source::Project, format!("deployment/{}", deployment.name()));
    finding.generation = Some(generation);
    if deployment.is_deleting() {
        let since = deployment.text("/metadata/deletionTimestamp").parse().ok();
        return finding.not_yet(since, "the deployment of an earlier spec is being deleted");
    }
    if carries_spec(evidence.workload, evidence.city, deployment) {
        return finding.holds(deployment.spec_written(), format!("generation {generation}"));
    }
    finding.not_yet(
        evidence.workload.spec_written(),
        format!("generation {generation} has not the workload's spec"),
    )
}

fn hub(deployment: &Object) -> Finding {
    let finding = Finding::new(Source::Project, "condition Federated");
    let observed = deployment.observed_generation(FEDERATED);
    let finding = Finding {
        generation: observed,
        ..finding
    };
    match deployment.condition(FEDERATED) {
        Some(federated) if federated.status == "False" => {
            finding.refused(federated.since, words(federated.reason, federated.message))
        }
        Some(federated) if federated.holds() && observed == Some(deployment.generation()) => finding.holds(
            federated.since,
            format!("carries generation {}", deployment.generation()),
        ),
        Some(_) => finding.not_yet(deployment.spec_written(), still_on(observed)),
        None => finding.not_yet(deployment.spec_written(), "not carried yet"),
    }
}

fn cell(deployment: &Object) -> Finding {
    let observed = deployment.observed_generation(AVAILABLE);
    let finding = Finding {
        generation: observed,
        ..Finding::new(Source::Project, deployment.name())
    };
    let available = deployment.condition(AVAILABLE);
    if observed == Some(deployment.generation()) {
        let since = available.and_then(|available| available.since);
        return finding.holds(since, format!("acted on generation {}", deployment.generation()));
    }
    let detail = match available {
        Some(available) if available.status == "False" => words(available.reason, available.message),
        _ => still_on(observed),
    };
    let refused_at = available.filter(|c| c.status == "False").and_then(|c| c.since);
    finding.not_yet(latest([deployment.spec_written(), refused_at]), detail)
}

fn instances(evidence: &Evidence<'_>, deployment: &Object) -> Finding {
    let counts = Counts::of(deployment);
    let Counts {
        replicas,
        updated,
        ready,
        desired,
    } = counts;
    let finding = Finding::new(Source::Project, format!("{ready} of {desired} ready"));
    if deployment.observed_generation(AVAILABLE) != Some(deployment.generation()) {
        let observed = deployment.observed_generation(AVAILABLE);
        return finding.not_yet(deployment.spec_written(), still_on(observed));
    }
    let is_done = ready >= desired && updated >= desired && replicas <= desired;
    let conditions = [AVAILABLE, REPLICAS_READY].map(|type_| deployment.condition(type_));
    let refused = conditions.into_iter().flatten().find(|c| c.status == "False");
    if is_done && is_within_scale(evidence.workload, evidence.city, deployment) {
        let since = conditions.into_iter().flatten().filter_map(|c| c.since).max();
        return finding.holds(since, "");
    }
    let mut detail = format!("{updated} updated, {replicas} exist");
    if let Some(refused) = refused {
        detail = format!("{}; {detail}", words(refused.reason, refused.message));
    }
    if let Some(unready) = unready(deployment, evidence.instances) {
        detail = format!("{detail}; {unready}");
    }
    let refused_at = refused.and_then(|refused| refused.since);
    finding.not_yet(latest([deployment.spec_written(), refused_at]), detail)
}

/// The first Instance that is not ready, with its reason.
fn unready(deployment: &Object, all: &[Object]) -> Option<String> {
    let own = own(deployment.name(), all);
    let mut unready = own.into_iter().filter_map(|instance| {
        let ready = instance.condition("Ready").filter(|ready| !ready.holds())?;
        Some(format!("{}: {}", instance.name(), ready.reason))
    });
    unready.next()
}

fn projection(deployment: &Object, all: &[Object]) -> Finding {
    let replicas = deployment.number("/status/replicas");
    let own = own(deployment.name(), all);
    let number = i64::try_from(own.len()).unwrap_or(i64::MAX);
    let finding = Finding::new(Source::Project, format!("{number} of {replicas}"));
    let reported = deployment.status_written();
    let foreign: Vec<&str> = own
        .iter()
        .filter(|instance| {
            let owners = instance.list("/metadata/ownerReferences");
            !owners.iter().any(|owner| owner["uid"] == *deployment.uid())
        })
        .map(|instance| instance.name())
        .collect();
    let newest = own.iter().filter_map(|instance| instance.created()).max();
    if !foreign.is_empty() {
        let detail = format!("not owned by the live deployment: {}", foreign.join(", "));
        return finding.not_yet(latest([newest, reported]), detail);
    }
    if number > replicas {
        let surplus: Vec<&str> = own
            .iter()
            .skip(usize::try_from(replicas).unwrap_or_default())
            .map(|instance| instance.name())
            .collect();
        let detail = format!("more than the cell reports: {}", surplus.join(", "));
        return finding.not_yet(latest([newest, reported]), detail);
    }
    if number < replicas {
        let detail = format!("{} not in the project yet", replicas - number);
        return finding.not_yet(latest([newest, reported]), detail);
    }
    finding.holds(latest([newest, reported]), "")
}

pub(super) fn still_on(observed: Option<i64>) -> String {
    match observed {
        Some(generation) => format!("still on generation {generation}"),
        None => "no generation reported yet".to_owned(),
    }
}

/// The later of two times.
pub(super) fn latest(times: [Option<Timestamp>; 2]) -> Option<Timestamp> {
    times.into_iter().flatten().max()
}
