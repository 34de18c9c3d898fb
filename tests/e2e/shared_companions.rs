//! A companion that several objects name, of which at least one lives at one member (tests/kinds, `Vault`): it is where it is
//! needed, and goes from each place with the last that needs it there.

use crate::{
    lanes::{delivered, is, vault},
    support::{
        Case, Cell, annotation, deployment_with_data,
        kinds::{BINDING, DEPLOYMENT, POLICY, SECRET, VAULT},
        label, seconds, trials, uid, unique_city, wait_for,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::collections::BTreeSet;

trials![
    v31_vaults_at_two_members_share_a_companion,
    v32_a_companion_stays_for_a_deployment_or_a_vault_until_both_are_gone,
];

const GOLD: &str = "gold";
const IRON: &str = "iron";
const LEAD: &str = "lead";
const WEB: &str = "web";
const TOKEN: &str = "token";
const WITH_NONE: &str = "with-none";

/// The lane of companions at these members.
fn with(members: &[&Cell]) -> String {
    let names: BTreeSet<&str> = members.iter().map(|cell| &*cell.name).collect();
    let names: Vec<&str> = names.into_iter().collect();
    format!("with-{}", names.join("."))
}

/// Waits until the companion has this lane, and these objects name it.
async fn companion(case: &Case, lane: &str, objects: &[&str]) -> Value {
    let named: Vec<String> = objects.iter().map(|name| format!("{}/{name}", case.ns)).collect();
    let named = json!(named).to_string();
    let what = format!("is in {lane} for {named}");
    let limit = seconds(120);
    case.hub
        .sees(&SECRET, &case.hub_ns, TOKEN, &what, limit, |o| {
            label(o, keys::LANE) == Some(lane) && annotation(o, keys::REFERENCED_BY) == Some(&named)
        })
        .await
}

/// Waits until the Secret's binding names these members by its policy, and these by what depends on it.
async fn bound(case: &Case, lane: &str, by_policy: &[&Cell], by_need: &[&Cell]) -> Value {
    let names = |cells: &[&Cell]| {
        cells
            .iter()
            .map(|cell| cell.name.clone())
            .collect::<BTreeSet<_>>()
    };
    let told = |clusters: &Value| -> BTreeSet<String> {
        let clusters = clusters.as_array().into_iter().flatten();
        clusters
            .filter_map(|cluster| cluster["name"].as_str().map(str::to_owned))
            .collect()
    };
    let what = format!(
        "is given to {:?} and needed at {:?}",
        names(by_policy),
        names(by_need)
    );
    let is_bound = |o: &Value| {
        let needed = o["spec"]["requiredBy"].as_array().into_iter().flatten();
        let needed: BTreeSet<String> = needed.flat_map(|one| told(&one["clusters"])).collect();
        annotation(o, keys::CLAIM_NAME) == Some(lane)
            && told(&o["spec"]["clusters"]) == names(by_policy)
            && needed == names(by_need)
    };
    case.hub
        .sees(
            &BINDING,
            &case.hub_ns,
            "token-secret",
            &what,
            seconds(120),
            is_bound,
        )
        .await
}

/// Waits until the vault is delivered.
async fn vault_is_delivered(case: &Case, name: &str) {
    case.project
        .sees(&VAULT, &case.ns, name, "is delivered", seconds(120), |o| {
            is(o, "Federated", "Delivered")
        })
        .await;
}

/// Deletes the vault, and waits until its member has let it go.
async fn vault_ends(case: &Case, name: &str) {
    case.delete(&VAULT, name).await;
    case.project.gone(&VAULT, &case.ns, name, seconds(200)).await;
}

/// The Secret at a cell, and the version from which on it is looked at.
struct There<'a> {
    cell: &'a Cell,
    uid: String,
    since: String,
}

impl<'a> There<'a> {
    async fn see(case: &Case, cell: &'a Cell) -> Self {
        let plane = &cell.plane;
        let secret = plane.exists(&SECRET, &case.hub_ns, TOKEN, seconds(120)).await;
        Self {
            cell,
            uid: uid(&secret).to_owned(),
            since: plane.version(&SECRET, &case.hub_ns).await,
        }
    }

    /// Asserts that nothing has deleted it since, not for a moment, and nothing has put another in its place.
    async fn stayed(&self, case: &Case, when: &str) {
        let (plane, name) = (&self.cell.plane, &self.cell.name);
        let now = plane.get(&SECRET, &case.hub_ns, TOKEN).await;
        let now = now.unwrap_or_else(|| panic!("the Secret is at {name} {when}"));
        assert_eq!(uid(&now), self.uid, "{name} has the same Secret {when}");
        for (version, secret, there) in plane.history(&SECRET, &case.hub_ns, &self.since).await {
            let is_it = secret["metadata"]["name"] == TOKEN;
            let stays = there && secret["metadata"]["deletionTimestamp"].is_null();
            assert!(!is_it || stays, "{name} lost the Secret at {version}, {when}");
        }
    }
}

/// An edit of the source arrives at these cells.
async fn follows(case: &Case, cells: &[&Cell], text: &str) {
    let source = json!({"stringData": {"token": text}});
    let source = case.merge(&SECRET, TOKEN, source).await;
    for cell in cells {
        let what = format!("has the data {text:?}");
        cell.plane
            .sees(&SECRET, &case.hub_ns, TOKEN, &what, seconds(120), |o| {
                o["data"] == source["data"]
            })
            .await;
    }
}

/// G18: one companion of both, whose lane is widened and narrowed; the member that keeps it sees no deletion.
async fn v31_vaults_at_two_members_share_a_companion(case: Case) {
    delivered(&case).await;
    let alone = companion(&case, &with(&[&case.dfw]), &[GOLD]).await;
    let first = There::see(&case, &case.dfw).await;
    let mut second = vault(&case.lhr.city);
    second["metadata"]["name"] = json!(IRON);
    case.create(&VAULT, second).await;
    vault_is_delivered(&case, IRON).await;
    let (both, wide) = ([&case.dfw, &case.lhr], with(&[&case.dfw, &case.lhr]));
    let shared = companion(&case, &wide, &[GOLD, IRON]).await;
    assert_eq!(uid(&shared), uid(&alone), "it is one companion");
    bound(&case, &wide, &both, &[]).await;
    let labelled = format!("{}=true", keys::REFERENCED_DATA);
    assert_eq!(case.hub.list(&SECRET, &case.hub_ns, &labelled).await.len(), 1);
    let other = There::see(&case, &case.lhr).await;
    follows(&case, &both, "both").await;
    first.stayed(&case, "while the lane is widened").await;
    other.stayed(&case, "while both need it").await;
    vault_ends(&case, IRON).await;
    let narrow = with(&[&case.dfw]);
    let left = companion(&case, &narrow, &[GOLD]).await;
    assert_eq!(uid(&left), uid(&alone), "it is still that companion");
    bound(&case, &narrow, &[&case.dfw], &[]).await;
    let lhr = &case.lhr.plane;
    lhr.gone(&SECRET, &case.hub_ns, TOKEN, seconds(120)).await;
    follows(&case, &[&case.dfw], "one").await;
    first.stayed(&case, "while the lane is narrowed").await;
    // The policy of a lane that nothing has goes, too.
    case.hub.gone(&POLICY, &case.hub_ns, &wide, seconds(120)).await;
    one_without_a_member_holds_it_nowhere(&case).await;
}

/// What only a vault without a member names is at no member.
async fn one_without_a_member_holds_it_nowhere(case: &Case) {
    let mut third = vault(&unique_city());
    third["metadata"]["name"] = json!(LEAD);
    case.create(&VAULT, third).await;
    case.project
        .sees(&VAULT, &case.ns, LEAD, "has no member", seconds(60), |o| {
            is(o, "Scheduled", "NoCellForCity")
        })
        .await;
    companion(case, &with(&[&case.dfw]), &[GOLD, LEAD]).await;
    vault_ends(case, GOLD).await;
    companion(case, WITH_NONE, &[LEAD]).await;
    let dfw = &case.dfw.plane;
    dfw.gone(&SECRET, &case.hub_ns, TOKEN, seconds(120)).await;
    vault_ends(case, LEAD).await;
    gone(case).await;
}

/// A vault and a deployment at this cell that name the Secret, both delivered; the Secret at that cell.
async fn named_by_both<'a>(case: &Case, cell: &'a Cell) -> There<'a> {
    delivered(case).await;
    let web = deployment_with_data(WEB, &cell.city, None, Some(TOKEN), &[]);
    case.create(&DEPLOYMENT, web).await;
    cell.deployment(&case.hub_ns, WEB).await;
    let lane = with(&[&case.dfw]);
    companion(case, &lane, &[GOLD, WEB]).await;
    bound(case, &lane, &[&case.dfw], &[cell]).await;
    There::see(case, cell).await
}

/// Waits until the Secret is gone everywhere but in the project.
async fn gone(case: &Case) {
    for plane in [&case.hub, &case.dfw.plane] {
        plane.gone(&SECRET, &case.hub_ns, TOKEN, seconds(120)).await;
    }
    let binding = "token-secret";
    case.hub.gone(&BINDING, &case.hub_ns, binding, seconds(120)).await;
    for lane in [WITH_NONE, &with(&[&case.dfw])] {
        case.hub.gone(&POLICY, &case.hub_ns, lane, seconds(120)).await;
    }
}

/// G19, in either order, one after the other with the same names.
async fn v32_a_companion_stays_for_a_deployment_or_a_vault_until_both_are_gone(case: Case) {
    let there = named_by_both(&case, &case.dfw).await;
    vault_ends(&case, GOLD).await;
    companion(&case, WITH_NONE, &[WEB]).await;
    bound(&case, WITH_NONE, &[], &[&case.dfw]).await;
    follows(&case, &[&case.dfw], "deployment").await;
    there.stayed(&case, "while the deployment needs it").await;
    // A vault that comes again takes it back, and leaves it again.
    case.create(&VAULT, vault(&case.dfw.city)).await;
    vault_is_delivered(&case, GOLD).await;
    let lane = with(&[&case.dfw]);
    companion(&case, &lane, &[GOLD, WEB]).await;
    bound(&case, &lane, &[&case.dfw], &[&case.dfw]).await;
    vault_ends(&case, GOLD).await;
    companion(&case, WITH_NONE, &[WEB]).await;
    bound(&case, WITH_NONE, &[], &[&case.dfw]).await;
    there.stayed(&case, "while a vault came and went").await;
    case.remove(WEB).await;
    gone(&case).await;
    case.project.delete(&SECRET, &case.ns, TOKEN).await;
    the_vault_outlives_the_deployment(&case).await;
    case.project.delete(&SECRET, &case.ns, TOKEN).await;
    each_releases_its_own_cell(&case).await;
}

async fn the_vault_outlives_the_deployment(case: &Case) {
    let there = named_by_both(case, &case.dfw).await;
    case.remove(WEB).await;
    let lane = with(&[&case.dfw]);
    companion(case, &lane, &[GOLD]).await;
    bound(case, &lane, &[&case.dfw], &[]).await;
    follows(case, &[&case.dfw], "vault").await;
    there.stayed(case, "while the vault needs it").await;
    wait_for("the vault says nothing against it", seconds(60), || async {
        let vault = case.project.get(&VAULT, &case.ns, GOLD).await?;
        is(&vault, "Federated", "Delivered").then_some(())
    })
    .await;
    vault_ends(case, GOLD).await;
    gone(case).await;
}

/// At two cells, each loses it with the one that needs it there.
async fn each_releases_its_own_cell(case: &Case) {
    let there = named_by_both(case, &case.lhr).await;
    let dfw = &case.dfw.plane;
    dfw.exists(&SECRET, &case.hub_ns, TOKEN, seconds(5)).await;
    vault_ends(case, GOLD).await;
    companion(case, WITH_NONE, &[WEB]).await;
    bound(case, WITH_NONE, &[], &[&case.lhr]).await;
    dfw.gone(&SECRET, &case.hub_ns, TOKEN, seconds(120)).await;
    follows(case, &[&case.lhr], "elsewhere").await;
    there.stayed(case, "while the deployment needs it").await;
    case.remove(WEB).await;
    gone(case).await;
    let lhr = &case.lhr.plane;
    lhr.gone(&SECRET, &case.hub_ns, TOKEN, seconds(120)).await;
}
