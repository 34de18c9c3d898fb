//! The decision for a Secret that a member returns: a pure function of the snapshot (contract: clusters.md §7 rule 3).

use crate::{
    index::{
        rows::{HubCopy, OwnReturn, Returned, Source},
        single_member::{CopyPolicy, Pin, Stage},
    },
    projection::Decision,
    reason::{Verdict, WriteReason},
};
use fedgate_api::{
    keys,
    names::{HubNamespace, ProjectKey},
};
use fedgate_engine::{
    clock::Now,
    key::Plane,
    plan::{Effect, ExactFields, Plan, Target, Write},
    reconcile::throttle::{RETRY_AFTER, Rate, TokenBucket, WriteKind},
    store::table::Row,
};
use fedgate_kinds::{FederatedKind, KindId, PerKind, Return};
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// A Secret that a member returns, and the objects that it depends on. Exists only in a project namespace that owns its hub
/// namespace.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// All federated kinds.
    pub kinds: Arc<PerKind<FederatedKind>>,
    /// v1 Secret.
    pub resource: ApiResource,
    /// The project.
    pub project: ProjectKey,
    /// The namespace in it.
    pub namespace: Arc<str>,
    /// The hub namespace.
    pub hub: HubNamespace,
    /// Name of the Secret at the member and in the project.
    pub name: Arc<str>,
    /// Name of the Secret on the hub; `None` if no pin tells its member.
    pub on_hub: Option<String>,
    /// True if the hub Namespace has this project's UID.
    pub is_of_project: bool,
    /// The Secret on the hub.
    pub returned: Option<Row<Returned>>,
    /// The object that it is of, or that owns the project's Secret while the hub has none.
    pub object: Option<Object>,
    /// The project's Secret with the label of what has come back.
    pub own: Option<Row<OwnReturn>>,
    /// Whether the project has another Secret of the name; `None` if its Secrets are not watched.
    pub taken: Option<bool>,
    /// True if absence from the index proves absence on the hub.
    pub proven: bool,
    /// True while the platform suspends the project.
    pub suspended: bool,
    /// True if the object names another hub, whose gateway has made the project's Secret.
    pub of_other_hub: bool,
}

/// The object for which a Secret comes back.
#[derive(Debug, Clone)]
pub struct Object {
    /// Kind of the object.
    pub kind: KindId,
    /// Name of the object.
    pub name: Arc<str>,
    /// Copy of the object on the hub.
    pub copy: Option<Row<HubCopy>>,
    /// The hub's record of the object's member.
    pub pin: Option<Arc<Pin>>,
    /// The project's object of the name.
    pub source: Option<Row<Source>>,
}

impl Object {
    fn live(&self) -> Option<&Row<Source>> {
        self.source.as_ref().filter(|source| !source.deleting)
    }
}

impl Snapshot {
    /// The project plane.
    pub fn plane(&self) -> Plane {
        Plane::Project(self.project.clone())
    }

    /// The kind of the object.
    pub fn kind_of(&self, object: &Object) -> &FederatedKind {
        &self.kinds[object.kind]
    }
}

/// State that is kept for a Secret which comes back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Limits the updates of the project's Secret.
    pub updates: TokenBucket,
    /// When the project refused the Secret, because it has another one of the name.
    pub refused: Option<Instant>,
}

impl Memory {
    /// How long the Secret is not sent again; `None` if it may be.
    pub fn refused_for(&self, now: Now) -> Option<Duration> {
        let left = RETRY_AFTER.saturating_sub(now.since(self.refused?));
        (!left.is_zero()).then_some(left)
    }
}

/// Decides; `body` is the hub's Secret, if it was just read.
pub fn decide(
    s: &Snapshot,
    memory: &Memory,
    body: Option<&DynamicObject>,
    interval: Duration,
    now: Now,
) -> Decision {
    if s.of_other_hub {
        return Decision::Wait;
    }
    let Some(returned) = &s.returned else {
        return gone(s);
    };
    let r = &returned.digest;
    let body = body.filter(|body| body.metadata.uid.as_deref() == Some(&*returned.uid));
    if !s.is_of_project {
        return Decision::Wait;
    }
    if r.cluster.as_deref() != Some(&*s.project.label()) || r.namespace.as_deref() != Some(&*s.namespace) {
        return Decision::refuse(
            Verdict::IdentityMismatch,
            "its identity labels are not those of its hub Namespace; the member must correct them",
        );
    }
    let Some(object) = &s.object else {
        return Decision::refuse(
            Verdict::NotAllowed,
            "its labels name no object of a kind with returns; the member must correct them",
        );
    };
    let (Some(copy), Some(pin)) = (&object.copy, &object.pin) else {
        return Decision::Wait;
    };
    if let Some(answer) = of_another(r, object, copy, pin) {
        return answer;
    }
    let rule = match admitted(s, object, copy) {
        Ok(rule) => rule,
        Err(answer) => return answer,
    };
    if r.size > rule.max_bytes as usize {
        let (size, most) = (r.size, rule.max_bytes);
        return Decision::refuse(
            Verdict::TooLarge,
            format!(
                "Secret {} has {size} bytes, at most {most} bytes come back",
                s.name
            ),
        );
    }
    let Some(source) = object.live() else {
        return Decision::Wait;
    };
    let is_of = |uid: &Option<Arc<str>>| uid.as_ref() == Some(&source.uid);
    // The planes show different objects of the same name; an event that brings them together follows.
    if !is_of(&r.source_uid) || !is_of(&copy.digest.source_uid) {
        return Decision::Wait;
    }
    write(s, memory, returned, (object, source), body, interval, now)
}

/// The answer if the Secret belongs to another copy or member than the object has.
fn of_another(r: &Returned, object: &Object, copy: &Row<HubCopy>, pin: &Pin) -> Option<Decision> {
    let owner = r.owner.as_ref().filter(|(name, _)| **name == *object.name);
    match owner {
        Some((_, uid)) if *uid == copy.uid => {}
        // The member does not know the new copy yet.
        Some((_, uid)) if pin.copy_uids.contains(uid) => return Some(Decision::Wait),
        _ => {
            return Some(Decision::refuse(
                Verdict::OwnerMismatch,
                "its controller is not the copy of the object that it names; the member must correct it",
            ));
        }
    }
    (r.cell.as_deref() != Some(&*pin.member)).then(|| {
        Decision::refuse(
            Verdict::OwnerMismatch,
            format!(
                "member {} returns it, but its object lives at member {}; the former must delete it",
                r.cell.as_deref().unwrap_or("(unnamed)"),
                pin.member
            ),
        )
    })
}

/// The rule by which the Secret comes back, or the answer if none does.
fn admitted<'a>(s: &'a Snapshot, object: &Object, copy: &Row<HubCopy>) -> Result<&'a Return, Decision> {
    let rules = &s.kinds[object.kind].returns;
    let mut fitting = rules
        .iter()
        .enumerate()
        .filter(|(_, rule)| rule.allows(&s.name))
        .peekable();
    if fitting.peek().is_none() {
        return Err(Decision::refuse(
            Verdict::NotAllowed,
            format!(
                "the kind admits no Secret of the name {}; the member must delete it",
                s.name
            ),
        ));
    }
    let named: Vec<Option<&Arc<str>>> = copy
        .digest
        .returning
        .iter()
        .flat_map(|returning| returning.names())
        .collect();
    let mut awaited = false;
    for (at, rule) in fitting {
        match named.get(at).copied().flatten() {
            Some(name) if *name == s.name => return Ok(rule),
            Some(_) => {}
            None => awaited = true,
        }
    }
    if awaited {
        // The member's status is on its way.
        return Err(Decision::Wait);
    }
    Err(Decision::refuse(
        Verdict::NotAllowed,
        format!(
            "Secret {} is not the one that its object names; the member must delete it",
            s.name
        ),
    ))
}

/// The Secret is gone on the hub: so is the project's, unless the hub has only lost the copy that owned it.
fn gone(s: &Snapshot) -> Decision {
    let idle = Decision::Do(Plan::default());
    let (Some(own), Some(object)) = (&s.own, &s.object) else {
        return idle;
    };
    if own.deleting {
        return idle;
    }
    let delete = |reason| Plan::one(effect(s, Write::delete(&own.uid), reason));
    if is_of_the_dead(own, object) {
        return Decision::Do(delete(WriteReason::ReplaceReturn));
    }
    let is_delivered = object.copy.as_ref().is_some_and(|copy| {
        let policy = CopyPolicy::read(s.kind_of(object), copy.digest.delivery_policy.as_deref());
        object.pin.is_some()
            && !copy.deleting
            && matches!(policy, CopyPolicy::At(Stage::Preserve | Stage::Suspend, _))
    });
    let is_over = object.pin.as_ref().is_some_and(|pin| pin.is_over());
    // While the object lives or is at its member, what came back stays until its copy is delivered again: a hub may have lost
    // copy and pin.
    let is_held = (object.live().is_some() || object.pin.is_some()) && !is_delivered && !is_over;
    if is_held || !s.proven {
        return Decision::Wait;
    }
    Decision::Confirm(delete(WriteReason::DeleteReturn))
}

/// True if the project's Secret is owned by an earlier object than the live one.
fn is_of_the_dead(own: &Row<OwnReturn>, object: &Object) -> bool {
    let owner = own.digest.owner.as_ref();
    let live = object.source.as_ref().map(|source| &source.uid);
    live.is_some_and(|live| owner.is_some_and(|owner| owner.uid != *live))
}

fn write(
    s: &Snapshot,
    memory: &Memory,
    returned: &Row<Returned>,
    (object, source): (&Object, &Row<Source>),
    body: Option<&DynamicObject>,
    interval: Duration,
    now: Now,
) -> Decision {
    let r = &returned.digest;
    let one = |write, reason| Decision::Do(Plan::one(effect(s, write, reason)));
    let is_ours = |own: &&Row<OwnReturn>| own.digest.is_of(s.kind_of(object));
    let Some(own) = s.own.as_ref().filter(is_ours) else {
        if s.own.is_some() || s.taken == Some(true) {
            return name_taken(s);
        }
        if let Some(left) = memory.refused_for(now).filter(|_| s.taken.is_none()) {
            return Decision::Throttled(left);
        }
        let Some(body) = body else { return Decision::Read };
        let body = render(s, body, (object, source), None);
        return one(Write::create(body), WriteReason::CreateReturn);
    };
    if own.deleting {
        return Decision::Wait;
    }
    // The type of a Secret is immutable, and an apply would add an owner to the dead one.
    if is_of_the_dead(own, object) || own.digest.secret_type != r.secret_type {
        return one(Write::delete(&own.uid), WriteReason::ReplaceReturn);
    }
    let is_plain = own.digest.owner.as_ref().is_some_and(|owner| owner.is_plain);
    if own.digest.payload == r.payload && is_plain {
        return Decision::Do(Plan::default());
    }
    // A member that changes a Secret all the time does not cost the project a write for each change.
    if let Some(wait) = memory
        .updates
        .wait(Rate::new(interval), WriteKind::Progress, now.instant)
    {
        return Decision::Throttled(wait);
    }
    if !is_plain {
        let mut patch = render(
            s,
            &DynamicObject::new(&s.name, &s.resource),
            (object, source),
            Some(own),
        );
        let metadata = patch["metadata"].take();
        return one(
            Write::Merge {
                patch: json!({"metadata": metadata}),
            },
            WriteReason::UpdateReturn,
        );
    }
    let Some(body) = body else { return Decision::Read };
    let write = Write::Apply {
        body: render(s, body, (object, source), Some(own)),
        exact: ExactFields::roots(["data"]),
    };
    one(write, WriteReason::UpdateReturn)
}

/// A Secret that is not ours has the name: it is never touched.
pub(super) fn name_taken(s: &Snapshot) -> Decision {
    Decision::refuse(
        Verdict::NameTaken,
        format!(
            "the project has a Secret {} that fedgate did not make; rename or delete it",
            s.name
        ),
    )
}

fn effect(s: &Snapshot, write: Write, reason: WriteReason) -> Effect {
    let target = Target::namespaced(s.plane(), &s.resource, &s.namespace, &s.name);
    Effect::main(target, write, reason)
}

/// Type and data of the hub's Secret, with our label and the live object as owner; nothing of its metadata.
fn render(
    s: &Snapshot,
    body: &DynamicObject,
    (object, source): (&Object, &Row<Source>),
    own: Option<&Row<OwnReturn>>,
) -> Value {
    let resource = &s.kind_of(object).resource;
    let owner = json!({"apiVersion": resource.api_version, "kind": resource.kind, "name": &*object.name,
        "uid": &*source.uid});
    let mut metadata = json!({
        "name": &*s.name,
        "namespace": &*s.namespace,
        "labels": {keys::RETURNED: "true"},
        "ownerReferences": [owner],
    });
    if let Some(own) = own {
        metadata["uid"] = json!(&*own.uid);
    }
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    for field in ["type", "data"] {
        if let Some(value) = body.data.get(field).filter(|value| !value.is_null()) {
            secret[field] = value.clone();
        }
    }
    secret
}
