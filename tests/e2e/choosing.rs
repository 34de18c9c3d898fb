//! Why no member is chosen for a vault (tests/kinds, `Vault`), and what its city's Clusters heal.

use crate::{
    lanes::{is, pin, vault},
    support::{
        Case, condition, has_finalizer,
        kinds::{BINDING, CLUSTER, VAULT},
        label, seconds, trials, unique_city,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![v42_each_reason_for_no_member_is_told_and_heals];

const NAME: &str = "gold";

/// A Cluster that nobody stands behind: what it says of itself is all that there is.
struct Made<'a> {
    case: &'a Case,
    name: String,
}

impl Made<'_> {
    /// Moves it to a city.
    async fn serves_city(&self, city: &str) {
        let labels = json!({"metadata": {"labels": {keys::CITY_CODE: city}}});
        self.case.hub.merge(&CLUSTER, "", &self.name, labels).await;
    }

    /// Has it list this kind and no other; all that it serves, or perhaps more.
    async fn serves_kind(&self, kind: &str, is_complete: bool) {
        let complete = if is_complete { "True" } else { "False" };
        let plural = format!("{}s", kind.to_lowercase());
        let status = json!({
            "conditions": [{"type": "CompleteAPIEnablements", "status": complete, "reason": "Said", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "apiEnablements": [{"groupVersion": "example.fedgate.dev/v1",
                "resources": [{"kind": kind, "name": plural}]}],
        });
        self.case.hub.merge_status(&CLUSTER, "", &self.name, status).await;
    }
}

/// Waits until the vault's `Scheduled` and `Federated` say so; returns the message.
async fn told(case: &Case, reason: &str) -> String {
    let vault = case
        .project
        .sees(&VAULT, &case.ns, NAME, reason, seconds(90), |o| {
            is(o, "Scheduled", reason)
        })
        .await;
    let said = condition(&vault, "Scheduled").expect("it is told");
    assert_eq!(said["status"], "False");
    assert!(is(&vault, "Federated", reason), "{vault}");
    assert_eq!(case.event(NAME, reason).await["type"], "Warning");
    said["message"].as_str().unwrap_or_default().to_owned()
}

/// The hub has heard nothing of the vault.
async fn unheard(case: &Case) {
    case.quiet().await;
    let asked = case.hub_requests();
    assert!(asked.is_empty(), "nothing goes to the hub: {asked:#?}");
    let vault = case.project.get(&VAULT, &case.ns, NAME).await;
    assert!(!has_finalizer(
        &vault.expect("it is there"),
        keys::FEDERATOR_FINALIZER
    ));
}

/// G11.
async fn v42_each_reason_for_no_member_is_told_and_heals(case: Case) {
    let city = unique_city();
    let mut gold = vault(&city);
    gold["spec"] = json!({"size": 1});
    case.create(&VAULT, gold).await;
    let none = told(&case, "NoCellForCity").await;
    let why = format!(
        "no cell serves city {city}: the hub has no Cluster with label {}={city}",
        keys::CITY_CODE
    );
    assert_eq!(none, why);
    unheard(&case).await;

    case.unready_city().await;
    let made = Made {
        case: &case,
        name: format!("absent-{}", case.ns),
    };
    made.serves_kind("Gadget", true).await;
    made.serves_city(&city).await;
    let missing = told(&case, "MemberApiMissing").await;
    let why = format!(
        "no cell of the city serves example.fedgate.dev/v1 Vault: {}",
        made.name
    );
    assert_eq!(missing, why);
    unheard(&case).await;
    no_member_fits(&case, &made).await;
    chosen(&case, &made).await;
}

/// A Cluster that may serve more than it lists counts as serving the kind. Karmada thinks otherwise.
async fn no_member_fits(case: &Case, made: &Made<'_>) {
    made.serves_kind("Gadget", false).await;
    let copy = case.hub.exists(&VAULT, &case.hub_ns, NAME, seconds(60)).await;
    let lane = label(&copy, keys::LANE).unwrap_or_default();
    assert!(lane.starts_with("vault-choose-"), "{lane}");
    let message = told(case, "NoMemberFits").await;
    assert!(message.contains("did not have the API resource"), "{message}");
    let binding = case.hub.get(&BINDING, &case.hub_ns, "gold-vault").await;
    let binding = binding.expect("it is bound to no cluster");
    let said = condition(&binding, "Scheduled").expect("Karmada says why");
    assert_eq!(said["message"], message, "Karmada's own words");
    case.quiet().await;
    assert_eq!(pin(case).await, None);
    let still = case.hub.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    assert_eq!(label(&still, keys::LANE), Some(lane), "it waits there");
}

async fn chosen(case: &Case, made: &Made<'_>) {
    made.serves_kind("Vault", true).await;
    // Karmada's scheduler is woken by a Cluster's labels and spec, not by what it serves.
    let touched = json!({"metadata": {"labels": {"example.fedgate.dev/touched": "true"}}});
    case.hub.merge(&CLUSTER, "", &made.name, touched).await;
    let pinned = case
        .project
        .sees(&VAULT, &case.ns, NAME, "has a member", seconds(90), |o| {
            is(o, "Scheduled", "Pinned")
        })
        .await;
    let said = condition(&pinned, "Scheduled").map_or(&Value::Null, |c| &c["message"]);
    assert_eq!(*said, json!(made.name));
    let pin = pin(case).await.expect("it is pinned");
    assert_eq!(pin["member"], json!(made.name));
    // Nobody can be asked whether it is gone.
    case.delete(&VAULT, NAME).await;
    let abandon = json!({"metadata": {"annotations": {keys::ABANDON: made.name}}});
    case.merge(&VAULT, NAME, abandon).await;
    case.project.gone(&VAULT, &case.ns, NAME, seconds(120)).await;
}
