//! While lists are incomplete, a spec is synced and nothing else is decided.

use super::*;
use crate::{
    federator::observe::observe,
    index::{
        GatewayIndex, TableId,
        fixture::{self, HUB as HOME, hub_namespace, shop},
        networking::WorkloadChecks,
    },
    namespaces, policies, projector,
};
use fedgate_kinds::KindId;

/// The decisions on a snapshot with all lists, and without.
fn both(s: &Snapshot, after: Duration) -> [Vec<Effect>; 2] {
    [true, false].map(|complete| {
        let s = Snapshot {
            complete,
            ..s.clone()
        };
        let settled = Memory {
            is_binding_settled: true,
            ..Memory::default()
        };
        let (mut memory, start) = (settled, now());
        decide(&s, &mut memory, &SETTINGS, start);
        plan(decide(&s, &mut memory, &SETTINGS, later(start, after))).0
    })
}

#[tokio::test]
async fn a_spec_is_carried_as_with_all_lists() {
    let mut unannounced = deployment();
    unannounced["metadata"]["finalizers"] = json!([]);
    let mut newer = deployment();
    newer["metadata"]["generation"] = json!(4);
    newer["spec"]["scaleSettings"]["minReplicas"] = json!(5);
    let mut moved = newer.clone();
    moved["spec"]["cityCode"] = json!("LHR");
    for (source, copy, reason) in [
        (unannounced, None, "announce"),
        (deployment(), None, "create_copy"),
        (newer, Some(hub_copy()), "update_copy"),
        (moved, Some(hub_copy()), "move_copy"),
    ] {
        let [all, some] = both(&snapshot(&source, copy.as_ref()), Duration::ZERO);
        assert_eq!((all.len(), all[0].reason.label()), (1, reason));
        assert_eq!(some, all);
    }
}

#[tokio::test]
async fn nothing_else_is_decided_before_all_lists_are_complete() {
    let with = |change: &dyn Fn(&mut Value, &mut Value)| {
        let (mut d, mut c) = (deployment(), hub_copy());
        change(&mut d, &mut c);
        snapshot(&d, Some(&c))
    };
    let leaving = |d: &mut Value| d["metadata"]["deletionTimestamp"] = json!("2026-05-04T09:59:59Z");
    let anothers = |c: &mut Value| c["metadata"]["annotations"][keys::SOURCE_UID] = json!("u-earlier");
    let mut released = with(&|d, _| leaving(d));
    released.copy = None;
    let mut drain = with(&|_, c| anothers(c));
    drain.hub_state = HubNamespaceState::EarlierLife;
    let mut claim = with(&|_, _| {});
    claim.is_claim_right = false;
    let mut taken = with(&|_, _| {});
    taken.companions.taken = Some("Secret/db".into());
    let cases = [
        ("delete_copy", with(&|d, _| leaving(d))),
        ("let_go", released),
        ("replace_copy", with(&|_, c| anothers(c))),
        ("drain_earlier_life", drain),
        ("repair_claim", claim),
        ("return_status", taken),
        (
            "return_status",
            with(&|_, c| c["status"] = json!({"replicas": 1, "observedGeneration": 3})),
        ),
        (
            "return_status",
            with(&|d, _| d["spec"]["cityCode"] = json!("not a city")),
        ),
    ];
    for (reason, s) in cases {
        let [all, some] = both(&s, Duration::from_secs(10));
        assert_eq!(all.iter().map(|e| e.reason.label()).collect::<Vec<_>>(), [reason]);
        assert_eq!(some, [], "{reason}");
    }
}

#[tokio::test]
async fn what_may_not_be_this_projects_place_takes_nothing() {
    let mut s = snapshot(&deployment(), None);
    (s.hub_state, s.complete) = (HubNamespaceState::Unproven, false);
    idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
}

#[tokio::test]
async fn what_the_hub_refused_waits_with_and_without_the_other_lists() {
    let mut s = snapshot(&deployment(), None);
    s.complete = false;
    let (mut memory, start) = (Memory::default(), now());
    memory.refuse(s.source.as_ref().unwrap(), true, "no", start);
    let (effects, next) = plan(decide(&s, &mut memory, &SETTINGS, start));
    assert_eq!((effects, next), (vec![], Requeue::After(Duration::from_mins(5))));
}

/// The hub and the project with an edit that the copy lacks, and only the lists that a sync needs.
fn half_read(cluster: &str) -> GatewayIndex {
    half_read_without(cluster, &[])
}

/// As [`half_read`], without these lists.
fn half_read_without(cluster: &str, missing: &[TableId]) -> GatewayIndex {
    let mut index = GatewayIndex::new(KINDS.clone(), WorkloadChecks::default());
    let mut home = hub_namespace("dfw");
    home["metadata"]["labels"][keys::UPSTREAM_CLUSTER] = json!(cluster);
    for table in index
        .hub_tables()
        .into_iter()
        .filter(|table| table.is_first_phase() && !missing.contains(table))
    {
        let objects = match table {
            TableId::Namespaces => vec![home.clone()],
            TableId::CitySets => vec![fixture::city_set("cities-dfw", &["DFW"])],
            TableId::CityPolicies => vec![fixture::city_policy("city-dfw", "DFW")],
            TableId::Federated(_) => vec![fixture::copy("web", "DFW")],
            _ => Vec::new(),
        };
        index.list_hub(table, &objects);
    }
    index.engage(shop());
    let mut edited = fixture::source("web", "DFW");
    edited["metadata"]["generation"] = json!(2);
    edited["spec"]["template"] = json!({"spec": {"runtime": {}}});
    for table in index.project_tables() {
        let objects = match table {
            TableId::Namespaces => vec![
                fixture::namespace("kube-system", "p1", &json!({})),
                fixture::namespace("default", "a1", &json!({})),
            ],
            TableId::Federated(_) => vec![edited.clone()],
            _ => continue,
        };
        index.list_shop(table, &objects);
    }
    index
}

#[tokio::test]
async fn an_edit_is_seen_without_the_lists_that_carrying_does_not_need() {
    let mut index = half_read(&shop().label());
    let key = index.source_key(KindId::FIRST, &shop(), "default", "web");
    let mut s = observe(&index, &key, &shop()).unwrap();
    assert!(!s.complete && s.readiness.is_ready && s.hub_state == HubNamespaceState::Ours);
    s.source.as_mut().unwrap().body = Some(Arc::new(object(fixture::source("web", "DFW"))));
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(effect.reason.label(), "update_copy");
    assert!(namespaces::observe(&index, HOME).is_none());
    assert!(policies::observe(&index, HOME).is_none());
    let instance = index.hub_key(TableId::INSTANCES, HOME, "web-0");
    assert!(projector::observe(&index, &instance).is_none());
    assert!(!crate::queries::lifecycle::proven_gone(&index, HOME));
    for table in index.hub_tables() {
        index.list_hub(table, &[]);
    }
    for table in index.project_tables().into_iter().filter(|r| !r.is_first_phase()) {
        assert!(!observe(&index, &key, &shop()).unwrap().complete, "{table:?}");
        index.list_shop(table, &[]);
    }
    assert!(observe(&index, &key, &shop()).unwrap().complete);
}

#[tokio::test]
async fn before_the_cells_were_ever_listed_what_is_in_place_is_carried_and_a_new_city_waits() {
    let mut index = half_read_without(&shop().label(), &[TableId::Clusters]);
    let seen = |index: &GatewayIndex, name: &str| {
        let key = index.source_key(KindId::FIRST, &shop(), "default", name);
        let mut s = observe(index, &key, &shop()).unwrap();
        s.source.as_mut().unwrap().body = Some(Arc::new(object(fixture::source(name, "DFW"))));
        s
    };
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("new", "LHR"));
    for complete in [false, true] {
        if complete {
            let rest = index.hub_tables().into_iter().filter(|r| !r.is_first_phase());
            rest.for_each(|table| index.list_hub(table, &[]));
            let rest = index.project_tables().into_iter().filter(|r| !r.is_first_phase());
            rest.for_each(|table| index.list_shop(table, &[]));
        }
        let web = seen(&index, "web");
        assert_eq!(web.complete, complete);
        let effect = one(decide(&web, &mut Memory::default(), &SETTINGS, now()));
        assert_eq!(effect.reason.label(), "update_copy");
        let new = seen(&index, "new");
        assert!(!new.readiness.has_no_cell && new.readiness.is_unproven && !new.readiness.is_ready);
    }
    index.list_hub(TableId::Clusters, &[]);
    assert!(seen(&index, "new").readiness.has_no_cell);
}

#[test]
fn each_list_that_carrying_needs_is_waited_for() {
    let all = half_read(&shop().label());
    let lists = |index: &GatewayIndex| {
        index
            .hub_tables()
            .into_iter()
            // Companions that are in place need no list.
            .filter(|table| table.is_first_phase() && *table != TableId::Clusters)
            .collect::<Vec<_>>()
    };
    for missing in lists(&all) {
        let mut index = GatewayIndex::new(KINDS.clone(), WorkloadChecks::default());
        for table in lists(&all) {
            assert!(!index.hub_specs_synced(), "{table:?}");
            if table != missing {
                index.list_hub(table, &[]);
            }
        }
        assert!(!index.hub_specs_synced(), "{missing:?}");
        index.list_hub(missing, &[]);
        assert!(index.hub_specs_synced());
    }
    let mut index = half_read(&shop().label());
    index.engage(shop());
    assert!(!index.specs_synced(&shop()));
    index.list_shop(TableId::DEPLOYMENTS, &[]);
    index.list_shop(
        TableId::Namespaces,
        &[fixture::namespace("default", "a1", &json!({}))],
    );
    assert!(!index.specs_synced(&shop()), "its UID is not known");
}

#[test]
fn a_namespace_that_names_another_takes_nothing_whether_that_is_engaged_or_not() {
    let mut index = half_read("cluster-prod");
    let key = index.source_key(KindId::FIRST, &shop(), "default", "web");
    let seen = |index: &GatewayIndex| observe(index, &key, &shop()).map(|s| (s.hub_state, s.hub.is_some()));
    let claimed = Some((HubNamespaceState::Foreign, false));
    assert_eq!(seen(&index), claimed);
    index.engage(ProjectKey::parse("prod").unwrap());
    assert_eq!(seen(&index), claimed);
    assert_eq!(index.unsynced_spec_keys(&fedgate_engine::key::Plane::Hub), []);
    let own = half_read(&shop().label());
    assert_eq!(seen(&own), Some((HubNamespaceState::Ours, true)));
}

#[test]
fn only_what_the_hub_has_otherwise_waits_to_be_carried() {
    use fedgate_engine::key::Plane;
    let mut index = half_read(&shop().label());
    let key = |index: &GatewayIndex, name: &str| index.source_key(KindId::FIRST, &shop(), "default", name);
    assert_eq!(index.unsynced_spec_keys(&Plane::Hub), [key(&index, "web")]);
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("new", "DFW"));
    index.shop_has(TableId::DEPLOYMENTS, &fixture::leaving("old", "DFW"));
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("same", "DFW"));
    index.hub_has(TableId::DEPLOYMENTS, &fixture::copy("same", "DFW"));
    let waiting = [key(&index, "new"), key(&index, "web")];
    assert_eq!(index.unsynced_spec_keys(&Plane::Hub), waiting);
    assert_eq!(index.unsynced_spec_keys(&Plane::Project(shop())), waiting);
    let held = |index: &GatewayIndex, name: &str| {
        let row = index.projects[&shop()].sources[KindId::FIRST].get("default", name);
        row.unwrap().body.is_some()
    };
    assert!(held(&index, "new"), "its turn comes");
    index.disengage(&shop());
    assert_eq!(index.unsynced_spec_keys(&Plane::Hub), []);
}
