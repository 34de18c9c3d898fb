//! Refusals of a member's admission: of a vault, and of an object that it names (tests/kinds, `Vault`).

use crate::{
    lanes::{is, pin, pin_of, preserved, vault},
    support::{
        Case, annotation, condition, has_finalizer,
        kinds::{SECRET, VAULT, WORK},
        label,
        plane::BY_EVENT,
        policies::{Closed, Refusal},
        seconds, trials, uid,
    },
    vault_status::{reports, reports_first},
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    v40_a_vault_that_its_member_refuses_is_told_why_and_heals,
    v41_a_secret_that_is_missing_or_refused_holds_its_vault,
];

const NAME: &str = "gold";
/// What the member's policy says, with what a text could be changed by on its way.
const WORDS: &str = r#"a vault here holds less than 5 ("spec.size"); ask the team of <storage>"#;

/// A vault that names nothing.
fn bare(city: &str, name: &str, size: i64) -> Value {
    let mut vault = vault(city);
    vault["metadata"]["name"] = json!(name);
    vault["spec"] = json!({"size": size});
    vault
}

async fn shows(case: &Case, name: &str, what: &str, test: impl Fn(&Value) -> bool) -> Value {
    case.project
        .sees(&VAULT, &case.ns, name, what, seconds(120), test)
        .await
}

async fn delivered(case: &Case, name: &str, size: i64) -> Value {
    let at = &case.dfw.plane;
    let now = at
        .sees(&VAULT, &case.hub_ns, name, "has its size", seconds(120), |o| {
            o["spec"]["size"] == size
        })
        .await;
    shows(case, name, "is delivered", |o| {
        is(o, "Applied", "Applied") && is(o, "Federated", "Delivered")
    })
    .await;
    now
}

fn said<'a>(object: &'a Value, kind: &str) -> &'a str {
    condition(object, kind)
        .and_then(|c| c["message"].as_str())
        .unwrap_or_default()
}

async fn sized(case: &Case, size: i64) {
    case.merge(&VAULT, NAME, json!({"spec": {"size": size}})).await;
}

/// Waits until the project has the refusal of this generation, in the member's own words.
async fn refused(case: &Case, name: &str, closed: &Closed<'_>) -> Value {
    let vault = shows(case, name, "is refused", |o| {
        is(o, "Applied", "ApplyFailed")
            && condition(o, "Applied").is_some_and(|c| c["observedGeneration"] == o["metadata"]["generation"])
    })
    .await;
    let words = format!(
        "{}: Failed to apply all manifests (0/1): vaults.example.fedgate.dev \"{name}\" is forbidden: {}",
        case.dfw.name,
        closed.words()
    );
    assert_eq!(said(&vault, "Applied"), words);
    assert!(is(&vault, "Federated", "ApplyFailed"), "{vault}");
    assert_eq!(said(&vault, "Federated"), words);
    vault
}

/// The Works of a vault at its member.
async fn works(case: &Case, name: &str) -> Vec<Value> {
    let space = format!("karmada-es-{}", case.dfw.name);
    let binding = format!("{name}-vault");
    let mut works = case.hub.list(&WORK, &space, "").await;
    works.retain(|work| {
        annotation(work, keys::BINDING_NAMESPACE) == Some(&*case.hub_ns)
            && annotation(work, keys::BINDING_NAME) == Some(&*binding)
    });
    works
}

/// G29, G30, G50.
async fn v40_a_vault_that_its_member_refuses_is_told_why_and_heals(case: Case) {
    // The member has the namespace.
    case.create(&VAULT, bare(&case.dfw.city, "small", 1)).await;
    delivered(&case, "small", 1).await;
    let refusal = Refusal {
        kind: &VAULT,
        operations: &["CREATE", "UPDATE"],
        admits: "object.spec.size < 5",
        words: WORDS,
        probe: json!({"metadata": {"name": "probe"}, "spec": {"size": 5}}),
    };
    let closed = Closed::close(&case, refusal).await;
    a_create_heals(&case, &closed).await;
    an_update_heals(&case, &closed).await;
    deleted_in_the_lane_send(&case, &closed).await;
    deleted_in_the_lane_pin(&case, &closed).await;
    deleted_with_a_guard(&case).await;
    closed.open().await;
}

/// One Event, however often Karmada tries again.
async fn events(case: &Case, count: usize) {
    case.event(NAME, "ApplyFailed").await;
    case.quiet_for(seconds(6)).await;
    let events = case.events(NAME, "ApplyFailed").await;
    assert_eq!(events.len(), count, "{events:#?}");
    assert!(
        events.iter().all(|event| event["type"] == "Warning"),
        "{events:#?}"
    );
}

async fn a_create_heals(case: &Case, closed: &Closed<'_>) {
    case.create(&VAULT, bare(&case.dfw.city, NAME, 9)).await;
    refused(case, NAME, closed).await;
    events(case, 1).await;
    assert_eq!(case.dfw.plane.get(&VAULT, &case.hub_ns, NAME).await, None);
    let copy = case.hub.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    let lane = format!("vault-send-{}", case.dfw.name);
    assert_eq!(label(&copy, keys::LANE), Some(&*lane), "nothing preserves it yet");
    let pin = pin(case).await.expect("it is pinned");
    assert_ne!(pin["delivered"], true);
    sized(case, 1).await;
    delivered(case, NAME, 1).await;
    preserved(case).await;
}

async fn an_update_heals(case: &Case, closed: &Closed<'_>) {
    let at = &case.dfw.plane;
    let there = at.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    let first = reports_first(case, json!({"phase": "Ready", "nodes": {"a": "up"}})).await;
    sized(case, 9).await;
    let now = refused(case, NAME, closed).await;
    assert_eq!(
        now["status"]["nodes"], first["status"]["nodes"],
        "it keeps its status"
    );
    // Karmada takes no status of what it could not apply; the last one stays meanwhile.
    reports(case, json!({"nodes": {"b": "up"}})).await;
    case.quiet_for(seconds(6)).await;
    let still = case.project.get(&VAULT, &case.ns, NAME).await.expect("it stays");
    assert_eq!(still["status"]["nodes"], first["status"]["nodes"]);
    assert_eq!(still["status"]["phase"], "Ready");
    assert!(is(&still, "StatusCurrent", "NotReported"), "{still}");
    let held = at.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    assert_eq!((uid(&held), &held["spec"]["size"]), (uid(&there), &json!(1)));
    sized(case, 2).await;
    let healed = delivered(case, NAME, 2).await;
    assert_eq!(uid(&healed), uid(&there), "it is the same object");
    let after = json!({"a": "up", "b": "up"});
    shows(case, NAME, "has what came meanwhile", |o| {
        o["status"]["nodes"] == after && is(o, "StatusCurrent", "Current")
    })
    .await;
}

/// Nothing of it was ever at the member, and nothing keeps its name.
async fn deleted_in_the_lane_send(case: &Case, closed: &Closed<'_>) {
    const IRON: &str = "iron";
    case.create(&VAULT, bare(&case.dfw.city, IRON, 9)).await;
    refused(case, IRON, closed).await;
    assert_eq!(works(case, IRON).await.len(), 1);
    ends(case, IRON).await;
    case.create(&VAULT, bare(&case.dfw.city, IRON, 1)).await;
    delivered(case, IRON, 1).await;
}

async fn deleted_in_the_lane_pin(case: &Case, closed: &Closed<'_>) {
    sized(case, 9).await;
    refused(case, NAME, closed).await;
    ends(case, NAME).await;
    case.create(&VAULT, bare(&case.dfw.city, NAME, 1)).await;
    delivered(case, NAME, 1).await;
}

/// Its member refuses the spec that ends the guard: it stays there until an edit is taken.
async fn deleted_with_a_guard(case: &Case) {
    let at = &case.dfw.plane;
    case.merge(&VAULT, NAME, json!({"spec": {"locked": true}})).await;
    at.sees(&VAULT, &case.hub_ns, NAME, "is guarded", seconds(120), |o| {
        o["spec"]["locked"] == true
    })
    .await;
    case.delete(&VAULT, NAME).await;
    shows(case, NAME, "is held", |o| is(o, "Federated", "DeletionHeld")).await;
    case.merge(&VAULT, NAME, json!({"spec": {"locked": false, "size": 9}}))
        .await;
    let held = shows(case, NAME, "is refused", |o| is(o, "Federated", "ApplyFailed")).await;
    let told = said(&held, "Federated");
    for part in ["a guard holds in it there", "a vault here holds less than 5"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    case.quiet_for(seconds(10)).await;
    let there = at.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    assert_eq!(there["spec"]["locked"], true);
    assert_eq!(there["metadata"].get("deletionTimestamp"), None);
    sized(case, 2).await;
    ended(case, NAME).await;
}

/// Deletes a vault in the project: nothing of it is left.
async fn ends(case: &Case, name: &str) {
    case.delete(&VAULT, name).await;
    ended(case, name).await;
}

async fn ended(case: &Case, name: &str) {
    case.project.gone(&VAULT, &case.ns, name, seconds(120)).await;
    assert_eq!(works(case, name).await, Vec::<Value>::new(), "no Work is left");
    let key = format!("vaults.example.fedgate.dev_{name}");
    assert_eq!(pin_of(case, &key).await, None);
    assert_eq!(case.dfw.plane.get(&VAULT, &case.hub_ns, name).await, None);
}

/// G15, G17, G21.
async fn v41_a_secret_that_is_missing_or_refused_holds_its_vault(case: Case) {
    a_missing_secret_holds(&case).await;
    let words = "no tokens here";
    let refusal = Refusal {
        kind: &SECRET,
        operations: &["CREATE"],
        admits: "object.metadata.name != 'token'",
        words,
        probe: json!({"metadata": {"name": "token"}}),
    };
    let closed = Closed::close(&case, refusal).await;
    case.secret("token", "Opaque", &json!({"token": "t"})).await;
    case.create(&VAULT, vault(&case.dfw.city)).await;
    let waits = shows(&case, NAME, "waits for its Secret", |o| {
        is(o, "Applied", "CompanionRefused")
    })
    .await;
    let told = format!(
        "Secret/token: Failed to apply all manifests (0/1): secrets \"token\" is forbidden: {}",
        closed.words()
    );
    assert_eq!(said(&waits, "Applied"), told);
    assert!(is(&waits, "Federated", "CompanionRefused"), "{waits}");
    assert_eq!(case.event(NAME, "CompanionRefused").await["type"], "Warning");
    case.quiet().await;
    let lane = format!("vault-drop-{}", case.dfw.name);
    let copy = case.hub.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    assert_eq!(label(&copy, keys::LANE), Some(&*lane), "nothing of it is sent");
    assert_eq!(case.dfw.plane.get(&VAULT, &case.hub_ns, NAME).await, None);
    closed.open().await;
    delivered(&case, NAME, 1).await;
    case.dfw
        .plane
        .exists(&SECRET, &case.hub_ns, "token", seconds(5))
        .await;
}

/// It is the first of its namespace: the hub has heard nothing of it.
async fn a_missing_secret_holds(case: &Case) {
    let mut early = bare(&case.dfw.city, "early", 1);
    early["spec"]["credentials"] = json!({"secretName": "late"});
    case.create(&VAULT, early).await;
    let lacks = shows(case, "early", "lacks its Secret", |o| {
        is(o, "Federated", "SourceNotFound")
    })
    .await;
    assert_eq!(
        said(&lacks, "Federated"),
        "Secret late does not exist in this namespace; create it or drop the reference"
    );
    assert!(!has_finalizer(&lacks, keys::FEDERATOR_FINALIZER), "{lacks}");
    case.event("early", "SourceNotFound").await;
    case.quiet().await;
    let asked = case.hub_requests();
    assert!(asked.is_empty(), "nothing goes to the hub: {asked:#?}");
    case.secret("late", "Opaque", &json!({"token": "t"})).await;
    case.hub.exists(&VAULT, &case.hub_ns, "early", BY_EVENT).await;
    delivered(case, "early", 1).await;
}
