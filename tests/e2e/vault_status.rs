//! The status of a vault (tests/kinds), which is its one member's, whatever becomes of gateway and member meanwhile.

use crate::{
    lanes::{delivered, is, pin, vault},
    status::storm,
    support::{
        Case, annotation, condition,
        kinds::{CLUSTER_ROLE_BINDING, DEFINITION, VAULT},
        lone_trials, seconds, trials, wait_for, with_cleanup,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::cell::Cell;
use tokio::time::{Instant, sleep};

trials![v16_a_status_that_is_too_large_leaves_the_last_one];
lone_trials![
    v15_a_status_outlives_a_restart_and_its_members_absence,
    v17_a_deletion_waits_for_a_member_that_cannot_be_asked,
    v22_a_storm_of_statuses_is_thinned_out,
    v18_a_status_that_the_project_refuses_leaves_the_last_one,
    v19_where_a_project_drops_conditions_an_annotation_has_them,
];

const NAME: &str = "gold";
const VAULTS: &str = "vaults.example.fedgate.dev";

pub(crate) async fn reports(case: &Case, status: Value) {
    case.dfw
        .plane
        .merge_status(&VAULT, &case.hub_ns, NAME, status)
        .await;
}

/// The first one of a kind: Karmada misses a change that comes while it starts to watch the kind at a member.
pub(crate) async fn reports_first(case: &Case, status: Value) -> Value {
    let number = Cell::new(0);
    wait_for("its status is returned", seconds(120), || async {
        number.set(number.get() + 1);
        let mut status = status.clone();
        status["ready"] = json!(number.get());
        reports(case, status.clone()).await;
        let asked = Instant::now();
        while asked.elapsed() < seconds(10) {
            let vault = case.project.get(&VAULT, &case.ns, NAME).await?;
            if vault["status"]["ready"] == status["ready"] {
                return Some(vault);
            }
            sleep(seconds(1)).await;
        }
        None
    })
    .await
}

/// Waits until the project shows the vault so.
pub(crate) async fn shows(case: &Case, what: &str, test: impl Fn(&Value) -> bool) -> Value {
    case.project
        .sees(&VAULT, &case.ns, NAME, what, seconds(120), test)
        .await
}

/// The vault's status without the gateway's conditions and the kind's counter, which is 0 as long as nobody counts.
fn told(vault: &Value) -> Value {
    let mut status = vault["status"].clone();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("conditions");
        fields.remove("ready");
    }
    status
}

/// G22, G23: what the member took away while the gateway was down goes with one write. G24: a member that is away takes
/// nothing away.
async fn v15_a_status_outlives_a_restart_and_its_members_absence(case: Case) {
    delivered(&case).await;
    let first = reports_first(&case, json!({"phase": "Ready", "nodes": {"a": "up", "b": "up"}})).await;
    assert_eq!(first["status"]["nodes"], json!({"a": "up", "b": "up"}));
    case.quiet().await;
    case.suite.gateway.stop().await;
    reports(&case, json!({"nodes": {"b": null}})).await;
    case.hub
        .sees(&VAULT, &case.hub_ns, NAME, "has lost a node", seconds(60), |o| {
            o["status"]["nodes"] == json!({"a": "up"})
        })
        .await;
    let count = case.count();
    case.suite.gateway.start().await;
    let now = shows(&case, "has lost a node", |o| {
        o["status"]["nodes"] == json!({"a": "up"})
    })
    .await;
    assert_eq!(told(&now), json!({"phase": "Ready", "nodes": {"a": "up"}}));
    case.quiet().await;
    assert_eq!(case.writes(&count), ["project: patch vaults/status"]);
    reports(&case, json!({"nodes": null})).await;
    let now = shows(&case, "has no node", |o| o["status"]["nodes"].is_null()).await;
    assert_eq!(told(&now), json!({"phase": "Ready"}));
    away(&case).await;
}

async fn away(case: &Case) {
    let said = |o: &Value| is(o, "StatusCurrent", "MemberNotReady");
    case.suite.stop_plane(&case.dfw.name).await;
    let gone = shows(case, "has a member that is not ready", said).await;
    assert_eq!(told(&gone), json!({"phase": "Ready"}), "the last one stays");
    case.suite.gateway.restart().await;
    case.quiet().await;
    let later = case.project.get(&VAULT, &case.ns, NAME).await.expect("it stays");
    assert!(said(&later), "{later}");
    assert_eq!(
        condition(&later, "StatusCurrent"),
        condition(&gone, "StatusCurrent"),
        "a restart tells no other time"
    );
    assert_eq!(told(&later), json!({"phase": "Ready"}));
    case.suite.start_plane(&case.dfw.name).await;
    shows(case, "is current again", |o| is(o, "StatusCurrent", "Current")).await;
    // The hub's own watch of the member is tried again up to a minute apart: until then it takes what is there for missing.
    reports(case, json!({"phase": "Back"})).await;
    case.hub
        .sees(
            &VAULT,
            &case.hub_ns,
            NAME,
            "has a new status",
            seconds(180),
            |o| o["status"]["phase"] == "Back",
        )
        .await;
}

/// G39: neither silence nor a refusal proves that a member's object is gone.
async fn v17_a_deletion_waits_for_a_member_that_cannot_be_asked(case: Case) {
    const ROLE: &str = "fedgate-gateway-vaults.example.fedgate.dev";
    let waits = |o: &Value, words: &str| {
        let said = condition(o, "Federated").filter(|c| c["reason"] == "WaitingForMember");
        said.is_some_and(|c| c["message"].to_string().contains(words))
    };
    let at = &case.dfw.plane;
    delivered(&case).await;
    let held = json!({"metadata": {"finalizers": ["example.fedgate.dev/drain"]}});
    at.merge(&VAULT, &case.hub_ns, NAME, held).await;
    case.suite.stop_plane(&case.dfw.name).await;
    case.delete(&VAULT, NAME).await;
    shows(&case, "waits for its member", |o| waits(o, &case.dfw.name)).await;
    case.quiet_for(seconds(5)).await;
    assert!(pin(&case).await.is_some(), "the pin stays");
    case.suite.start_plane(&case.dfw.name).await;
    shows(&case, "waits for its finalizer", |o| {
        waits(o, "example.fedgate.dev/drain")
    })
    .await;
    let role = at
        .get(&CLUSTER_ROLE_BINDING, "", ROLE)
        .await
        .expect("the role is bound");
    let refused = async {
        at.delete(&CLUSTER_ROLE_BINDING, "", ROLE).await;
        shows(&case, "may not ask", |o| waits(o, "forbidden")).await;
        assert!(pin(&case).await.is_some(), "the pin stays");
        let bound =
            json!({"metadata": {"name": ROLE}, "roleRef": role["roleRef"], "subjects": role["subjects"]});
        at.create(&CLUSTER_ROLE_BINDING, "", bound).await;
    };
    // Karmada's proxy has the member's answer in the hub's log, too.
    case.suite.without_rights("hub", refused).await;
    let free = json!({"metadata": {"finalizers": null}});
    at.merge(&VAULT, &case.hub_ns, NAME, free).await;
    case.project.gone(&VAULT, &case.ns, NAME, seconds(180)).await;
    assert_eq!(pin(&case).await, None);
}

/// Changes the schema that the project has for the status of vaults.
async fn schema(case: &Case, change: impl Fn(&mut Value)) {
    let crd = case.project.get(&DEFINITION, "", VAULTS).await;
    let mut versions = crd.expect("the project serves vaults")["spec"]["versions"].take();
    change(&mut versions[0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]);
    let patch = json!({"spec": {"versions": versions}});
    case.project.merge(&DEFINITION, "", VAULTS, patch).await;
}

/// G25: a schema of the project that is narrower than its member's.
async fn v18_a_status_that_the_project_refuses_leaves_the_last_one(case: Case) {
    delivered(&case).await;
    reports_first(&case, json!({"phase": "Ready"})).await;
    let restored = schema(&case, |status| status["phase"]["maxLength"] = Value::Null);
    with_cleanup(refused(&case), restored).await;
}

async fn refused(case: &Case) {
    schema(case, |status| status["phase"]["maxLength"] = json!(8)).await;
    wait_for("the schema is in force", seconds(60), || async {
        let long = json!({"status": {"phase": "y".repeat(9)}});
        let would = case
            .project
            .would_merge_status(&VAULT, &case.ns, NAME, &long)
            .await;
        (!would).then_some(())
    })
    .await;
    reports(case, json!({"phase": "Provisioning"})).await;
    let refused = shows(case, "is refused", |o| is(o, "StatusCurrent", "StatusRefused")).await;
    assert_eq!(told(&refused), json!({"phase": "Ready"}), "the last one stays");
    let words = condition(&refused, "StatusCurrent").map(|c| c["message"].to_string());
    assert!(
        words.is_some_and(|words| words.contains("phase")),
        "the server's words"
    );
    case.event(NAME, "StatusRefused").await;
    case.quiet().await;
    reports(case, json!({"phase": "Ended"})).await;
    let again = shows(case, "is current again", |o| is(o, "StatusCurrent", "Current")).await;
    assert_eq!(told(&again), json!({"phase": "Ended"}));
    assert_eq!(case.events(NAME, "StatusRefused").await.len(), 1);
}

/// G26: a schema of the project that has no conditions.
async fn v19_where_a_project_drops_conditions_an_annotation_has_them(case: Case) {
    let conditions = Cell::new(Value::Null);
    schema(&case, |status| {
        let fields = status.as_object_mut().expect("fields of a status");
        conditions.set(fields.remove("conditions").unwrap_or_default());
    })
    .await;
    let conditions = conditions.take();
    assert!(conditions.is_object(), "vaults have conditions");
    with_cleanup(noted(&case), has_conditions(&case, &conditions)).await;
    case.suite.gateway.restart().await;
    case.quiet().await;
    let before = case.project.get(&VAULT, &case.ns, NAME).await;
    let before = before.expect("it is there");
    assert!(
        annotation(&before, keys::CONDITIONS).is_some(),
        "nothing is tried for its own sake"
    );
    reports(&case, json!({"nodes": {"a": "up"}})).await;
    let now = shows(&case, "has its conditions in its status again", |o| {
        is(o, "StatusCurrent", "Current") && annotation(o, keys::CONDITIONS).is_none()
    })
    .await;
    assert!(is(&now, "Federated", "Delivered"), "{now}");
    assert_eq!(told(&now), json!({"phase": "Ready", "nodes": {"a": "up"}}));
    case.quiet().await;
    assert_eq!(case.events(NAME, "ConditionsPruned").await.len(), 1);
}

async fn noted(case: &Case) {
    case.secret("token", "Opaque", &json!({"token": "t"})).await;
    case.create(&VAULT, vault(&case.dfw.city)).await;
    let noted = |o: &Value, reason: &str| {
        annotation(o, keys::CONDITIONS).is_some_and(|text| text.contains(&format!("\"{reason}\"")))
    };
    let there = shows(case, "has its conditions in an annotation", |o| {
        noted(o, "Delivered") && noted(o, "NotReported")
    })
    .await;
    assert_eq!(there["status"]["conditions"], Value::Null);
    let first = reports_first(case, json!({"phase": "Ready"})).await;
    assert_eq!(told(&first), json!({"phase": "Ready"}));
    shows(case, "is current", |o| noted(o, "Current")).await;
    case.quiet().await;
    assert_eq!(case.events(NAME, "ConditionsPruned").await.len(), 1);
}

/// Gives the project's schema its conditions back, and waits until its server knows them.
async fn has_conditions(case: &Case, conditions: &Value) {
    const IN_A_ROW: u32 = 40;
    schema(case, |status| status["conditions"] = conditions.clone()).await;
    let probe = json!({"conditions": [{"type": "Probe", "status": "True", "reason": "Probe",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    // For a moment a server's answers go by both schemas in turn.
    let kept = Cell::new(0);
    wait_for("the schema is in force", seconds(60), || async {
        let would = case
            .project
            .would_apply_status(&VAULT, &case.ns, NAME, &probe)
            .await;
        let is_kept = would.is_some_and(|vault| !vault["status"]["conditions"].is_null());
        kept.set(if is_kept { kept.get() + 1 } else { 0 });
        (kept.get() == IN_A_ROW).then_some(())
    })
    .await;
}

/// G27.
async fn v22_a_storm_of_statuses_is_thinned_out(case: Case) {
    delivered(&case).await;
    reports_first(&case, json!({"phase": "Ready"})).await;
    storm(&case, &VAULT, NAME, "ready", json!({"phase": "Ready"})).await;
}

/// G25, G28.
async fn v16_a_status_that_is_too_large_leaves_the_last_one(case: Case) {
    delivered(&case).await;
    let before = case
        .project
        .get(&VAULT, &case.ns, NAME)
        .await
        .expect("it is there");
    assert_eq!(told(&before), json!({}), "nothing is told before its member has");
    assert!(is(&before, "StatusCurrent", "NotReported"), "{before}");
    let small = reports_first(&case, json!({"phase": "Ready", "nodes": {"a": "up"}})).await;
    assert!(is(&small, "StatusCurrent", "Current"), "{small}");
    reports(&case, json!({"nodes": {"b": "x".repeat(70_000)}})).await;
    let large = shows(&case, "is too large", |o| {
        is(o, "StatusCurrent", "StatusTooLarge")
    })
    .await;
    assert_eq!(told(&large), told(&small), "the last one stays");
    case.event(NAME, "StatusTooLarge").await;
    reports(&case, json!({"nodes": {"b": "up"}})).await;
    let again = shows(&case, "is current again", |o| is(o, "StatusCurrent", "Current")).await;
    assert_eq!(again["status"]["nodes"], json!({"a": "up", "b": "up"}));
    assert_eq!(case.events(NAME, "StatusTooLarge").await.len(), 1);
}
