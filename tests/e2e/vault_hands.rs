//! What hands do on the hub to a vault and its seal (tests/kinds), one after the other: nothing of it ends what took its
//! member an hour to build.

use crate::{
    adopted,
    lanes::{is, pin, preserved, works},
    support::{
        Case, annotation, has_finalizer,
        kinds::{CLUSTER, NAMESPACE, POLICY, SEAL, VAULT, WORK},
        lone_trials, seconds, uid, wait_for, with_cleanup,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};

lone_trials![v50_hands_on_the_hub_end_neither_a_vault_nor_its_seal];

const NAME: &str = "gold";
const WAX: &str = "wax";
/// Whoever builds at the member lets nothing go by itself.
const DRAIN: &str = "example.fedgate.dev/drain";

/// The vault and its seal at the member as they were when the first hand came, and how often their tenant has edited them.
struct Built<'a> {
    case: &'a Case,
    vault: String,
    seal: String,
    edits: i64,
    /// The member's version from which its history has not been looked at.
    since: String,
}

impl<'a> Built<'a> {
    async fn new(case: &'a Case) -> Self {
        adopted::delivered(case).await;
        let at = &case.dfw.plane;
        let held = json!({"metadata": {"finalizers": [DRAIN]}});
        let vault = at.merge(&VAULT, &case.hub_ns, NAME, held.clone()).await;
        let seal = at.merge(&SEAL, &case.hub_ns, WAX, held).await;
        Self {
            case,
            vault: uid(&vault).to_owned(),
            seal: uid(&seal).to_owned(),
            edits: 1,
            since: at.version(&VAULT, &case.hub_ns).await,
        }
    }

    /// Edits reach both, which are what they were.
    async fn follow(&mut self, hand: &str) {
        let case = self.case;
        self.edits += 1;
        let (n, motto) = (self.edits, format!("m{}", self.edits));
        let began = tokio::time::Instant::now();
        case.merge(&VAULT, NAME, json!({"spec": {"size": n}})).await;
        let edit = json!({"spec": {"motto": motto}});
        case.merge(&SEAL, WAX, edit).await;
        let at = &case.dfw.plane;
        let vault = at
            .sees(&VAULT, &case.hub_ns, NAME, "has the edit", seconds(90), |o| {
                o["spec"]["size"] == n
            })
            .await;
        let seal = at
            .sees(&SEAL, &case.hub_ns, WAX, "has the edit", seconds(90), |o| {
                o["spec"]["motto"] == *motto
            })
            .await;
        let took = began.elapsed().as_secs_f64();
        eprintln!("    {hand}: the edits have arrived after {took:.1} s");
        for (object, was) in [(&vault, &self.vault), (&seal, &self.seal)] {
            assert_eq!(uid(object), was, "{hand}: it is the same object");
            assert!(has_finalizer(object, DRAIN), "{hand}: {object}");
        }
        self.nothing_was_deleted(hand).await;
    }

    /// Both live on in every state that the member had since the last look.
    async fn nothing_was_deleted(&mut self, hand: &str) {
        let (at, ns) = (&self.case.dfw.plane, &self.case.hub_ns);
        let now = at.version(&VAULT, ns).await;
        for (kind, own) in [(&VAULT, &self.vault), (&SEAL, &self.seal)] {
            for (_, object, is_there) in at.history(kind, ns, &self.since).await {
                let lives = is_there && object["metadata"]["deletionTimestamp"].is_null();
                assert!(lives && uid(&object) == own, "{hand}: {object}");
            }
        }
        self.since = now;
    }

    /// At last Karmada keeps both for their member.
    async fn rest(&mut self, hand: &str) {
        preserved(self.case).await;
        adopted::kept(self.case).await;
        self.nothing_was_deleted(hand).await;
    }
}

async fn v50_hands_on_the_hub_end_neither_a_vault_nor_its_seal(case: Case) {
    with_cleanup(hands(&case), restored(&case)).await;
}

/// Restores what the trial changes, because it must not stay if the trial fails.
async fn restored(case: &Case) {
    let city = json!({"metadata": {"labels": {keys::CITY_CODE: case.dfw.city}}});
    case.hub.merge(&CLUSTER, "", &case.dfw.name, city).await;
    let free = json!({"metadata": {"finalizers": null}});
    for (kind, name) in [(&VAULT, NAME), (&SEAL, WAX)] {
        let _ = case.dfw.plane.try_merge(kind, &case.hub_ns, name, &free).await;
    }
    elsewhere(case).await;
    if !case.suite.gateway.is_running().await {
        case.suite.gateway.start().await;
    }
}

/// A Work that the hand has put at the other member, where nothing came of it, preserves and does not end (V4): an operator
/// takes its finalizers off.
async fn elsewhere(case: &Case) {
    let space = format!("karmada-es-{}", case.lhr.name);
    let mut left = case.hub.list(&WORK, &space, "").await;
    left.retain(|work| {
        annotation(work, keys::BINDING_NAMESPACE) == Some(&case.hub_ns)
            && !work["metadata"]["deletionTimestamp"].is_null()
    });
    for work in left {
        let name = work["metadata"]["name"].as_str().unwrap_or_default();
        eprintln!("    Work {space}/{name} does not end");
        let free = json!({"metadata": {"finalizers": null}});
        let _ = case.hub.try_merge(&WORK, &space, name, &free).await;
    }
}

async fn hands(case: &Case) {
    let mut built = Built::new(case).await;
    another_name(&mut built).await;
    no_city(&mut built).await;
    case.hub.delete(&NAMESPACE, "", &case.hub_ns).await;
    built.follow("hub Namespace deleted").await;
    built.rest("hub Namespace deleted").await;
    let policy = format!("vault-pin-{}", case.dfw.name);
    case.hub.delete(&POLICY, &case.hub_ns, &policy).await;
    built.follow("pin policy deleted").await;
    built.rest("pin policy deleted").await;
    let pin = pin(case).await.expect("it is pinned");
    assert_eq!(pin["member"], case.dfw.name);
    deleted_just_then(case).await;
}

/// The policy that pins is edited to another member.
async fn another_name(built: &mut Built<'_>) {
    let case = built.case;
    let policy = format!("vault-pin-{}", case.dfw.name);
    let names = |name: &str| json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": [name]}}}});
    case.hub
        .merge(&POLICY, &case.hub_ns, &policy, names(&case.lhr.name))
        .await;
    built.follow("pin policy edited").await;
    built.rest("pin policy edited").await;
    let pinned =
        |o: &Value| o["spec"]["placement"]["clusterAffinity"]["clusterNames"] == json!([case.dfw.name]);
    case.hub
        .sees(&POLICY, &case.hub_ns, &policy, "is restored", seconds(30), pinned)
        .await;
}

/// The member serves its city no longer, and the gateway starts anew meanwhile: it chooses no other.
async fn no_city(built: &mut Built<'_>) {
    let case = built.case;
    let city = |city: Value| json!({"metadata": {"labels": {keys::CITY_CODE: city}}});
    case.suite.gateway.stop().await;
    case.hub
        .merge(&CLUSTER, "", &case.dfw.name, city(Value::Null))
        .await;
    case.suite.gateway.start().await;
    built.follow("city label taken away").await;
    let pinned = pin(case).await.expect("it is pinned");
    assert_eq!(pinned["member"], case.dfw.name);
    case.hub
        .merge(&CLUSTER, "", &case.dfw.name, city(json!(case.dfw.city)))
        .await;
    built.follow("city label given back").await;
    built.rest("city label given back").await;
}

/// A hand takes the copy, and the tenant deletes the vault just then: it ends as soon as its member lets go.
async fn deleted_just_then(case: &Case) {
    case.hub.delete(&VAULT, &case.hub_ns, NAME).await;
    case.delete(&VAULT, NAME).await;
    let at = &case.dfw.plane;
    at.sees(&VAULT, &case.hub_ns, NAME, "is to go", seconds(120), |o| {
        !o["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    case.project
        .sees(
            &VAULT,
            &case.ns,
            NAME,
            "waits for its member",
            seconds(120),
            |o| is(o, "Federated", "WaitingForMember"),
        )
        .await;
    let free = json!({"metadata": {"finalizers": null}});
    at.merge(&VAULT, &case.hub_ns, NAME, free.clone()).await;
    at.merge(&SEAL, &case.hub_ns, WAX, free).await;
    case.project.gone(&VAULT, &case.ns, NAME, seconds(120)).await;
    assert_eq!(pin(case).await, None);
    assert_eq!(at.get(&VAULT, &case.hub_ns, NAME).await, None);
    assert_eq!(works(case, &VAULT, NAME).await, Vec::<Value>::new());
    at.gone(&SEAL, &case.hub_ns, WAX, seconds(60)).await;
    case.hub.gone(&SEAL, &case.hub_ns, WAX, seconds(60)).await;
    wait_for("no Work of the seal is left", seconds(60), || async {
        works(case, &SEAL, WAX).await.is_empty().then_some(())
    })
    .await;
}
