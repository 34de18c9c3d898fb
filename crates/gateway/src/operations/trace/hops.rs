//! The hops of a deployment's way: a function of what was observed (contract: cli.md §10).

use super::observe::Deployed;
use crate::{
    index::{
        derived::summary::is_refused,
        derived::undelivered::Since,
        rows::{HubCopy, Source, status::ConditionDigest},
    },
    operations::HUB_UNREACHABLE,
};
use fedgate_engine::{clock::Now, runtime::failures::LastFailure, store::table::Row};
use fedgate_operations::views::stuck::is_older;
use fedgate_operations::{Branch, Hop, HopKind, HopSource, HopState, Time};
use std::time::Duration;

/// A hop that waits for longer is broken (`--stuck-after` of `kubectl compute trace`).
const STUCK_AFTER: Duration = Duration::from_mins(2);

/// The way of a deployment; `failure` is the last failure of its key, `outage` says since when the hub is down.
pub(super) fn branch(of: &Deployed, failure: Option<&LastFailure>, outage: Option<&str>, now: Now) -> Branch {
    let mut way = Way {
        of,
        outage,
        now,
        hops: Vec::new(),
        is_cut: false,
    };
    if let Some(source) = way.project() {
        way.write(failure);
        way.hub(source);
        if let Some(copy) = &of.copy {
            way.binding(source, copy);
            way.cell(source, copy);
            way.instances(source);
            way.projection();
        }
    }
    infer(&mut way.hops);
    Branch {
        placement: of.placement.clone(),
        city: of.city.clone(),
        hops: way.hops,
    }
}

/// The hops so far.
struct Way<'a> {
    of: &'a Deployed,
    outage: Option<&'a str>,
    now: Now,
    hops: Vec<Hop>,
    /// True behind the first broken hop: nothing there is broken by its age alone.
    is_cut: bool,
}

fn hop(kind: HopKind, plane: &str, object: &str) -> Hop {
    Hop {
        hop: kind,
        plane: plane.to_owned(),
        object: object.to_owned(),
        state: HopState::Ok,
        since: None,
        wants: None,
        has: None,
        word: String::new(),
        detail: String::new(),
        source: if plane == "project" {
            HopSource::Project
        } else {
            HopSource::Hub
        },
    }
}

/// The reason and the message of a condition that is not True.
fn describe(hop: &mut Hop, condition: &ConditionDigest) {
    condition.reason.as_ref().clone_into(&mut hop.word);
    condition
        .shown
        .as_deref()
        .unwrap_or_default()
        .clone_into(&mut hop.detail);
    hop.since = Some(Time::from_second(condition.since));
}

impl<'a> Way<'a> {
    fn push(&mut self, hop: Hop) {
        self.is_cut |= hop.state == HopState::Broken;
        self.hops.push(hop);
    }

    /// `waiting`, or `broken` if it has lasted since a time that is too long ago.
    fn waits(&self, since: Option<Time>) -> HopState {
        let is_old = since.is_some() && is_older(since, STUCK_AFTER, self.now);
        if is_old && !self.is_cut {
            HopState::Broken
        } else {
            HopState::Waiting
        }
    }

    /// The deployment in the project; `None` ends the way.
    fn project(&mut self) -> Option<&'a Row<Source>> {
        let of = self.of;
        let mut hop = hop(HopKind::Project, "project", &of.name);
        let Some(source) = &of.source else {
            hop.state = HopState::Broken;
            "no deployment exists for this placement and city".clone_into(&mut hop.detail);
            self.push(hop);
            return None;
        };
        hop.wants = Some(source.digest.generation);
        hop.has = Some(source.digest.generation);
        hop.since = Some(Time::from_second(source.digest.created()));
        if source.deleting {
            hop.since = source.digest.deleted.map(Time);
            hop.state = self.waits(hop.since);
            "it is being deleted".clone_into(&mut hop.detail);
            if let Some(condition) = source.digest.status.condition("Federated") {
                condition.reason.as_ref().clone_into(&mut hop.word);
                let shown = condition.shown.as_deref();
                shown.unwrap_or("it is being deleted").clone_into(&mut hop.detail);
            }
        }
        self.push(hop);
        Some(source)
    }

    /// The last failure of its key.
    fn write(&mut self, failure: Option<&LastFailure>) {
        let Some(failure) = failure else { return };
        let mut hop = hop(HopKind::Write, failure.plane.kind(), &failure.object);
        hop.since = Some(Time(failure.since));
        hop.state = self.waits(hop.since);
        failure.category.as_str().clone_into(&mut hop.word);
        hop.detail = format!(
            "{} failed {} times: {}",
            failure.verb, failure.attempts, failure.message
        );
        self.push(hop);
    }

    /// The copy on the hub.
    fn hub(&mut self, source: &Row<Source>) {
        let of = self.of;
        let at = of
            .hub
            .as_deref()
            .map_or_else(String::new, |hub| format!("{hub}/"));
        let mut hop = hop(HopKind::Hub, "hub", &format!("{at}{}", of.name));
        let own = of
            .copy
            .as_ref()
            .filter(|copy| copy.digest.source_uid.as_ref() == Some(&source.uid));
        hop.wants = Some(source.digest.generation);
        hop.has = own.and_then(|copy| copy.digest.source_generation);
        hop.since = own.map(|copy| Time::from_second(copy.digest.created));
        let federated = source.digest.status.condition("Federated");
        if !of.is_hub_seen {
            hop.state = HopState::Unseen;
            "the first lists are not complete".clone_into(&mut hop.detail);
        } else if let Some(condition) = federated.filter(|_| is_refused(source) && !is_of_karmada(source)) {
            hop.state = HopState::Broken;
            describe(&mut hop, condition);
        } else if hop.has < hop.wants && !source.deleting {
            let created = own.is_none().then_some(source.digest.created());
            self.not_yet(&mut hop, of.waits[0], created);
            if let Some(outage) = self.outage {
                HUB_UNREACHABLE.clone_into(&mut hop.word);
                outage.clone_into(&mut hop.detail);
            } else if let Some(condition) = federated.filter(|c| &*c.status == "False") {
                condition.reason.as_ref().clone_into(&mut hop.word);
                condition
                    .shown
                    .as_deref()
                    .unwrap_or_default()
                    .clone_into(&mut hop.detail);
            }
        }
        self.push(hop);
    }

    /// `created` is the time of an object that has never come so far: one that has, and is on its way again, has not waited
    /// since then.
    fn not_yet(&self, hop: &mut Hop, since: Option<Since>, created: Option<i64>) {
        let counted = since.map(|since| Time(since.at));
        hop.since = counted.or_else(|| created.map(Time::from_second));
        hop.state = self.waits(hop.since);
    }

    /// A hop that a generation on its way to the cells has not passed.
    fn not_delivered(&self, hop: &mut Hop, source: &Row<Source>, copy: &Row<HubCopy>) {
        let [to_hub, to_cell, _] = self.of.waits;
        let refused = source.digest.status.condition("Federated");
        let refused = refused.filter(|condition| &*condition.status == "False");
        let created = (!copy.digest.reports()).then_some(copy.digest.created);
        self.not_yet(
            hop,
            to_hub.or(to_cell),
            refused.map(|condition| condition.since).or(created),
        );
    }

    /// Karmada's binding.
    fn binding(&mut self, source: &Row<Source>, copy: &Row<HubCopy>) {
        let of = self.of;
        let mut hop = hop(HopKind::Binding, "hub", &of.binding.0);
        match &of.binding.1 {
            _ if !of.is_complete => {
                hop.state = HopState::Unseen;
                "the first lists are not complete".clone_into(&mut hop.detail);
            }
            None => {
                self.not_delivered(&mut hop, source, copy);
                "Karmada has made no binding".clone_into(&mut hop.detail);
            }
            Some(row) => {
                let clusters = row.digest.clusters.join(", ");
                if row
                    .digest
                    .policy
                    .as_deref()
                    .is_some_and(|policy| !of.policy.is_empty() && policy != of.policy)
                {
                    hop.state = HopState::Broken;
                    "frozen".clone_into(&mut hop.word);
                    let policy = row.digest.policy.as_deref().unwrap_or_default();
                    hop.detail = format!("the policy {policy} of another city claims it");
                } else if row.digest.no_cluster {
                    hop.state = HopState::Broken;
                    "NoClusterFit".clone_into(&mut hop.word);
                    "no cluster fits the city's policy".clone_into(&mut hop.detail);
                } else if !row.digest.scheduled {
                    self.not_delivered(&mut hop, source, copy);
                    "not scheduled yet".clone_into(&mut hop.detail);
                } else if let Some((cell, message)) =
                    row.digest.failed.as_deref().filter(|_| !row.digest.applied)
                {
                    self.not_delivered(&mut hop, source, copy);
                    "ApplyFailed".clone_into(&mut hop.word);
                    let message = fedgate_engine::message::clean(message);
                    hop.detail = format!("not applied at {cell}: {message}");
                } else if row.digest.applied {
                    hop.detail = format!("scheduled to {clusters}, applied");
                } else {
                    self.not_delivered(&mut hop, source, copy);
                    hop.detail = format!("scheduled to {clusters}, not applied yet");
                }
            }
        }
        self.push(hop);
    }

    /// The report of the cells.
    fn cell(&mut self, source: &Row<Source>, copy: &Row<HubCopy>) {
        let of = self.of;
        let names: Vec<&str> = of.cells.iter().map(|cell| &*cell.name).collect();
        let mut hop = hop(HopKind::Cell, "hub", &names.join(", "));
        let status = &copy.digest.status;
        let available = status.condition("Available");
        hop.wants = Some(source.digest.generation);
        hop.has = available
            .and_then(|condition| condition.observed)
            .or(status.observed);
        hop.since = available.map(|condition| Time::from_second(condition.since));
        let problem = of
            .cells
            .iter()
            .find_map(|cell| Some((cell, cell.problem.as_ref()?)));
        let is_reported = copy.digest.reports() && hop.has >= hop.wants;
        if let Some((cell, (reason, since))) = problem {
            hop.object = cell.name.to_string();
            hop.since = Some(Time::from_second(*since));
            // A short interruption of a cell that has reported this generation breaks nothing.
            hop.state = if is_reported {
                self.waits(hop.since)
            } else {
                HopState::Broken
            };
            reason.clone_into(&mut hop.word);
            hop.detail = format!("the Cluster {} is not Ready", cell.name);
        } else if !is_reported {
            self.not_delivered(&mut hop, source, copy);
            "no report of this generation yet".clone_into(&mut hop.detail);
        }
        self.push(hop);
    }

    /// The Instances, as the cells report them.
    fn instances(&mut self, source: &Row<Source>) {
        let rollup = source
            .digest
            .rollup
            .as_deref()
            .and_then(|rollup| rollup.as_ref().ok());
        let Some(rollup) = rollup else { return };
        let counts = rollup.counts;
        let mut hop = hop(HopKind::Instances, "hub", "");
        hop.wants = Some(i64::from(counts.desired_replicas));
        hop.has = Some(i64::from(counts.ready_replicas));
        hop.object = format!("{} of {} ready", counts.ready_replicas, counts.desired_replicas);
        let whole = counts.ready_replicas >= counts.desired_replicas
            && counts.updated_replicas >= counts.desired_replicas
            && counts.replicas <= counts.desired_replicas
            && rollup.acted;
        if !whole {
            let status = &source.digest.status;
            let false_one = |kind: &str| {
                status
                    .condition(kind)
                    .filter(|condition| &*condition.status != "True")
            };
            if let Some(condition) = false_one("Available").or_else(|| false_one("ReplicasReady")) {
                describe(&mut hop, condition);
            }
            hop.state = if rollup.acted {
                self.waits(hop.since)
            } else {
                HopState::Waiting
            };
            if hop.detail.is_empty() {
                hop.detail = format!("{} of the current template", counts.updated_replicas);
            }
        }
        self.push(hop);
    }

    /// The project's Instances.
    fn projection(&mut self) {
        let of = self.of;
        let mut hop = hop(HopKind::Projection, "project", "");
        let projected = of.instances.iter().filter(|row| row.projected).count();
        let number = |count: usize| Some(i64::try_from(count).unwrap_or(i64::MAX));
        (hop.wants, hop.has) = (number(of.instances.len()), number(projected));
        hop.object = format!("{projected} of {}", of.instances.len());
        if !of.is_complete {
            hop.state = HopState::Unseen;
            "the first lists are not complete".clone_into(&mut hop.detail);
        } else if projected < of.instances.len() {
            let missing: Vec<&str> = of
                .instances
                .iter()
                .filter(|row| !row.projected)
                .map(|row| row.name.as_str())
                .take(3)
                .collect();
            hop.since = of.unprojected.map(|since| Time(since.at));
            hop.state = self.waits(hop.since);
            hop.detail = format!("the project lacks, or does not own: {}", missing.join(", "));
        } else if of.extra > 0 {
            hop.state = HopState::Waiting;
            hop.detail = format!(
                "the project has {} more, which no cell has written back",
                of.extra
            );
        }
        self.push(hop);
    }
}

/// True if Karmada, not the gateway, refused the object: the copy is on the hub.
fn is_of_karmada(source: &Row<Source>) -> bool {
    let condition = source.digest.status.condition("Federated");
    condition.is_some_and(|condition| &*condition.reason == "ApplyFailed")
}

/// A hop that waits before a proven cell has been passed.
fn infer(hops: &mut [Hop]) {
    let proven = hops
        .iter()
        .position(|hop| hop.hop == HopKind::Cell && hop.state == HopState::Ok);
    let Some(proven) = proven else { return };
    for hop in &mut hops[..proven] {
        if matches!(hop.hop, HopKind::Hub | HopKind::Binding) && hop.state == HopState::Unseen {
            hop.state = HopState::Ok;
            hop.source = HopSource::Inferred;
        }
    }
}
