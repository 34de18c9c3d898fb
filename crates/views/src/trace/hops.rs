//! The hops of a deployment's way: a function of what was observed (contract: cli.md §10).

use super::observe::Deployed;
use crate::HUB_UNREACHABLE;
use fedgate_engine::{clock::Now, runtime::failures::LastFailure, store::table::Row};
use fedgate_gateway::index::{
    ObjectRef,
    derived::summary::is_refused,
    derived::undelivered::Since,
    rows::{HubCopy, Source, status::ConditionDigest},
};
use fedgate_operations::views::stuck::is_older;
use fedgate_operations::{Branch, Hop, HopKind, HopSource, HopState, Stage, Time};
use std::time::Duration;

/// A hop that waits for longer is broken (`--stuck-after` of `kubectl compute trace`).
const STUCK_AFTER: Duration = Duration::from_mins(2);

/// The way of a deployment; `failure` is the last failure of its key, `outage` says since when the hub is down.
pub(super) fn branch(
    of: &Deployed<'_>,
    failure: Option<&LastFailure>,
    outage: Option<&str>,
    now: Now,
) -> Branch {
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
        if let Some(copy) = of.copy {
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
    of: &'a Deployed<'a>,
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

/// Detail of a hop that the index does not show yet.
const INCOMPLETE: &str = "the first lists are not complete";

fn set(hop: &mut Hop, state: HopState, word: &str, detail: impl Into<String>) {
    (hop.state, hop.word, hop.detail) = (state, word.to_owned(), detail.into());
}

/// The reason and the message of a condition that is not True.
fn describe(hop: &mut Hop, condition: &ConditionDigest) {
    hop.word = condition.reason.to_string();
    condition
        .shown
        .as_deref()
        .unwrap_or_default()
        .clone_into(&mut hop.detail);
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
        let mut hop = hop(HopKind::Project, "project", &of.object.name);
        let Some(source) = of.source else {
            let detail = "no deployment exists for this placement and city";
            set(&mut hop, HopState::Broken, "", detail);
            self.push(hop);
            return None;
        };
        hop.wants = Some(source.digest.generation);
        hop.has = hop.wants;
        hop.since = Some(Time::from_second(source.digest.created()));
        if source.deleting {
            let federated = source.digest.status.condition("Federated");
            let word = federated.map_or("", |condition| &*condition.reason);
            let detail = federated.and_then(|condition| condition.shown.as_deref());
            hop.since = source.digest.deleted.map(Time);
            let state = self.waits(hop.since);
            set(&mut hop, state, word, detail.unwrap_or("it is being deleted"));
        }
        self.push(hop);
        Some(source)
    }

    /// The last failure of its key.
    fn write(&mut self, failure: Option<&LastFailure>) {
        let Some(failure) = failure else { return };
        let mut hop = hop(HopKind::Write, failure.plane.kind(), &failure.object);
        hop.since = Some(Time(failure.since));
        let LastFailure {
            verb,
            attempts,
            message,
            ..
        } = failure;
        let detail = format!("{verb} failed {attempts} times: {message}");
        let state = self.waits(hop.since);
        set(&mut hop, state, failure.category.as_str(), detail);
        self.push(hop);
    }

    /// The copy on the hub.
    fn hub(&mut self, source: &Row<Source>) {
        let of = self.of;
        let ObjectRef { hub: at, name, .. } = &of.object;
        let path = format!("{at}/{name}");
        let mut hop = hop(HopKind::Hub, "hub", path.trim_start_matches('/'));
        let is_own = |copy: &&Row<HubCopy>| copy.digest.source_uid.as_ref() == Some(&source.uid);
        let own = of.copy.filter(is_own);
        hop.wants = Some(source.digest.generation);
        hop.has = own.and_then(|copy| copy.digest.source_generation);
        hop.since = own.map(|copy| Time::from_second(copy.digest.created));
        let federated = source.digest.status.condition("Federated");
        if !of.index.specs_synced(of.project) {
            set(&mut hop, HopState::Unseen, "", INCOMPLETE);
        } else if let Some(condition) = federated.filter(|_| is_refused(source) && !is_of_karmada(source)) {
            hop.state = HopState::Broken;
            hop.since = Some(Time::from_second(condition.since));
            describe(&mut hop, condition);
        } else if hop.has < hop.wants && !source.deleting {
            let created = own.is_none().then_some(source.digest.created());
            self.not_yet(&mut hop, of.waits(Stage::ProjectToHub), created);
            if let Some(outage) = self.outage {
                let state = hop.state;
                set(&mut hop, state, HUB_UNREACHABLE, outage);
            } else if let Some(condition) = federated.filter(|c| &*c.status == "False") {
                describe(&mut hop, condition);
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
        let stages = [Stage::ProjectToHub, Stage::HubToCell];
        let since = stages.into_iter().find_map(|stage| self.of.waits(stage));
        let refused = source.digest.status.condition("Federated");
        let refused = refused.filter(|condition| &*condition.status == "False");
        let created = (!copy.digest.reports()).then_some(copy.digest.created);
        self.not_yet(hop, since, refused.map(|condition| condition.since).or(created));
    }

    /// Karmada's binding.
    fn binding(&mut self, source: &Row<Source>, copy: &Row<HubCopy>) {
        let of = self.of;
        let is_complete = of.index.is_complete(of.project);
        let name = of.index.binding_name(of.object.kind, &of.object.name);
        let mut hop = hop(HopKind::Binding, "hub", &name);
        let Some(row) = of.binding.filter(|_| is_complete) else {
            if is_complete {
                set(&mut hop, HopState::Waiting, "", "Karmada has made no binding");
                self.not_delivered(&mut hop, source, copy);
            } else {
                set(&mut hop, HopState::Unseen, "", INCOMPLETE);
            }
            return self.push(hop);
        };
        let binding = &row.digest;
        let clusters = binding.clusters.join(", ");
        let policy = binding.policy.as_deref();
        let foreign = policy.filter(|policy| of.policy().is_some_and(|own| **own != **policy));
        let failed = binding.failed.as_deref().filter(|_| !binding.applied);
        let (state, word, detail) = match (foreign, failed) {
            (Some(policy), _) => (
                HopState::Broken,
                "frozen",
                format!("the policy {policy} of another city claims it"),
            ),
            _ if binding.no_cluster => (
                HopState::Broken,
                "NoClusterFit",
                "no cluster fits the city's policy".to_owned(),
            ),
            _ if !binding.scheduled => (HopState::Waiting, "", "not scheduled yet".to_owned()),
            (_, Some((cell, message))) => {
                let message = fedgate_engine::message::clean(message);
                let detail = format!("not applied at {cell}: {message}");
                (HopState::Waiting, "ApplyFailed", detail)
            }
            _ if binding.applied => (HopState::Ok, "", format!("scheduled to {clusters}, applied")),
            _ => {
                let detail = format!("scheduled to {clusters}, not applied yet");
                (HopState::Waiting, "", detail)
            }
        };
        set(&mut hop, state, word, detail);
        if state == HopState::Waiting {
            self.not_delivered(&mut hop, source, copy);
        }
        self.push(hop);
    }

    /// The report of the cells.
    fn cell(&mut self, source: &Row<Source>, copy: &Row<HubCopy>) {
        let of = self.of;
        let mut hop = hop(HopKind::Cell, "hub", &of.clusters().join(", "));
        let status = &copy.digest.status;
        let available = status.condition("Available");
        hop.wants = Some(source.digest.generation);
        hop.has = available
            .and_then(|available| available.observed)
            .or(status.observed);
        hop.since = available.map(|condition| Time::from_second(condition.since));
        let is_reported = copy.digest.reports() && hop.has >= hop.wants;
        if let Some((cell, reason, since)) = of.unready() {
            cell.clone_into(&mut hop.object);
            hop.since = Some(Time::from_second(since));
            // A short interruption of a cell that has reported this generation breaks nothing.
            let state = if is_reported {
                self.waits(hop.since)
            } else {
                HopState::Broken
            };
            let detail = format!("the Cluster {cell} is not Ready");
            set(&mut hop, state, reason, detail);
        } else if !is_reported {
            set(
                &mut hop,
                HopState::Waiting,
                "",
                "no report of this generation yet",
            );
            self.not_delivered(&mut hop, source, copy);
        }
        self.push(hop);
    }

    /// The Instances, as the cells report them.
    fn instances(&mut self, source: &Row<Source>) {
        let Some(rollup) = source.digest.rolled_up() else {
            return;
        };
        let counts = rollup.counts;
        let (wanted, ready) = (counts.desired_replicas, counts.ready_replicas);
        let mut hop = hop(HopKind::Instances, "hub", &format!("{ready} of {wanted} ready"));
        (hop.wants, hop.has) = (Some(wanted.into()), Some(ready.into()));
        let fits = ready >= wanted && counts.updated_replicas >= wanted && counts.replicas <= wanted;
        if !fits || !rollup.acted {
            let conditions = ["Available", "ReplicasReady"].into_iter();
            let mut conditions = conditions.filter_map(|kind| source.digest.status.condition(kind));
            if let Some(condition) = conditions.find(|condition| &*condition.status != "True") {
                hop.since = Some(Time::from_second(condition.since));
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
        let missing: Vec<&str> = of
            .instances
            .iter()
            .filter(|row| !row.projected)
            .map(|row| row.name.as_str())
            .collect();
        let (all, projected) = (of.instances.len(), of.instances.len() - missing.len());
        (hop.wants, hop.has) = (i64::try_from(all).ok(), i64::try_from(projected).ok());
        hop.object = format!("{projected} of {all}");
        if !of.index.is_complete(of.project) {
            set(&mut hop, HopState::Unseen, "", INCOMPLETE);
        } else if !missing.is_empty() {
            let shown = missing[..missing.len().min(3)].join(", ");
            let waits = of.instances.iter().filter_map(|row| of.instance_waits(&row.name));
            hop.since = waits.min().map(|since| Time(since.at));
            let state = self.waits(hop.since);
            let detail = format!("the project lacks, or does not own: {shown}");
            set(&mut hop, state, "", detail);
        } else if of.extra > 0 {
            let detail = format!(
                "the project has {} more, which no cell has written back",
                of.extra
            );
            set(&mut hop, HopState::Waiting, "", detail);
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
