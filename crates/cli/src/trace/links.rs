//! The state of each hop as the project's objects tell it, before its age counts.

use super::{Evidence, Hop, Link, State};
use crate::{
    rollout::{Phase, carries_spec, counted_phase, workload_refusal},
    view::{City, Condition, Counts, Object},
};
use fedgate_api::conditions::types::{AVAILABLE, FEDERATED, PROGRESSING, REPLICAS_READY};
use jiff::Timestamp;

/// The detail of a hop of which no object of the project tells.
const UNSEEN: &str = "the operator sees it";

/// The action of the gateway's Events about an Instance that it does not project.
const QUARANTINING: &str = "QuarantiningProjection";

impl Link {
    fn new(hop: Hop, object: impl Into<String>) -> Self {
        Self {
            hop,
            object: object.into(),
            state: State::Ok,
            since: None,
            detail: String::new(),
            generation: None,
            is_inferred: false,
        }
    }

    fn with(self, state: State, since: Option<Timestamp>, detail: impl Into<String>) -> Self {
        Self {
            state,
            since,
            detail: detail.into(),
            ..self
        }
    }

    fn holds(self, since: Option<Timestamp>, detail: impl Into<String>) -> Self {
        self.with(State::Ok, since, detail)
    }

    fn not_yet(self, since: Option<Timestamp>, detail: impl Into<String>) -> Self {
        self.with(State::Waiting, since, detail)
    }

    fn unseen(self, detail: impl Into<String>) -> Self {
        self.with(State::Unseen, None, detail)
    }
}

/// All hops of a city.
pub(super) fn links(evidence: &Evidence<'_>) -> [Link; 6] {
    let Some(deployment) = evidence.deployment else {
        return without_deployment(evidence.workload, evidence.city);
    };
    let binding = format!("{}-workloaddeployment", deployment.name());
    [
        project(evidence, deployment),
        hub(deployment),
        Link::new(Hop::Binding, binding).unseen(UNSEEN),
        cell(deployment),
        instances(evidence, deployment),
        projection(evidence, deployment),
    ]
}

/// The hops of a city without a deployment, of which nothing but that is known.
fn without_deployment(workload: &Object, city: &City) -> [Link; 6] {
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
    let unseen = |hop| Link::new(hop, "-").unseen("no deployment");
    [
        Link::new(Hop::Project, "-").not_yet(workload.spec_written(), detail),
        unseen(Hop::Hub),
        unseen(Hop::Binding),
        unseen(Hop::Cell),
        unseen(Hop::Instances),
        unseen(Hop::Projection),
    ]
}

fn project(evidence: &Evidence<'_>, deployment: &Object) -> Link {
    let generation = deployment.generation();
    let mut link = Link::new(Hop::Project, format!("deployment/{}", deployment.name()));
    link.generation = Some(generation);
    if deployment.is_deleting() {
        let since = deployment.text("/metadata/deletionTimestamp").parse().ok();
        return link.not_yet(since, "the deployment of an earlier spec is being deleted");
    }
    if carries_spec(evidence.workload, evidence.city, deployment) {
        return link.holds(deployment.spec_written(), format!("generation {generation}"));
    }
    link.not_yet(
        evidence.workload.spec_written(),
        format!("generation {generation} does not match the workload's spec"),
    )
}

fn hub(deployment: &Object) -> Link {
    let observed = deployment.observed_generation(FEDERATED);
    let link = Link {
        generation: observed,
        ..Link::new(Hop::Hub, "condition Federated")
    };
    match deployment.condition(FEDERATED) {
        Some(federated) if federated.refuses() => link.with(State::Broken, federated.since, federated.text()),
        Some(federated) if federated.holds() && observed == Some(deployment.generation()) => link.holds(
            federated.since,
            format!("carries generation {}", deployment.generation()),
        ),
        // The gateway writes it again together with the cell's report, so until then hub, binding or cell may be late.
        _ => link.unseen(format!("{}; {UNSEEN}", still_on(observed))),
    }
}

fn cell(deployment: &Object) -> Link {
    let observed = deployment.observed_generation(AVAILABLE);
    let link = Link {
        generation: observed,
        ..Link::new(Hop::Cell, deployment.name())
    };
    let available = deployment.condition(AVAILABLE);
    if observed == Some(deployment.generation()) {
        let since = available.and_then(|available| available.since);
        return link.holds(since, format!("acted on generation {}", deployment.generation()));
    }
    let refused = available.filter(Condition::refuses);
    let detail = refused.map_or_else(|| still_on(observed), |refused| refused.text());
    let refused_at = refused.and_then(|refused| refused.since);
    link.not_yet(deployment.spec_written().max(refused_at), detail)
}

fn instances(evidence: &Evidence<'_>, deployment: &Object) -> Link {
    let Counts {
        replicas,
        updated,
        ready,
        desired,
    } = Counts::of(deployment);
    let link = Link::new(Hop::Instances, format!("{ready} of {desired} ready"));
    if deployment.observed_generation(AVAILABLE) != Some(deployment.generation()) {
        let observed = deployment.observed_generation(AVAILABLE);
        return link.not_yet(deployment.spec_written(), still_on(observed));
    }
    let conditions = [PROGRESSING, AVAILABLE, REPLICAS_READY].map(|type_| deployment.condition(type_));
    let refused = conditions.into_iter().flatten().find(Condition::refuses);
    if counted_phase(evidence.workload, evidence.city, deployment) == Phase::Done {
        let since = conditions.into_iter().flatten().filter_map(|c| c.since).max();
        return link.holds(since, "");
    }
    let mut detail = format!("{updated} updated, {replicas} exist");
    if let Some(refused) = refused {
        detail = format!("{}; {detail}", refused.text());
    }
    if let Some((instance, ready)) = evidence.instances.first_unready(deployment.name()) {
        // Without a condition that refuses, the Instance says alone what is wrong.
        let why = match refused {
            Some(_) => ready.reason.to_owned(),
            None => ready.text(),
        };
        detail = format!("{detail}; {}: {why}", instance.name());
    }
    let refused_at = refused.and_then(|refused| refused.since);
    link.not_yet(deployment.spec_written().max(refused_at), detail)
}

fn projection(evidence: &Evidence<'_>, deployment: &Object) -> Link {
    let replicas = deployment.number("/status/replicas");
    let own = evidence.instances.of(deployment.name());
    let number = i64::try_from(own.len()).unwrap_or(i64::MAX);
    let is_foreign = |instance: &&Object| {
        let owners = instance.list("/metadata/ownerReferences");
        !owners.iter().any(|owner| owner["uid"] == *deployment.uid())
    };
    let foreign: Vec<&str> = own.iter().filter(is_foreign).map(Object::name).collect();
    let surplus = own.iter().skip(usize::try_from(replicas).unwrap_or_default());
    let surplus: Vec<&str> = surplus.map(Object::name).collect();
    let fault = if !foreign.is_empty() {
        Some(format!(
            "not owned by the live deployment: {}",
            foreign.join(", ")
        ))
    } else if !surplus.is_empty() {
        Some(format!("more than the cell reports: {}", surplus.join(", ")))
    } else if number < replicas {
        Some(format!(
            "{} not in the project yet",
            replicas.saturating_sub(number)
        ))
    } else {
        None
    };
    let newest = own.iter().filter_map(Object::created).max();
    let since = newest.max(deployment.status_written());
    let link = Link::new(Hop::Projection, format!("{number} of {replicas}"));
    match (fault, quarantine(deployment, evidence.events)) {
        (None, _) => link.holds(since, ""),
        (Some(fault), None) => link.not_yet(since, fault),
        (Some(fault), Some(quarantine)) => link.not_yet(since, format!("{fault}; {quarantine}")),
    }
}

/// The gateway's last Event about an Instance of the deployment that it does not project.
fn quarantine(deployment: &Object, events: &[Object]) -> Option<String> {
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

fn still_on(observed: Option<i64>) -> String {
    match observed {
        Some(generation) => format!("still on generation {generation}"),
        None => "no generation reported yet".to_owned(),
    }
}
