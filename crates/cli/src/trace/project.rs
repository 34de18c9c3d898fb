//! The findings that the project alone allows.

use super::{Evidence, Finding, Findings, Source};
use crate::{
    rollout::{Phase, carries_spec, counted_phase, workload_refusal},
    view::{City, Condition, Counts, Instances, Object},
};
use fedgate_api::conditions::types::{AVAILABLE, FEDERATED, REPLICAS_READY};
use jiff::Timestamp;

/// The flag that shows hub and binding.
const SEE_HUB: &str = "see --hub-context";

/// The action of the gateway's Events about an Instance that it does not project.
const QUARANTINING: &str = "QuarantiningProjection";

/// The findings about all hops from the project's objects.
pub(super) fn findings(evidence: &Evidence<'_>) -> Findings {
    let Some(deployment) = evidence.deployment else {
        return without_deployment(evidence.workload, evidence.city);
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
fn without_deployment(workload: &Object, city: &City) -> Findings {
    let since = workload.spec_written();
    let reason = workload_refusal(workload, city).map(|refused| refused.text());
    let place = match (&*city.code, &*city.location) {
        ("", "") => "selector",
        ("", _) => "location",
        _ => "city",
    };
    let detail = match reason {
        Some(reason) if !reason.is_empty() => format!("no deployment for the {place}; {reason}"),
        _ => format!("no deployment for the {place}"),
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
        format!("generation {generation} does not match the workload's spec"),
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
        Some(federated) if federated.refuses() => finding.refused(federated.since, federated.text()),
        Some(federated) if federated.holds() && observed == Some(deployment.generation()) => finding.holds(
            federated.since,
            format!("carries generation {}", deployment.generation()),
        ),
        // The gateway writes it again together with the cell's report, so until then hub, binding or cell may be late.
        _ => finding.unseen(format!("{}; {SEE_HUB}", still_on(observed))),
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
    let refused = available.filter(Condition::refuses);
    let detail = refused.map_or_else(|| still_on(observed), |refused| refused.text());
    let refused_at = refused.and_then(|refused| refused.since);
    finding.not_yet(latest([deployment.spec_written(), refused_at]), detail)
}

fn instances(evidence: &Evidence<'_>, deployment: &Object) -> Finding {
    let Counts {
        replicas,
        updated,
        ready,
        desired,
    } = Counts::of(deployment);
    let finding = Finding::new(Source::Project, format!("{ready} of {desired} ready"));
    if deployment.observed_generation(AVAILABLE) != Some(deployment.generation()) {
        let observed = deployment.observed_generation(AVAILABLE);
        return finding.not_yet(deployment.spec_written(), still_on(observed));
    }
    let conditions = [AVAILABLE, REPLICAS_READY].map(|type_| deployment.condition(type_));
    let refused = conditions.into_iter().flatten().find(Condition::refuses);
    if counted_phase(evidence.workload, evidence.city, deployment) == Phase::Done {
        let since = conditions.into_iter().flatten().filter_map(|c| c.since).max();
        return finding.holds(since, "");
    }
    let mut detail = format!("{updated} updated, {replicas} exist");
    if let Some(refused) = refused {
        detail = format!("{}; {detail}", refused.text());
    }
    if let Some((instance, ready)) = evidence.instances.first_unready(deployment.name()) {
        detail = format!("{detail}; {}: {}", instance.name(), ready.reason);
    }
    let refused_at = refused.and_then(|refused| refused.since);
    finding.not_yet(latest([deployment.spec_written(), refused_at]), detail)
}

fn projection(deployment: &Object, all: &Instances) -> Finding {
    let replicas = deployment.number("/status/replicas");
    let own = all.of(deployment.name());
    let number = i64::try_from(own.len()).unwrap_or(i64::MAX);
    let finding = Finding::new(Source::Project, format!("{number} of {replicas}"));
    let reported = deployment.status_written();
    let foreign: Vec<&str> = own
        .iter()
        .filter(|instance| {
            let owners = instance.list("/metadata/ownerReferences");
            !owners.iter().any(|owner| owner["uid"] == *deployment.uid())
        })
        .map(Object::name)
        .collect();
    let newest = own.iter().filter_map(Object::created).max();
    if !foreign.is_empty() {
        let detail = format!("not owned by the live deployment: {}", foreign.join(", "));
        return finding.not_yet(latest([newest, reported]), detail);
    }
    if number > replicas {
        let surplus: Vec<&str> = own
            .iter()
            .skip(usize::try_from(replicas).unwrap_or_default())
            .map(Object::name)
            .collect();
        let detail = format!("more than the cell reports: {}", surplus.join(", "));
        return finding.not_yet(latest([newest, reported]), detail);
    }
    if number < replicas {
        let detail = format!("{} not in the project yet", replicas.saturating_sub(number));
        return finding.not_yet(latest([newest, reported]), detail);
    }
    finding.holds(latest([newest, reported]), "")
}

/// The gateway's last Event about an Instance of the deployment that it does not project.
pub(super) fn quarantine(deployment: &Object, events: &[Object]) -> Option<String> {
    let own = events.iter().filter(|event| {
        event.text("/action") == QUARANTINING && event.text("/regarding/uid") == deployment.uid()
    });
    let time = |event: &Object| -> Option<Timestamp> {
        let repeated = event.text("/series/lastObservedTime").parse().ok();
        repeated.or_else(|| event.text("/eventTime").parse().ok())
    };
    let last = own.max_by_key(|event| time(event))?;
    let at = time(last)
        .map(|time| format!(" at {time:.0}"))
        .unwrap_or_default();
    Some(format!(
        "quarantined{at}: {}: {}",
        last.text("/reason"),
        last.text("/note")
    ))
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
