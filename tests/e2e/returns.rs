//! Secrets that members have for objects which live there, and that go back to the project (docs/contract/clusters.md §7).
//! `fedgate returns` runs at the member DFW; the operator there that makes the Secrets is the test.

use crate::return_admission::admitted;
use crate::support::{
    Case,
    credentials::{Twin, with_token},
    federated::kinds_flags,
    kinds::{SECRET, VAULT},
    label, lone_trials,
    role::Role,
    seconds,
    suite::SYSTEM,
    trials, uid, wait_for,
};
use fedgate_api::keys;
use fedgate_sandbox::{Sandbox, User};
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    os::unix::fs::PermissionsExt,
    sync::atomic::{AtomicU32, Ordering},
};
use tokio::sync::OnceCell;

trials![
    #[core]
    r01_what_a_member_has_for_a_vault_comes_back_and_nothing_else,
    r02_a_secret_of_the_tenants_is_never_touched_and_no_return_keeps_a_dead_owner,
];
lone_trials![r05_a_restart_takes_back_what_is_gone_and_writes_nothing_else];

pub(crate) const NAME: &str = "gold";
/// A Secret that the vault refers to, under a name that its kind would let come back.
pub(crate) const COMPANION: &str = "token-app";

/// `fedgate returns` at DFW, which all tests share.
static MEMBER: OnceCell<Role> = OnceCell::const_new();

/// Starts it, under the rights that are shipped for it.
pub(crate) async fn member(case: &Case) -> &'static Role {
    MEMBER
        .get_or_init(|| async {
            let role = Role::new("returns", case.suite.dir.join("returns.log"));
            start(case, &role).await;
            role
        })
        .await
}

/// Whether a test has started it.
pub(crate) fn has_member() -> bool {
    MEMBER.initialized()
}

async fn start(case: &Case, role: &Role) {
    static STARTS: AtomicU32 = AtomicU32::new(0);
    if STARTS.fetch_add(1, Ordering::Relaxed) == 0 {
        Twin::without_rights(&case.dfw.plane, SYSTEM, fedgate_manifests::RETURNS).await;
    }
    let name = case.dfw.name.clone();
    let (own, hub) = case
        .suite
        .with_sandbox(async |sandbox: &Sandbox| {
            (
                sandbox.kubeconfig(&name, User::Admin),
                sandbox.kubeconfig("hub", User::Cell(&name)),
            )
        })
        .await;
    let twin = Twin::of(&case.dfw.plane, SYSTEM, fedgate_manifests::RETURNS);
    let file = case.suite.dir.join("returns.kubeconfig");
    std::fs::write(&file, with_token(&own, &twin.token().await)).expect("write a kubeconfig");
    let owner_only = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&file, owner_only).expect("keep a kubeconfig from others");
    let mut arguments: Vec<OsString> = vec!["returns".into(), "--member-kubeconfig".into(), file.into()];
    arguments.extend(["--hub-kubeconfig".into(), hub.into()]);
    arguments.extend(["--name".into(), name.into()]);
    arguments.extend(kinds_flags());
    role.spawn(&arguments).await;
    role.ready().await;
}

/// A vault that refers to a Secret: the project's Secrets are watched then, and the end of one wakes what waits for its
/// name.
fn vault(city: &str) -> Value {
    json!({"metadata": {"name": NAME, "labels": {keys::CITY_CODE: city}},
        "spec": {"size": 1, "credentials": {"secretName": COMPANION}}})
}

/// A vault that its member has applied and keeps.
pub(crate) async fn delivered(case: &Case) -> Value {
    member(case).await;
    case.secret(COMPANION, "Opaque", &json!({"token": "hidden-from-members"}))
        .await;
    let made = case.create(&VAULT, vault(&case.dfw.city)).await;
    is_pinned(case).await;
    made
}

async fn is_pinned(case: &Case) {
    let lane = format!("vault-pin-{}", case.dfw.name);
    case.hub
        .sees(&VAULT, &case.hub_ns, NAME, "is pinned", seconds(120), |o| {
            label(o, keys::LANE) == Some(&*lane)
        })
        .await;
}

/// The member's operator makes a Secret.
pub(crate) async fn at_member(case: &Case, name: &str, value: &str) {
    let secret = json!({"metadata": {"name": name, "labels": {"example.fedgate.dev/by": "operator"}}, "type": "Opaque",
        "stringData": {"token": value}});
    case.dfw.plane.create(&SECRET, &case.hub_ns, secret).await;
}

/// The base64 of short test values, as an API server stores them.
fn encoded(value: &str) -> Value {
    let secret: k8s_openapi::ByteString = k8s_openapi::ByteString(value.as_bytes().to_vec());
    serde_json::to_value(secret).expect("bytes are JSON")
}

pub(crate) async fn in_project(case: &Case, name: &str, value: &str) -> Value {
    let wanted = encoded(value);
    case.project
        .sees(&SECRET, &case.ns, name, "has come back", seconds(60), |o| {
            o["data"]["token"] == wanted
        })
        .await
}

/// LHR, where the vault does not live, returns a Secret for it under each name that could be in the way of DFW's. The names that the
/// hub admits.
async fn planted_by_lhr(case: &Case) -> Vec<String> {
    let copy = case.hub.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    let (dfw, lhr) = (&case.dfw.name, &case.lhr.name);
    let mut names = Vec::new();
    for name in [
        "gold-app".to_owned(),
        format!("{dfw}.gold-app"),
        format!("{lhr}.gold-app"),
    ] {
        let mut planted = admitted(case, lhr, &copy);
        planted["metadata"]["name"] = json!(name);
        if case
            .lhr
            .hub
            .try_create(&SECRET, &case.hub_ns, planted)
            .await
            .is_ok()
        {
            names.push(name);
        }
    }
    names
}

async fn r01_what_a_member_has_for_a_vault_comes_back_and_nothing_else(case: Case) {
    let made = delivered(&case).await;
    let planted = planted_by_lhr(&case).await;
    let event = case.event(NAME, "ReturnRejected").await;
    assert!(event.to_string().contains(&*case.lhr.name), "{event}");
    at_member(&case, "gold-admin", "never").await;
    at_member(&case, "gold-app", "one").await;
    at_member(&case, "lab-access", "access").await;
    let app = in_project(&case, "gold-app", "one").await;
    assert_eq!(planted, [format!("{}.gold-app", case.lhr.name)]);
    assert_eq!(app["metadata"]["labels"], json!({keys::RETURNED: "true"}));
    assert!(app["metadata"].get("annotations").is_none(), "{app}");
    let owner =
        json!([{"apiVersion": VAULT.api_version(), "kind": VAULT.name, "name": NAME, "uid": uid(&made)}]);
    assert_eq!(app["metadata"]["ownerReferences"], owner);
    assert_eq!(app["type"], "Opaque");
    let on_hub = case
        .hub
        .exists(
            &SECRET,
            &case.hub_ns,
            &format!("{}.gold-app", case.dfw.name),
            seconds(5),
        )
        .await;
    let copy = case.hub.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    assert_eq!(label(&on_hub, keys::CELL), Some(&*case.dfw.name));
    assert_eq!(on_hub["metadata"]["ownerReferences"][0]["uid"], uid(&copy));
    assert!(
        case.project.get(&SECRET, &case.ns, "lab-access").await.is_none(),
        "no status names it"
    );
    let says = |name: &str| json!({"phase": "Ready", "accessSecret": name});
    let (plane, ns) = (&case.dfw.plane, &*case.hub_ns);
    plane.merge_status(&VAULT, ns, NAME, says("lab-access")).await;
    in_project(&case, "lab-access", "access").await;
    // The kind does not admit the name, whoever names it.
    plane.merge_status(&VAULT, ns, NAME, says("gold-admin")).await;
    case.project
        .gone(&SECRET, &case.ns, "lab-access", seconds(60))
        .await;
    plane
        .merge(&SECRET, ns, "gold-app", json!({"stringData": {"token": "two"}}))
        .await;
    in_project(&case, "gold-app", "two").await;
    for hand in [
        json!({"stringData": {"token": "edited"}}),
        json!({"metadata": {"ownerReferences": [
        {"apiVersion": VAULT.api_version(), "kind": VAULT.name, "name": NAME, "uid": uid(&made), "controller": true}]}}),
    ] {
        case.merge(&SECRET, "gold-app", hand).await;
        case.project
            .sees(
                &SECRET,
                &case.ns,
                "gold-app",
                "is as it came back",
                seconds(60),
                |o| o["data"]["token"] == encoded("two") && o["metadata"]["ownerReferences"] == owner,
            )
            .await;
    }
    plane.delete(&SECRET, ns, "gold-app").await;
    case.project
        .gone(&SECRET, &case.ns, "gold-app", seconds(60))
        .await;
    for name in ["gold-admin", &format!("{}.gold-admin", case.dfw.name)] {
        let on_hub = case.hub.get(&SECRET, &case.hub_ns, name).await;
        assert!(on_hub.is_none(), "it never left the member");
    }
    assert!(case.project.get(&SECRET, &case.ns, "gold-admin").await.is_none());
}

async fn r02_a_secret_of_the_tenants_is_never_touched_and_no_return_keeps_a_dead_owner(case: Case) {
    let own = case.secret("gold-app", "Opaque", &json!({"token": "mine"})).await;
    let first = delivered(&case).await;
    at_member(&case, "gold-app", "theirs").await;
    let event = case.event(NAME, "ReturnNameTaken").await;
    assert!(!event.to_string().contains("theirs"), "{event}");
    let there = case
        .project
        .get(&SECRET, &case.ns, "gold-app")
        .await
        .expect("it is there");
    assert_eq!((uid(&there), &there["data"]), (uid(&own), &own["data"]));
    assert_eq!(
        there["metadata"]["resourceVersion"], own["metadata"]["resourceVersion"],
        "nobody has written it"
    );
    case.delete(&SECRET, "gold-app").await;
    let returned = in_project(&case, "gold-app", "theirs").await;
    assert_eq!(returned["metadata"]["ownerReferences"][0]["uid"], uid(&first));
    case.delete(&VAULT, NAME).await;
    case.project.gone(&VAULT, &case.ns, NAME, seconds(120)).await;
    let second = case.create(&VAULT, vault(&case.dfw.city)).await;
    is_pinned(&case).await;
    let again = wait_for("it comes back for the new vault", seconds(90), || async {
        let secret = case.project.get(&SECRET, &case.ns, "gold-app").await?;
        (secret["metadata"]["ownerReferences"][0]["uid"] == uid(&second)).then_some(secret)
    })
    .await;
    assert_eq!(again["data"]["token"], encoded("theirs"));
}

async fn r05_a_restart_takes_back_what_is_gone_and_writes_nothing_else(case: Case) {
    let made = delivered(&case).await;
    at_member(&case, "gold-app", "one").await;
    in_project(&case, "gold-app", "one").await;
    // The tenant's own, with the label of what comes back.
    let own = json!({"metadata": {"name": "own-app", "labels": {keys::RETURNED: "true"}}, "stringData": {"token": "mine"}});
    case.create(&SECRET, own).await;
    let left = json!({"metadata": {"name": "left-app", "labels": {keys::RETURNED: "true"}, "ownerReferences": [
        {"apiVersion": VAULT.api_version(), "kind": VAULT.name, "name": NAME, "uid": uid(&made)}]}});
    let role = member(&case).await;
    role.stop().await;
    case.suite.gateway.stop().await;
    case.create(&SECRET, left).await;
    case.dfw.plane.delete(&SECRET, &case.hub_ns, "gold-app").await;
    case.suite.gateway.start().await;
    case.project
        .gone(&SECRET, &case.ns, "left-app", seconds(60))
        .await;
    in_project(&case, "gold-app", "one").await;
    start(&case, role).await;
    case.project
        .gone(&SECRET, &case.ns, "gold-app", seconds(60))
        .await;
    assert!(
        case.project.get(&SECRET, &case.ns, "own-app").await.is_some(),
        "it is the tenant's"
    );
    at_member(&case, "gold-app", "two").await;
    in_project(&case, "gold-app", "two").await;
    case.quiet().await;
    let count = case.count();
    case.suite.gateway.stop().await;
    role.stop().await;
    case.suite.gateway.start().await;
    start(&case, role).await;
    case.quiet().await;
    assert!(case.writes(&count).is_empty(), "{:?}", case.writes(&count));
}
