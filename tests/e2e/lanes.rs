//! A made-up kind whose objects live at exactly one member (tests/kinds, `Vault`): chosen by Karmada, pinned before anything
//! is delivered, and gone only when the member says so.

use crate::support::{
    Case, annotation, condition,
    credentials::{Twin, with_token},
    has_finalizer,
    kinds::{CLUSTER_ROLE, CONFIG_MAP, Kind, NAMESPACE, POLICY, SECRET, VAULT, WORK},
    label,
    plane::Plane,
    policies::without_policy,
    seconds,
    suite::ALPHA_KEY,
    trials, uid, wait_for,
};
use fedgate_api::keys;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

trials![
    #[core]
    v01_a_vault_is_pinned_and_delivered_with_its_secret,
    v02_a_held_vault_gets_its_edit_when_it_is_resumed,
    v03_a_deleted_vault_stays_until_its_member_has_let_it_go,
    v04_hands_on_the_hub_end_nothing_at_the_member,
    v05_a_vault_whose_finalizers_were_taken_off_ends_at_its_member,
    v06_a_refusal_of_the_member_is_told_in_its_words,
    v07_a_place_that_is_edited_is_refused_once_the_vault_has_its_member,
    v08_only_the_name_of_its_member_by_who_may_abandons_a_vault,
];

const NAME: &str = "gold";

pub(crate) fn vault(city: &str) -> Value {
    json!({"metadata": {"name": NAME, "labels": {keys::CITY_CODE: city}},
        "spec": {"size": 1, "credentials": {"secretName": "token"}}})
}

/// A vault that its member has applied.
pub(crate) async fn delivered(case: &Case) -> Value {
    case.secret("token", "Opaque", &json!({"token": "t"})).await;
    let made = case.create(&VAULT, vault(&case.dfw.city)).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "is delivered", seconds(120), |o| {
            is(o, "Federated", "Delivered")
        })
        .await;
    preserved(case).await;
    made
}

/// Waits until the member keeps the vault whatever becomes of its copy.
pub(crate) async fn preserved(case: &Case) {
    keeps(case, &VAULT, "vault-", NAME).await;
}

/// The same of an object of any kind that lives at one member, with its `policyPrefix`.
pub(crate) async fn keeps(case: &Case, kind: &Kind, prefix: &str, name: &str) {
    let lane = format!("{prefix}pin-{}", case.dfw.name);
    case.hub
        .sees(kind, &case.hub_ns, name, "is pinned", seconds(60), |o| {
            label(o, keys::LANE) == Some(&*lane)
        })
        .await;
    wait_for("its Work preserves", seconds(60), || async {
        let works = works(case, kind, name).await;
        (works.first()?["spec"]["preserveResourcesOnDeletion"] == true).then_some(())
    })
    .await;
    // What has executed the Work has seen that, too.
    case.dfw
        .plane
        .sees(kind, &case.hub_ns, name, "is of that lane", seconds(60), |o| {
            label(o, keys::LANE) == Some(&*lane)
        })
        .await;
}

/// The Works of an object of the case at its member.
pub(crate) async fn works(case: &Case, kind: &Kind, name: &str) -> Vec<Value> {
    works_at(case, &case.dfw.name, kind, name).await
}

/// The same at this member.
pub(crate) async fn works_at(case: &Case, member: &str, kind: &Kind, name: &str) -> Vec<Value> {
    let binding = format!("{name}-{}", kind.name.to_lowercase());
    let space = format!("karmada-es-{member}");
    let mut works = case.hub.list(&WORK, &space, "").await;
    works.retain(|work| {
        annotation(work, keys::BINDING_NAMESPACE) == Some(&case.hub_ns)
            && annotation(work, keys::BINDING_NAME) == Some(&*binding)
    });
    works
}

pub(crate) fn is(object: &Value, kind: &str, reason: &str) -> bool {
    condition(object, kind).is_some_and(|c| c["reason"] == reason)
}

/// The hub's record of the vault's member.
pub(crate) async fn pin(case: &Case) -> Option<Value> {
    pin_of(case, &format!("vaults.example.fedgate.dev_{NAME}")).await
}

/// The same of any object, by its key there.
pub(crate) async fn pin_of(case: &Case, key: &str) -> Option<Value> {
    let record = case.hub_ns.replacen("ns-", "fedgate-pins-", 1);
    let record = case.hub.get(&CONFIG_MAP, keys::SYSTEM_NAMESPACE, &record).await?;
    let text = record["data"][key].as_str()?.to_owned();
    serde_json::from_str(&text).ok()
}

/// Waits until the member has the vault in this size.
pub(crate) async fn has_size(case: &Case, size: i64, limit: Duration) -> Value {
    let has = |o: &Value| o["spec"]["size"] == size;
    let what = format!("has the size {size}");
    case.dfw
        .plane
        .sees(&VAULT, &case.hub_ns, NAME, &what, limit, has)
        .await
}

async fn v01_a_vault_is_pinned_and_delivered_with_its_secret(case: Case) {
    let made = delivered(&case).await;
    let copy = case.hub.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    assert_eq!(copy["spec"], made["spec"]);
    let lane = format!("vault-pin-{}", case.dfw.name);
    assert_eq!(label(&copy, keys::LANE), Some(&*lane));
    let pin = pin(&case).await.expect("it is pinned");
    assert_eq!(pin["member"], case.dfw.name);
    assert_eq!(pin["sourceUid"], uid(&made));
    assert_eq!(pin["copyUids"], json!([uid(&copy)]));
    assert_eq!(pin["delivered"], true);
    case.dfw
        .plane
        .exists(&VAULT, &case.hub_ns, NAME, seconds(5))
        .await;
    let secret = case
        .dfw
        .plane
        .exists(&SECRET, &case.hub_ns, "token", seconds(5))
        .await;
    assert_eq!(
        label(&secret, keys::LANE),
        Some(&*format!("with-{}", case.dfw.name))
    );
    case.dfw
        .plane
        .merge_status(
            &VAULT,
            &case.hub_ns,
            NAME,
            json!({"phase": "Ready", "ready": 1, "nodes": {"a": "up", "b": "up"}}),
        )
        .await;
    let seen = case
        .project
        .sees(&VAULT, &case.ns, NAME, "has its status", seconds(60), |o| {
            o["status"]["nodes"]["b"] == "up"
        })
        .await;
    for (kind, reason) in [
        ("Federated", "Delivered"),
        ("Scheduled", "Pinned"),
        ("Applied", "Applied"),
        ("StatusCurrent", "Current"),
    ] {
        assert!(is(&seen, kind, reason), "{kind} {reason}: {seen}");
    }
    case.dfw
        .plane
        .merge_status(&VAULT, &case.hub_ns, NAME, json!({"nodes": {"b": null}}))
        .await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "has lost a node", seconds(60), |o| {
            o["status"]["nodes"] == json!({"a": "up"})
        })
        .await;
}

async fn v02_a_held_vault_gets_its_edit_when_it_is_resumed(case: Case) {
    const MARK: &str = "example.fedgate.dev/suspended";
    delivered(&case).await;
    let mark = |value: Value| json!({"metadata": {"annotations": {MARK: value}}});
    case.merge(&VAULT, NAME, mark(json!("true"))).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "is held", seconds(60), |o| {
            is(o, "Applied", "DispatchSuspended")
        })
        .await;
    case.merge(&VAULT, NAME, json!({"spec": {"size": 7}})).await;
    let held = case
        .hub
        .get(&VAULT, &case.hub_ns, NAME)
        .await
        .expect("the copy is there");
    assert_eq!(
        label(&held, keys::LANE),
        Some(&*format!("vault-hold-{}", case.dfw.name))
    );
    assert_eq!(held["spec"]["size"], 1, "an edit waits in the project");
    let before = case.dfw.plane.get(&VAULT, &case.hub_ns, NAME).await;
    // A hand takes it twice: the second Work preserves, and was never dispatched.
    for _ in 0..2 {
        taken_while_held(&case).await;
    }
    case.merge(&VAULT, NAME, mark(Value::Null)).await;
    let there = has_size(&case, 7, seconds(120)).await;
    assert_eq!(
        before.as_ref().map(uid),
        Some(uid(&there)),
        "it is the same object"
    );
    assert_eq!(annotation(&there, keys::SOURCE_GENERATION), Some("2"));
}

/// A hand deletes the copy of a held vault; another one comes, and its Work preserves.
async fn taken_while_held(case: &Case) {
    let copy = case.hub.get(&VAULT, &case.hub_ns, NAME).await;
    let copy = copy.expect("the copy is there");
    let lane = format!("vault-hold-{}", case.dfw.name);
    case.hub.delete(&VAULT, &case.hub_ns, NAME).await;
    case.hub
        .sees(
            &VAULT,
            &case.hub_ns,
            NAME,
            "is another copy, and held",
            seconds(90),
            |o| uid(o) != uid(&copy) && label(o, keys::LANE) == Some(&*lane),
        )
        .await;
    wait_for("its one Work preserves", seconds(90), || async {
        let works = works(case, &VAULT, NAME).await;
        let [work] = works.as_slice() else { return None };
        let is_held = work["spec"]["suspendDispatching"] == true;
        (is_held && work["spec"]["preserveResourcesOnDeletion"] == true).then_some(())
    })
    .await;
}

async fn v03_a_deleted_vault_stays_until_its_member_has_let_it_go(case: Case) {
    delivered(&case).await;
    let held = json!({"metadata": {"finalizers": ["example.fedgate.dev/drain"]}});
    case.dfw.plane.merge(&VAULT, &case.hub_ns, NAME, held).await;
    case.merge(&VAULT, NAME, json!({"spec": {"locked": true}})).await;
    case.delete(&VAULT, NAME).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "is guarded", seconds(60), |o| {
            is(o, "Federated", "DeletionHeld")
        })
        .await;
    assert!(case.hub.get(&VAULT, &case.hub_ns, NAME).await.is_some());
    case.merge(&VAULT, NAME, json!({"spec": {"locked": false}})).await;
    let waits = case
        .project
        .sees(&VAULT, &case.ns, NAME, "waits for its member", seconds(90), |o| {
            condition(o, "Federated").is_some_and(|c| {
                c["reason"] == "WaitingForMember"
                    && c["message"]
                        .as_str()
                        .unwrap_or_default()
                        .contains("example.fedgate.dev/drain")
            })
        })
        .await;
    assert!(has_finalizer(&waits, keys::FEDERATOR_FINALIZER));
    assert!(pin(&case).await.is_some(), "the pin stays");
    case.dfw
        .plane
        .exists(&SECRET, &case.hub_ns, "token", seconds(5))
        .await;
    let free = json!({"metadata": {"finalizers": null}});
    case.dfw.plane.merge(&VAULT, &case.hub_ns, NAME, free).await;
    let since = Instant::now();
    case.project.gone(&VAULT, &case.ns, NAME, seconds(120)).await;
    eprintln!(
        "    gone {:.1} s after its member's object",
        since.elapsed().as_secs_f64()
    );
    assert_eq!(pin(&case).await, None);
    case.dfw
        .plane
        .gone(&SECRET, &case.hub_ns, "token", seconds(60))
        .await;
}

async fn v04_hands_on_the_hub_end_nothing_at_the_member(case: Case) {
    delivered(&case).await;
    let there = case
        .dfw
        .plane
        .exists(&VAULT, &case.hub_ns, NAME, seconds(5))
        .await;
    let size = |n: i64| json!({"spec": {"size": n}});
    let follows = async |n: i64| {
        case.merge(&VAULT, NAME, size(n)).await;
        // A busy hub ends a Namespace that a hand has deleted in rounds of its own.
        let now = has_size(&case, n, seconds(240)).await;
        assert_eq!(uid(&now), uid(&there), "it is the same object after edit {n}");
        preserved(&case).await;
    };
    case.hub.delete(&VAULT, &case.hub_ns, NAME).await;
    follows(2).await;
    case.hub
        .delete(&POLICY, &case.hub_ns, &format!("vault-pin-{}", case.dfw.name))
        .await;
    follows(3).await;
    case.hub.delete(&NAMESPACE, "", &case.hub_ns).await;
    follows(4).await;
    let pin = pin(&case).await.expect("it is pinned");
    assert_eq!(pin["member"], case.dfw.name);
    assert_eq!(pin["copyUids"].as_array().map(Vec::len), Some(3));
}

async fn v05_a_vault_whose_finalizers_were_taken_off_ends_at_its_member(case: Case) {
    delivered(&case).await;
    case.delete(&VAULT, NAME).await;
    let free = json!({"metadata": {"finalizers": null}});
    case.project.merge(&VAULT, &case.ns, NAME, free).await;
    case.dfw
        .plane
        .gone(&VAULT, &case.hub_ns, NAME, seconds(200))
        .await;
    case.dfw
        .plane
        .gone(&SECRET, &case.hub_ns, "token", seconds(60))
        .await;
    wait_for("the pin is removed", seconds(60), || async {
        pin(&case).await.is_none().then_some(())
    })
    .await;
}

async fn v06_a_refusal_of_the_member_is_told_in_its_words(case: Case) {
    let mut small = vault(&case.dfw.city);
    small["metadata"]["name"] = json!("small");
    // The member holds an object of the name that is not ours.
    case.create(&VAULT, small).await;
    case.secret("token", "Opaque", &json!({"token": "t"})).await;
    case.project
        .sees(&VAULT, &case.ns, "small", "is delivered", seconds(120), |o| {
            is(o, "Federated", "Delivered")
        })
        .await;
    case.dfw
        .plane
        .create(
            &VAULT,
            &case.hub_ns,
            json!({"metadata": {"name": NAME}, "spec": {"size": 9}}),
        )
        .await;
    case.create(&VAULT, vault(&case.dfw.city)).await;
    let said = case
        .project
        .sees(&VAULT, &case.ns, NAME, "is refused", seconds(90), |o| {
            is(o, "Applied", "ApplyFailed")
        })
        .await;
    let message = condition(&said, "Applied")
        .map(|c| c["message"].clone())
        .unwrap_or_default();
    let words = message.as_str().unwrap_or_default();
    assert!(
        words.starts_with(&format!("{}: ", case.dfw.name)) && words.contains("already exists"),
        "{words}"
    );
    assert!(is(&said, "Federated", "ApplyFailed"), "{said}");
    let foreign = case
        .dfw
        .plane
        .get(&VAULT, &case.hub_ns, NAME)
        .await
        .expect("it is there");
    assert_eq!(foreign["spec"]["size"], 9, "it is never overwritten");
    case.dfw.plane.delete(&VAULT, &case.hub_ns, NAME).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "is delivered", seconds(120), |o| {
            is(o, "Federated", "Delivered")
        })
        .await;
}

async fn v07_a_place_that_is_edited_is_refused_once_the_vault_has_its_member(case: Case) {
    delivered(&case).await;
    let place = |city: &str| json!({"metadata": {"labels": {keys::CITY_CODE: city}}});
    let moved = place(&case.lhr.city);
    let edit = async || case.project.try_merge(&VAULT, &case.ns, NAME, &moved).await;
    let refused = edit().await.expect_err("the place is set").to_string();
    let dfw = &case.dfw.city;
    assert!(
        refused.contains(&format!("cannot change from \"{dfw}\"")),
        "{refused}"
    );
    let none = json!({"metadata": {"labels": {keys::CITY_CODE: null}}});
    let removed = case.project.try_merge(&VAULT, &case.ns, NAME, &none).await;
    assert!(removed.is_err(), "nor taken away");
    without_policy(
        &case.project,
        "fedgate-placement-vaults.example.fedgate.dev",
        async {
            wait_for("the edit is let through", seconds(60), || async {
                edit().await.ok()
            })
            .await;
            edited_place_is_backstopped(&case).await;
        },
    )
    .await;
}

/// Without the policy the gateway refuses the place itself, and goes on once it is set back.
async fn edited_place_is_backstopped(case: &Case) {
    let place = |city: &str| json!({"metadata": {"labels": {keys::CITY_CODE: city}}});
    case.quiet().await;
    let count = case.count();
    case.merge(&VAULT, NAME, json!({"spec": {"size": 3}})).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "is refused", seconds(60), |o| {
            is(o, "Federated", "PlacementImmutable")
                && condition(o, "Federated")
                    .is_some_and(|c| c["observedGeneration"] == o["metadata"]["generation"])
        })
        .await;
    let writes = case.writes(&count);
    assert!(
        writes.iter().all(|write| !write.starts_with("hub: ")),
        "nothing of it is written to the hub: {writes:?}"
    );
    let copy = case
        .hub
        .get(&VAULT, &case.hub_ns, NAME)
        .await
        .expect("the copy is there");
    assert_eq!(
        (label(&copy, keys::CITY_CODE), &copy["spec"]["size"]),
        (Some(&*case.dfw.city), &json!(1))
    );
    assert!(
        case.lhr.plane.get(&NAMESPACE, "", &case.hub_ns).await.is_none(),
        "the other city gets nothing"
    );
    case.merge(&VAULT, NAME, place(&case.dfw.city)).await;
    case.dfw
        .plane
        .sees(&VAULT, &case.hub_ns, NAME, "has the edit", seconds(60), |o| {
            o["spec"]["size"] == 3
        })
        .await;
}

/// A client of the project that may read and patch vaults, and no more.
async fn tenant(case: &Case) -> Plane {
    let role = format!("vault-editor-{}", case.ns);
    let rules =
        json!([{"apiGroups": ["example.fedgate.dev"], "resources": ["vaults"], "verbs": ["get", "patch"]}]);
    let object = json!({"metadata": {"name": role}, "rules": rules});
    case.project.create(&CLUSTER_ROLE, "", object).await;
    let account = Twin::without_rights(&case.project, &case.ns, "editor").await;
    account.bind(&role).await;
    let text = with_token(
        &case.suite.gateway.projects().join(format!("{ALPHA_KEY}.yaml")),
        &account.token().await,
    );
    let config = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
    Plane::new("alpha", client)
}

async fn v08_only_the_name_of_its_member_by_who_may_abandons_a_vault(case: Case) {
    delivered(&case).await;
    let held = json!({"metadata": {"finalizers": ["example.fedgate.dev/drain"]}});
    case.dfw.plane.merge(&VAULT, &case.hub_ns, NAME, held).await;
    case.delete(&VAULT, NAME).await;
    let waits = |o: &Value| is(o, "Federated", "WaitingForMember");
    case.project
        .sees(&VAULT, &case.ns, NAME, "waits for its member", seconds(90), waits)
        .await;
    let names = |member: &str| json!({"metadata": {"annotations": {keys::ABANDON: member}}});
    let tenant = tenant(&case).await;
    let own = names(&case.dfw.name);
    wait_for("the tenant's rights are known", seconds(30), || async {
        let harmless = json!({"metadata": {"annotations": {"example.com/a": "b"}}});
        tenant.try_merge(&VAULT, &case.ns, NAME, &harmless).await.ok()
    })
    .await;
    let refused = tenant.try_merge(&VAULT, &case.ns, NAME, &own).await;
    let refused = refused.expect_err("it has no verb abandon").to_string();
    assert!(refused.contains("ask for the verb abandon"), "{refused}");
    case.merge(&VAULT, NAME, names(&case.lhr.name)).await;
    let told = case.event(NAME, "AbandonRefused").await;
    assert_eq!(told["type"], "Warning");
    let still = case
        .project
        .get(&VAULT, &case.ns, NAME)
        .await
        .expect("it is there");
    assert!(has_finalizer(&still, keys::FEDERATOR_FINALIZER));
    case.merge(&VAULT, NAME, own).await;
    case.project.gone(&VAULT, &case.ns, NAME, seconds(120)).await;
    assert_eq!(pin(&case).await, None);
    case.event(NAME, "MemberAbandoned").await;
    let counted = case
        .suite
        .gateway
        .metric("fedgate_members_abandoned_total", &[])
        .await;
    assert!(counted >= 1.0, "{counted}");
    let left = case.dfw.plane.get(&VAULT, &case.hub_ns, NAME).await;
    assert!(left.is_some(), "what is at the member stays there");
    let free = json!({"metadata": {"finalizers": null}});
    case.dfw.plane.merge(&VAULT, &case.hub_ns, NAME, free).await;
    case.project
        .delete(&CLUSTER_ROLE, "", &format!("vault-editor-{}", case.ns))
        .await;
}
