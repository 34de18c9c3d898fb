//! Decisions on city policies: the exact effects, and that nothing else came.

use super::{Snapshot, decide};
use crate::{
    api::names::CityCode,
    engine::plan::{Effect, Write},
    gateway::world::{Resources, digest::CityPolicy},
    kinds::FederatedKind,
    plane::table::Row,
};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

fn city(code: &str) -> CityCode {
    CityCode::parse(code).unwrap()
}

fn cities(codes: &[&str]) -> BTreeSet<CityCode> {
    codes.iter().map(|c| city(c)).collect()
}

fn policy(name: &str, selects: Option<&str>, exact: bool) -> (Arc<str>, Row<CityPolicy>) {
    let digest = CityPolicy {
        selects: selects.map(|c| (0, city(c))),
        exact,
    };
    (
        name.into(),
        Row {
            uid: "u".into(),
            version: 7,
            deleting: false,
            digest,
            body: None,
        },
    )
}

fn snapshot(used: &[&str], policies: Vec<(Arc<str>, Row<CityPolicy>)>) -> Snapshot {
    Snapshot {
        kinds: Arc::new(FederatedKind::builtin().unwrap()),
        resource: Resources::default().city_policies,
        namespace: "ns-a".into(),
        open: true,
        used: vec![cities(used)],
        needed: vec![cities(used)],
        policies,
    }
}

fn done(s: &Snapshot) -> Vec<(String, &'static str)> {
    decide(s)
        .effects
        .into_iter()
        .map(|e: Effect| (e.target.name, e.reason))
        .collect()
}

#[test]
fn a_city_in_use_gets_exactly_its_policy() {
    let plan = decide(&snapshot(&["DFW"], vec![]));
    assert_eq!(plan.effects.len(), 1);
    let Write::Apply { body, .. } = &plan.effects[0].write else {
        panic!("{plan:?}")
    };
    let labels = json!({"topology.datum.net/city-code": "DFW"});
    assert_eq!(
        body,
        &json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "city-dfw", "namespace": "ns-a"},
            "spec": {"propagateDeps": true,
                "resourceSelectors": [{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
                    "namespace": "ns-a", "labelSelector": {"matchLabels": labels}}],
                "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": labels}}}}})
    );
}

#[test]
fn at_rest_nothing_is_written_and_an_unused_policy_goes_by_version() {
    assert_eq!(
        done(&snapshot(&["DFW"], vec![policy("city-dfw", Some("DFW"), true)])),
        []
    );
    let plan = decide(&snapshot(&[], vec![policy("city-dfw", Some("DFW"), true)]));
    assert_eq!(
        plan.effects[0].write,
        Write::Delete {
            uid: "u".into(),
            resource_version: Some("7".into())
        }
    );
    let mut claimed = snapshot(&[], vec![policy("city-dfw", Some("DFW"), true)]);
    claimed.needed = vec![cities(&["DFW"])];
    assert_eq!(done(&claimed), [], "a binding still claims it");
    assert_eq!(
        done(&snapshot(
            &[],
            vec![policy("mine", None, false), policy("other", Some("DFW"), true)]
        )),
        []
    );
}

#[test]
fn two_codes_of_one_plain_name_never_share_a_policy() {
    let first = done(&snapshot(&["DFW", "dfw"], vec![]));
    assert_eq!(first.iter().filter(|(name, _)| name == "city-dfw").count(), 1);
    assert_eq!(first.len(), 2);
    let held = done(&snapshot(
        &["DFW", "dfw"],
        vec![policy("city-dfw", Some("dfw"), true)],
    ));
    assert_eq!(held.len(), 1);
    assert!(held[0].0.starts_with("city-dfw."), "{held:?}");
}

#[test]
fn an_edited_policy_is_restored_under_its_name() {
    assert_eq!(
        done(&snapshot(&["DFW"], vec![policy("city-dfw", Some("DFW"), false)])),
        [("city-dfw".into(), "restore_city_policy")]
    );
    assert_eq!(
        done(&snapshot(&["DFW"], vec![policy("city-dfw", Some("LHR"), false)])),
        [("city-dfw".into(), "restore_city_policy")]
    );
    assert_eq!(
        done(&snapshot(&["DFW"], vec![policy("city-dfw", None, false)])),
        [("city-dfw".into(), "restore_city_policy")]
    );
}

#[test]
fn a_policy_that_terminates_is_awaited() {
    let mut leaving = policy("city-dfw", Some("DFW"), true);
    leaving.1.deleting = true;
    assert_eq!(done(&snapshot(&["DFW"], vec![leaving.clone()])), []);
    assert_eq!(done(&snapshot(&[], vec![leaving])), []);
}
