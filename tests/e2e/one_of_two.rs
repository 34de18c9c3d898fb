//! A city of two members: an object that lives at one (tests/kinds, `Vault`) is at one of them and never at the other, and stays
//! there whatever becomes of taints and labels of their Clusters.

use crate::{
    lanes::{delivered, is, pin_of, vault},
    status::{in_city, lhr_serves_its_city},
    support::{
        Case, Cell, annotation,
        gate::Gate,
        kinds::{BINDING, CLUSTER, CLUSTER_BINDING, NAMESPACE, VAULT, WORK},
        label, lone_trials, seconds,
        suite::SYSTEM,
        uid, wait_for, with_cleanup,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

lone_trials![v30_an_object_is_at_one_member_of_two];

/// The vault that is there before its city has two members.
const FIRST: &str = "gold";
/// Made while Karmada's choice moves, and again while it does not.
const EACH_TIME: usize = 10;

fn names(of: &str) -> Vec<String> {
    (0..EACH_TIME).map(|number| format!("{of}-{number}")).collect()
}

fn space(cell: &Cell) -> String {
    format!("karmada-es-{}", cell.name)
}

fn other<'a>(case: &'a Case, member: &str) -> &'a Cell {
    if member == case.dfw.name {
        &case.lhr
    } else {
        &case.dfw
    }
}

fn cell<'a>(case: &'a Case, member: &str) -> &'a Cell {
    if member == case.dfw.name {
        &case.dfw
    } else {
        &case.lhr
    }
}

async fn relabel(case: &Case, cell: &Cell, patch: Value) {
    case.hub.merge(&CLUSTER, "", &cell.name, patch).await;
}

/// Both Clusters as they were: their cities, and no taint of ours.
async fn restored(case: &Case) {
    relabel(case, &case.dfw, json!({"spec": {"taints": null}})).await;
    relabel(case, &case.dfw, in_city(&case.dfw.city)).await;
    lhr_serves_its_city(case).await;
}

/// Waits until each member has the Namespaces of its city, and of those on the hub no others.
async fn settled(case: &Case) {
    wait_for(
        "each member has the Namespaces of its city",
        seconds(150),
        || async {
            let on_hub = case.hub.list(&NAMESPACE, "", keys::PROJECT_UID).await;
            for cell in [&case.dfw, &case.lhr] {
                let city = cell.city.to_lowercase();
                let has_city = |ns: &&Value| {
                    label(ns, keys::CITIES).is_some_and(|set| set.split('.').any(|of| of == city))
                };
                let wanted: BTreeSet<_> = on_hub.iter().filter(has_city).map(name).collect();
                let known: BTreeSet<_> = on_hub.iter().map(name).collect();
                let there = cell.plane.list(&NAMESPACE, "", keys::PROJECT_UID).await;
                let there: BTreeSet<_> = there.iter().map(name).collect();
                if there.intersection(&known).ne(&wanted) {
                    return None;
                }
            }
            Some(())
        },
    )
    .await;
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

async fn create(case: &Case, names: &[String]) {
    for name in names {
        let mut vault = vault(&case.dfw.city);
        vault["metadata"]["name"] = json!(name);
        case.create(&VAULT, vault).await;
    }
}

/// Waits until Karmada's scheduler gives the trial's Namespace to these members and no others, because then the scheduler has seen
/// the changed labels of their Clusters.
async fn city_has(case: &Case, cells: &[&Cell]) {
    let wanted: BTreeSet<&str> = cells.iter().map(|cell| &*cell.name).collect();
    let (binding, what) = (format!("{}-namespace", case.hub_ns), format!("names {wanted:?}"));
    let is_given = |o: &Value| {
        let clusters = o["spec"]["clusters"].as_array().into_iter().flatten();
        clusters
            .filter_map(|cluster| cluster["name"].as_str())
            .collect::<BTreeSet<_>>()
            == wanted
    };
    let limit = seconds(120);
    case.hub
        .sees(&CLUSTER_BINDING, "", &binding, &what, limit, is_given)
        .await;
}

async fn member_of(case: &Case, vault: &str) -> Option<String> {
    let pin = pin_of(case, &format!("vaults.example.fedgate.dev_{vault}")).await?;
    pin["member"].as_str().map(str::to_owned)
}

/// Waits until Karmada has chosen this member for each vault.
async fn choice(case: &Case, vaults: &[String], cell: &Cell) {
    for vault in vaults {
        let (binding, what) = (format!("{vault}-vault"), format!("is given to {}", cell.name));
        let is_given = |o: &Value| {
            let clusters = o["spec"]["clusters"].as_array();
            clusters.is_some_and(|of| of.len() == 1 && of[0]["name"] == *cell.name)
        };
        case.hub
            .sees(&BINDING, &case.hub_ns, &binding, &what, seconds(60), is_given)
            .await;
    }
}

/// Makes vaults, while Karmada's choice moves before it can be recorded, and while nothing moves; returns the member of
/// each, once it is delivered.
async fn chosen(case: &Case) -> BTreeMap<String, String> {
    let (moved, free) = (names("moved"), names("free"));
    let gate = Gate::new(&[(&case.hub, SYSTEM)]).await;
    gate.admit(0);
    create(case, &moved).await;
    choice(case, &moved, &case.dfw).await;
    relabel(
        case,
        &case.dfw,
        json!({"metadata": {"labels": {keys::CITY_CODE: null}}}),
    )
    .await;
    choice(case, &moved, &case.lhr).await;
    for vault in &moved {
        assert_eq!(member_of(case, vault).await, None, "the choice has moved before");
    }
    gate.open();
    gate.remove().await;
    // What was refused is asked for again by the next one.
    case.suite.gateway.restart().await;
    for vault in &moved {
        wait_for("its member is recorded", seconds(60), || async {
            member_of(case, vault)
                .await
                .filter(|member| *member == case.lhr.name)
        })
        .await;
    }
    relabel(case, &case.dfw, in_city(&case.dfw.city)).await;
    create(case, &free).await;
    let mut members = BTreeMap::new();
    for vault in moved.into_iter().chain(free).chain([FIRST.to_owned()]) {
        let limit = seconds(120);
        let is_there = |o: &Value| is(o, "Federated", "Delivered");
        case.project
            .sees(&VAULT, &case.ns, &vault, "is delivered", limit, is_there)
            .await;
        let member = member_of(case, &vault)
            .await
            .expect("what is delivered is pinned");
        members.insert(vault, member);
    }
    members
}

/// The members to which a Work of each binding of vaults was dispatched even for a moment.
async fn dispatched(case: &Case, since: [&str; 2]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (cell, since) in [&case.dfw, &case.lhr].into_iter().zip(since) {
        for (_, work, _) in case.hub.history(&WORK, &space(cell), since).await {
            let vault =
                annotation(&work, keys::BINDING_NAME).and_then(|binding| binding.strip_suffix("-vault"));
            let is_own = annotation(&work, keys::BINDING_NAMESPACE) == Some(&case.hub_ns);
            if let Some(vault) = vault.filter(|_| is_own && work["spec"]["suspendDispatching"] != true) {
                all.entry(vault.to_owned()).or_default().insert(cell.name.clone());
            }
        }
    }
    all
}

/// G4: binding, Works and both members agree on the one member of each vault.
async fn each_is_at_one(case: &Case, members: &BTreeMap<String, String>, since: [&str; 2]) {
    let both: BTreeSet<&String> = members.values().collect();
    assert_eq!(both.len(), 2, "each member was chosen for some: {members:?}");
    let sent = dispatched(case, since).await;
    let once = members
        .iter()
        .map(|(vault, member)| (vault.clone(), [member.clone()].into()));
    assert_eq!(
        sent,
        once.collect(),
        "a Work went to the one member of each vault"
    );
    for (vault, member) in members {
        let binding = case
            .hub
            .get(&BINDING, &case.hub_ns, &format!("{vault}-vault"))
            .await;
        let binding = binding.unwrap_or_else(|| panic!("{vault} is bound"));
        let clusters = binding["spec"]["clusters"].as_array().into_iter().flatten();
        let clusters: Vec<&Value> = clusters.map(|cluster| &cluster["name"]).collect();
        assert_eq!(clusters, [member], "{vault}");
    }
    let mut expected = BTreeMap::new();
    for (vault, member) in members {
        expected
            .entry(member.as_str())
            .or_insert_with(BTreeSet::new)
            .insert(vault.clone());
    }
    for cell in [&case.dfw, &case.lhr] {
        let there = cell.plane.list(&VAULT, &case.hub_ns, "").await;
        let there: BTreeSet<String> = there.iter().map(name).collect();
        assert_eq!(Some(&there), expected.get(&*cell.name), "vaults at {}", cell.name);
    }
}

/// What both members have of the vaults, and the versions from which on they are looked at.
struct Rest {
    uids: [BTreeMap<String, String>; 2],
    since: [String; 2],
}

impl Rest {
    async fn begin(case: &Case) -> Self {
        let look = async |cell: &Cell| {
            let since = cell.plane.version(&VAULT, &case.hub_ns).await;
            let there = cell.plane.list(&VAULT, &case.hub_ns, "").await;
            let uids = there.iter().map(|vault| (name(vault), uid(vault).to_owned()));
            (uids.collect::<BTreeMap<_, _>>(), since)
        };
        let (dfw, lhr) = (look(&case.dfw).await, look(&case.lhr).await);
        Self {
            uids: [dfw.0, lhr.0],
            since: [dfw.1, lhr.1],
        }
    }

    /// Asserts that no member has lost a vault since, nor got one that was not its own, not for a moment.
    async fn held(&self, case: &Case, when: &str) {
        for (at, cell) in [&case.dfw, &case.lhr].into_iter().enumerate() {
            for (version, vault, there) in cell.plane.history(&VAULT, &case.hub_ns, &self.since[at]).await {
                let is_same = self.uids[at]
                    .get(&name(&vault))
                    .is_some_and(|same| same == uid(&vault));
                let stays = there && vault["metadata"]["deletionTimestamp"].is_null();
                assert!(
                    is_same && stays,
                    "{} at {}, version {version}, {when}: {vault}",
                    name(&vault),
                    cell.name
                );
            }
        }
    }
}

/// An edit arrives at the member of the vault.
async fn follows(case: &Case, vault: &str, member: &str, size: u32, when: &str) {
    case.merge(&VAULT, vault, json!({"spec": {"size": size}})).await;
    let what = format!("has the edit {when}");
    cell(case, member)
        .plane
        .sees(&VAULT, &case.hub_ns, vault, &what, seconds(120), |o| {
            o["spec"]["size"] == size
        })
        .await;
}

/// G8: the member is drained, and leaves its city; another one serves it.
async fn pinned_ones_stay(case: &Case, members: &BTreeMap<String, String>) {
    let rest = Rest::begin(case).await;
    let member = members[FIRST].as_str();
    assert_eq!(member, case.dfw.name, "its city had no other when it was made");
    let taint = json!([{"key": "fedgate.dev/drained", "effect": "NoExecute"}]);
    relabel(case, &case.dfw, json!({"spec": {"taints": taint}})).await;
    follows(case, FIRST, member, 2, "while the member is drained").await;
    relabel(
        case,
        &case.dfw,
        json!({"metadata": {"labels": {keys::CITY_CODE: null}}}),
    )
    .await;
    city_has(case, &[&case.lhr]).await;
    follows(case, FIRST, member, 3, "when the member has left the city").await;
    let same = |state: Option<&Value>| {
        state.is_some_and(|o| uid(o) == rest.uids[0][FIRST] && o["metadata"]["deletionTimestamp"].is_null())
    };
    let (hub_ns, time) = (&case.hub_ns, seconds(5));
    let here = &case.dfw.plane;
    let stays = here.holds(&VAULT, hub_ns, FIRST, "is the same vault", time, same);
    let there = &other(case, member).plane;
    let absent = there.holds(&VAULT, hub_ns, FIRST, "is not made again", time, |state| {
        state.is_none()
    });
    tokio::join!(stays, absent);
    rest.held(case, "while one member was away from the city").await;
    restored_city_of_two(case).await;
    city_has(case, &[&case.dfw, &case.lhr]).await;
    follows(case, FIRST, member, 4, "when the member is back").await;
    rest.held(case, "when it was back").await;
}

async fn restored_city_of_two(case: &Case) {
    relabel(case, &case.dfw, json!({"spec": {"taints": null}})).await;
    relabel(case, &case.dfw, in_city(&case.dfw.city)).await;
}

/// Everything ends before the second member leaves the city: what preserves would stay there.
async fn ended(case: &Case, members: &BTreeMap<String, String>) {
    for vault in members.keys() {
        case.delete(&VAULT, vault).await;
    }
    for vault in members.keys() {
        case.project.gone(&VAULT, &case.ns, vault, seconds(200)).await;
    }
    wait_for("the Namespace's Works preserve nothing", seconds(120), || async {
        for cell in [&case.dfw, &case.lhr] {
            let works = case.hub.list(&WORK, &space(cell), "").await;
            let of = |work: &&Value| {
                let manifest = &work["spec"]["workload"]["manifests"][0];
                manifest["kind"] == NAMESPACE.name && manifest["metadata"]["name"] == *case.hub_ns
            };
            if works.iter().find(of)?["spec"]["preserveResourcesOnDeletion"] == true {
                return None;
            }
        }
        Some(())
    })
    .await;
}

async fn v30_an_object_is_at_one_member_of_two(case: Case) {
    // A Namespace of another trial that keeps what it has would leave it at the second member.
    case.suite.only_live_namespaces().await;
    let dfw = case.hub.version(&WORK, &space(&case.dfw)).await;
    let lhr = case.hub.version(&WORK, &space(&case.lhr)).await;
    let since = [&*dfw, &*lhr];
    delivered(&case).await;
    let run = async {
        let first = Rest::begin(&case).await;
        relabel(&case, &case.lhr, in_city(&case.dfw.city)).await;
        city_has(&case, &[&case.dfw, &case.lhr]).await;
        // G9.
        first.held(&case, "when another member joined the city").await;
        let members = chosen(&case).await;
        each_is_at_one(&case, &members, since).await;
        pinned_ones_stay(&case, &members).await;
        each_is_at_one(&case, &members, since).await;
        ended(&case, &members).await;
    };
    with_cleanup(run, restored(&case)).await;
    settled(&case).await;
}
