//! Reads of an object that lives at one member and is being deleted, of which the index does not tell: its Works, and the
//! object at the member (contract: clusters.md §3.4).

use super::{context::Context, index::resource, pin::Pin};
use fedgate_api::keys;
use fedgate_engine::{
    error::Failure,
    executor::{Answer, at_member},
    key::{Key, Plane},
    plan::Target,
    random::HashMap,
    runtime::queue::Priority,
};
use jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject, ObjectMeta, Status};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::Instant};

/// Before the name of a member in the Namespace of its Works.
const WORKS_PREFIX: &str = "karmada-es-";

/// The object, as the hub and its members know it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its kind.
    pub resource: &'a ApiResource,
    /// Its namespace there.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Name of the binding of its copy.
    pub binding: &'a str,
}

impl Subject<'_> {
    /// The object at a member, by the hub's proxy.
    fn at(&self, member: &str) -> Target {
        let proxied = at_member(member, self.resource, self.namespace);
        Target::cluster(Plane::Hub, &proxied, self.name)
    }
}

/// Watches of members' objects whose end is awaited, by the key that each enqueues.
#[derive(Debug, Default)]
pub struct Watches(Mutex<HashMap<Key, Watch>>);

/// The outcome of a wait for a change, no sooner than the first look again would be: a member may change its object all the
/// time.
async fn after_pause(change: impl Future<Output = bool>) -> bool {
    let soonest = Instant::now() + pause(0);
    let has_changed = change.await;
    if has_changed {
        tokio::time::sleep_until(soonest).await;
    }
    has_changed
}

/// A watch; it ends when this is dropped.
#[derive(Debug)]
struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Most of them at a time; those beyond are looked at now and then.
const WATCHES: usize = 64;

impl Watches {
    /// Enqueues the key at the next change of an object that was seen at its member.
    pub fn wake(&self, ctx: &Context<'_>, key: &Key, s: Subject<'_>, (member, version): (&str, &str)) {
        let mut watches = self.0.lock();
        watches.retain(|_, task| !task.0.is_finished());
        if watches.len() >= WATCHES && !watches.contains_key(key) {
            return;
        }
        let Ok(change) = ctx.executor.next_change(&s.at(member), version) else {
            return;
        };
        let (queue, own) = (ctx.queue.clone(), key.clone());
        let task = tokio::spawn(async move {
            if after_pause(change).await {
                queue.extend([own], Priority::Fresh);
            }
        });
        watches.insert(key.clone(), Watch(task));
    }

    /// Ends the watch that would wake a key.
    pub fn end(&self, key: &Key) {
        self.0.lock().remove(key);
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
    /// The name under which the hub knows the gateway.
    HubUser,
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
    /// The name under which the hub knows the gateway; the index has it.
    HubUser,
    /// All its Works are suspended, and none preserves its object.
    WorksStopped,
    /// Works go on.
    WorksGoOn,
    /// This Work is being deleted and does not end; its name with its Namespace.
    WorkStuck(String),
    /// The member has no such object of ours.
    Absent,
    /// The member has the object; its finalizers.
    There {
        /// True if it is being deleted.
        deleting: bool,
        /// Its finalizers.
        finalizers: Vec<String>,
        /// Its resourceVersion.
        version: String,
    },
    /// No answer proves anything; the reason.
    Unknown(String),
}

/// First and longest time between two looks.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The time until the next look, after so many.
pub fn pause(looks: u32) -> Duration {
    let (first, longest) = LOOK_EVERY;
    first.saturating_mul(1 << looks.min(6)).min(longest)
}

/// Looks.
pub async fn look(ctx: &Context<'_>, s: Subject<'_>, look: &Look) -> Result<Seen, Failure> {
    match look {
        Look::HubUser => {
            let user = ctx.executor.own_user(&Plane::Hub).await?;
            ctx.index.lock().hub_user = Some(user.into());
            Ok(Seen::HubUser)
        }
        Look::Works { member, ids } => {
            for id in ids {
                if !works(ctx, member, Some(id)).await?.iter().all(is_stopped) {
                    return Ok(Seen::WorksGoOn);
                }
            }
            Ok(Seen::WorksStopped)
        }
        Look::Member { pin, id } => {
            // A Work can outlive its binding, and deletes its object last.
            let left = works(ctx, &pin.member, id.as_ref()).await?;
            if let Some(seen) = left_over(&left, s, ctx.now().wall) {
                return Ok(seen);
            }
            match ctx.executor.ask(&s.at(&pin.member)).await {
                Ok(answer) => Ok(seen(s, pin, &answer)),
                Err(failure) if failure.plane == Plane::Hub && !failure.message.is_empty() => {
                    Ok(Seen::Unknown(failure.message))
                }
                Err(failure) => Err(failure),
            }
        }
    }
}

/// Karmada's Work.
pub fn works_resource() -> ApiResource {
    resource("work.karmada.io", "v1alpha1", "Work", "works")
}

/// The Works at a member: those of a binding, or all if its id is not known.
async fn works(
    ctx: &Context<'_>,
    member: &str,
    id: Option<&Arc<str>>,
) -> Result<Vec<DynamicObject>, Failure> {
    let target = Target::namespaced(
        Plane::Hub,
        &works_resource(),
        &format!("{WORKS_PREFIX}{member}"),
        "",
    );
    let label = id.map(|id| (keys::BINDING_ID, &**id));
    ctx.executor.list(&target, label).await
}

/// True if a Work is of the binding of the object's copy.
fn is_of(work: &DynamicObject, s: Subject<'_>) -> bool {
    let annotations = work.metadata.annotations.as_ref();
    let says =
        |key: &str, value: &str| annotations.is_some_and(|all| all.get(key).is_some_and(|v| v == value));
    says(keys::BINDING_NAMESPACE, s.namespace) && says(keys::BINDING_NAME, s.binding)
}

/// True if Karmada dispatches nothing of a Work, and deletes its object with it.
fn is_stopped(work: &DynamicObject) -> bool {
    let spec = &work.data["spec"];
    spec["suspendDispatching"] == true && spec["preserveResourcesOnDeletion"] != true
}

/// The state that Works of the object's binding prove; `None` if there are none.
fn left_over(works: &[DynamicObject], s: Subject<'_>, now: Timestamp) -> Option<Seen> {
    let mut goes_on = None;
    for work in works.iter().filter(|work| is_of(work, s)) {
        if is_stuck(&work.metadata, now) {
            return Some(Seen::WorkStuck(named(&work.metadata)));
        }
        goes_on = Some(Seen::WorksGoOn);
    }
    goes_on
}

/// Time after which a Work that is being deleted counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// True if a Work is being deleted for longer than that takes.
pub fn is_stuck(work: &ObjectMeta, now: Timestamp) -> bool {
    let since = work.deletion_timestamp.as_ref().map(|time| time.0);
    since.is_some_and(|since| now.duration_since(since).unsigned_abs() >= STUCK_AFTER && now >= since)
}

/// Namespace and name of a Work.
pub fn named(work: &ObjectMeta) -> String {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", text(&work.namespace), text(&work.name))
}

/// The state that an answer proves: absence only if the member itself says so of this very object, or has one that is not ours.
fn seen(s: Subject<'_>, pin: &Pin, answer: &Answer) -> Seen {
    match answer {
        Answer::Refused(status) if proves_absence(s.resource, s.name, status) => Seen::Absent,
        Answer::Refused(status) => Seen::Unknown(format!("{} ({})", status.message, status.code)),
        Answer::Found(object) => {
            let annotations = object.metadata.annotations.as_ref();
            let template = annotations.and_then(|all| all.get(keys::TEMPLATE_UID));
            if template.is_some_and(|uid| !pin.copy_uids.iter().any(|own| **own == **uid)) {
                return Seen::Absent;
            }
            Seen::There {
                deleting: object.metadata.deletion_timestamp.is_some(),
                finalizers: object.metadata.finalizers.clone().unwrap_or_default(),
                version: object.metadata.resource_version.clone().unwrap_or_default(),
            }
        }
    }
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
    use serde_json::{Value, json};

    /// Words for what an answer of the proxy proves of object `lab`.
    fn proves(answer: &Answer) -> &'static str {
        let resource = resource("k8s.example.dev", "v1", "Cluster", "clusters");
        let pin =
            r#"{"member":"dfw-1","memberUid":"m","copyUids":["c-1","c-2"],"sourceUid":"u","delivered":true}"#;
        let subject = Subject {
            resource: &resource,
            namespace: "ns-a1",
            name: "lab",
            binding: "lab-cluster",
        };
        match seen(subject, &Pin::parse(pin).unwrap(), answer) {
            Seen::Absent => "absent",
            Seen::There { deleting: true, .. } => "ends",
            Seen::There { .. } => "there",
            Seen::Unknown(_) => "nothing",
            Seen::WorksStopped | Seen::WorksGoOn | Seen::WorkStuck(_) | Seen::HubUser => "works",
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_changes_its_object_all_the_time_is_asked_once_a_second() {
        let begin = Instant::now();
        for _ in 0..3 {
            assert!(after_pause(async { true }).await);
        }
        assert_eq!(begin.elapsed(), Duration::from_secs(3));
        let late = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            true
        };
        let begin = Instant::now();
        assert!(after_pause(late).await);
        assert_eq!(
            begin.elapsed(),
            Duration::from_secs(5),
            "no later than its change"
        );
        assert!(!after_pause(async { false }).await);
        assert_eq!(begin.elapsed(), Duration::from_secs(5));
    }

    #[test]
    fn a_work_is_stuck_when_its_deletion_takes_too_long() {
        let work = |deleted: Value| {
            let work = json!({"metadata": {"namespace": "karmada-es-dfw-1", "name": "lab-1", "deletionTimestamp": deleted}});
            serde_json::from_value::<DynamicObject>(work).unwrap()
        };
        let now = "2026-05-04T10:00:10Z".parse().unwrap();
        for (deleted, stuck) in [
            (json!("2026-05-04T10:00:05Z"), true),
            (json!("2026-05-04T10:00:06Z"), false),
            (json!("2026-05-04T10:00:59Z"), false),
            (Value::Null, false),
        ] {
            assert_eq!(is_stuck(&work(deleted.clone()).metadata, now), stuck, "{deleted}");
        }
        assert_eq!(named(&work(Value::Null).metadata), "karmada-es-dfw-1/lab-1");
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
    }
}
