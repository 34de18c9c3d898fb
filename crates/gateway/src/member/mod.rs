//! Reads of an object that lives at one member, of which the index does not tell: its Works, and, while it is being deleted,
//! the object at the member (contract: clusters.md §3.4, §4).

mod watches;
mod works;

pub use watches::Watches;
pub use works::{is_stuck, named, works_resource};

use super::{context::Context, index::rows::guard_holds, pin::Pin};
use fedgate_api::keys;
use fedgate_engine::{
    error::Failure,
    executor::{Answer, at_member},
    key::Plane,
    plan::Target,
};
use fedgate_kinds::Guard;
use kube::core::{ApiResource, ObjectMeta, Status};
use std::{sync::Arc, time::Duration};

/// The object, as the hub and its members know it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Resource of the object.
    pub resource: &'a ApiResource,
    /// Namespace of the object on the hub and at its members.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Name of the binding of its copy.
    pub binding: &'a str,
    /// The guards of its kind; none where nobody asks which spec a member has.
    pub guards: &'a [Guard],
}

impl Subject<'_> {
    /// The object at a member, by the hub's proxy.
    fn at(&self, member: &str) -> Target {
        let proxied = at_member(member, self.resource, self.namespace);
        Target::cluster(Plane::Hub, &proxied, self.name)
    }
}

/// State to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// The Works of the bindings with these ids at this member.
    Works {
        /// The member.
        member: Arc<str>,
        /// The bindings' permanent ids.
        ids: Vec<Arc<str>>,
    },
    /// The Work of the object at this member, which may be that of an earlier binding.
    StuckWork {
        /// The member.
        member: Arc<str>,
    },
    /// The name under which the hub knows the gateway.
    HubUser,
    /// The object at this member, whatever its Works do.
    Object {
        /// The pin, with the UIDs of the copies of ours.
        pin: Arc<Pin>,
    },
    /// The object at this member, once no Work of its binding is left.
    Member {
        /// The pin, with the UIDs of the copies of ours.
        pin: Arc<Pin>,
        /// The binding's permanent id, if it is known.
        id: Option<Arc<str>>,
    },
}

/// State that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The name under which the hub knows the gateway was read into the index.
    HubUser,
    /// All Works of the object are suspended, and none preserves it.
    WorksStopped,
    /// Works go on.
    WorksGoOn,
    /// A Work with this namespace and name is being deleted and does not end.
    WorkStuck(String),
    /// The member has no such object of ours.
    Absent,
    /// The member has the object.
    There {
        /// True if it is being deleted.
        deleting: bool,
        /// Finalizers of the object.
        finalizers: Vec<String>,
        /// Generation of the project's object whose spec it was given last; `None` if it does not name one of this object.
        generation: Option<i64>,
        /// True if a guard of its kind holds in it, or if it is too large to tell.
        guarded: bool,
    },
    /// No answer proves anything, for this reason.
    Unknown(String),
}

/// State that was read, and the object whose next change may change it: its target, and the version that was read.
#[derive(Debug)]
pub struct Sight {
    /// The state.
    pub seen: Seen,
    watched: Option<(Target, String)>,
}

impl From<Seen> for Sight {
    fn from(seen: Seen) -> Self {
        Self { seen, watched: None }
    }
}

/// First and longest time between two probes of one object.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The time until the next probe, after this number of them.
pub fn pause(looks: u32) -> Duration {
    let (first, longest) = LOOK_EVERY;
    first.saturating_mul(1 << looks.min(6)).min(longest)
}

/// Asks Karmada and the member for this state of an object.
pub async fn look(ctx: &Context<'_>, s: Subject<'_>, look: &Look) -> Result<Sight, Failure> {
    match look {
        Look::HubUser => {
            let user = ctx.executor.own_user(&Plane::Hub).await?;
            ctx.index.lock().hub.user = Some(user.into());
            Ok(Seen::HubUser.into())
        }
        Look::Works { member, ids } => works::stopped(ctx, member, ids).await,
        Look::StuckWork { member } => works::stuck(ctx, s, member).await,
        Look::Member { pin, id } => {
            // A Work can outlive its binding, and deletes its object last.
            if let Some(sight) = works::left_over(ctx, s, &pin.member, id.as_deref()).await? {
                return Ok(sight);
            }
            ask(ctx, s, pin).await
        }
        Look::Object { pin } => ask(ctx, s, pin).await,
    }
}

/// Asks a member for the object.
async fn ask(ctx: &Context<'_>, s: Subject<'_>, pin: &Pin) -> Result<Sight, Failure> {
    let target = s.at(&pin.member);
    match ctx.executor.ask(&target).await {
        Ok(answer) => Ok(seen(s, pin, &answer).by(target, &answer)),
        Err(failure) if failure.plane == Plane::Hub && !failure.message.is_empty() => {
            Ok(Seen::Unknown(failure.message).into())
        }
        Err(failure) => Err(failure),
    }
}

impl Seen {
    /// An object that is there is watched.
    fn by(self, target: Target, answer: &Answer) -> Sight {
        let watched = match (&self, answer) {
            (Self::There { .. }, Answer::Found(object)) => object.metadata.resource_version.clone(),
            _ => None,
        };
        Sight {
            seen: self,
            watched: watched.map(|version| (target, version)),
        }
    }
}

/// The state that an answer proves: absence only if the member itself says so of this very object, or has one that is not ours.
fn seen(s: Subject<'_>, pin: &Pin, answer: &Answer) -> Seen {
    match answer {
        Answer::Refused(status) if proves_absence(s.resource, s.name, status) => Seen::Absent,
        Answer::Refused(status) => Seen::Unknown(format!("{} ({})", status.message, status.code)),
        Answer::Found(object) => {
            let annotations = object.metadata.annotations.as_ref();
            let template = annotations.and_then(|all| all.get(keys::TEMPLATE_UID));
            match pin.owns(template.map(String::as_str)) {
                Some(true) => Seen::There {
                    deleting: object.metadata.deletion_timestamp.is_some(),
                    finalizers: object.metadata.finalizers.clone().unwrap_or_default(),
                    generation: generation(pin, &object.metadata),
                    guarded: guard_holds(s.guards, object),
                },
                Some(false) => Seen::Absent,
                None => Seen::Unknown(format!(
                    "it has one of copy {}, which may be an earlier one of ours or of another hub; its operator deletes it \
                     if it is nobody's",
                    template.map_or("", String::as_str)
                )),
            }
        }
    }
}

/// The generation of the project's object whose spec a member's object has: both come in one write of the copy.
fn generation(pin: &Pin, metadata: &ObjectMeta) -> Option<i64> {
    let annotations = metadata.annotations.as_ref()?;
    let is_of_source = annotations.get(keys::SOURCE_UID).map(String::as_str) == Some(&*pin.source_uid);
    let generation = annotations.get(keys::SOURCE_GENERATION)?.parse().ok();
    generation.filter(|_| is_of_source)
}

/// True if a refusal is the member's own word that it has no object of this kind and name: a hub's proxy refuses for reasons of
/// its own, too.
pub fn proves_absence(resource: &ApiResource, name: &str, status: &Status) -> bool {
    let details = status.details.as_ref();
    status.code == 404
        && status.reason == "NotFound"
        && details
            .is_some_and(|of| of.group == resource.group && of.kind == resource.plural && of.name == name)
}

/// True if a user is a `ServiceAccount`. In its name no member can be asked: its groups would have to be bound, too, and with
/// them every `ServiceAccount` of the hub.
pub fn is_service_account(user: &str) -> bool {
    user.starts_with("system:serviceaccount:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::resource;
    use serde_json::{Value, json};

    /// Words for what an answer of the proxy proves of object `lab`, which was delivered.
    fn proves(answer: &Answer) -> &'static str {
        let pin =
            r#"{"member":"dfw-1","memberUid":"m","copyUids":["c-1","c-2"],"sourceUid":"u","delivered":true}"#;
        proves_of(&Pin::parse(pin).unwrap(), answer)
    }

    fn proves_of(pin: &Pin, answer: &Answer) -> &'static str {
        let resource = resource("k8s.example.dev", "v1", "Cluster");
        let subject = Subject {
            resource: &resource,
            namespace: "ns-a1",
            name: "lab",
            binding: "lab-cluster",
            guards: &[],
        };
        match seen(subject, pin, answer) {
            Seen::Absent => "absent",
            Seen::There { deleting: true, .. } => "ends",
            Seen::There { .. } => "there",
            Seen::Unknown(_) => "nothing",
            Seen::WorksStopped | Seen::WorksGoOn | Seen::WorkStuck(_) | Seen::HubUser => "works",
        }
    }

    fn refused(code: u16, reason: &str, details: &Value) -> Answer {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "reason": reason, "message": "no", "details": details});
        Answer::Refused(serde_json::from_value(status).unwrap())
    }

    #[test]
    fn only_the_members_own_word_about_this_object_proves_that_it_is_gone() {
        let own = json!({"name": "lab", "group": "k8s.example.dev", "kind": "clusters"});
        assert_eq!(proves(&refused(404, "NotFound", &own)), "absent");
        for (code, reason, details) in [
            // The hub has no Cluster of the member's name, which may be that of the object.
            (
                404,
                "NotFound",
                json!({"name": "lab", "group": "cluster.karmada.io", "kind": "clusters"}),
            ),
            (
                404,
                "NotFound",
                json!({"name": "lab", "group": "k8s.example.dev", "kind": "machines"}),
            ),
            (
                404,
                "NotFound",
                json!({"name": "other", "group": "k8s.example.dev", "kind": "clusters"}),
            ),
            (404, "NotFound", json!({})),
            (403, "Forbidden", own.clone()),
            (401, "Unauthorized", own.clone()),
            (500, "", own.clone()),
            (503, "ServiceUnavailable", own),
        ] {
            assert_eq!(
                proves(&refused(code, reason, &details)),
                "nothing",
                "{code} {details}"
            );
        }
    }

    #[test]
    fn an_object_of_another_template_is_not_ours() {
        let found = |annotations: &Value, deleted: &Value| {
            let object = json!({"metadata": {"name": "lab", "annotations": annotations, "deletionTimestamp": deleted}});
            Answer::Found(serde_json::from_value(object).unwrap())
        };
        let of = |uid: &str| json!({keys::TEMPLATE_UID: uid});
        assert_eq!(proves(&found(&of("c-2"), &Value::Null)), "there");
        assert_eq!(proves(&found(&of("c-1"), &json!("2026-05-04T10:00:00Z"))), "ends");
        assert_eq!(proves(&found(&of("another"), &Value::Null)), "absent");
        assert_eq!(
            proves(&found(&json!({}), &Value::Null)),
            "there",
            "Karmada may have let go of it"
        );
        let pin = r#"{"member":"dfw-1","memberUid":"m","copyUids":["c-1"],"sourceUid":"u"}"#;
        let mut pin = Pin::parse(pin).unwrap();
        let untold = found(&json!({}), &Value::Null);
        assert_eq!(
            proves_of(&pin, &untold),
            "absent",
            "nothing of ours was delivered"
        );
        assert_eq!(
            proves_of(&pin, &found(&of("c-1"), &Value::Null)),
            "there",
            "the record was to follow"
        );
        assert_eq!(proves_of(&pin, &found(&of("c-0"), &Value::Null)), "absent");
        for number in 2..=65 {
            pin.add_copy(format!("c-{number}").into());
        }
        assert_eq!(pin.copy_uids.len(), 64);
        assert_eq!(
            proves_of(&pin, &found(&of("c-1"), &Value::Null)),
            "nothing",
            "not all copies are known any more: it may be another hub's"
        );
        assert_eq!(proves_of(&pin, &found(&of("c-65"), &Value::Null)), "there");
    }
}
