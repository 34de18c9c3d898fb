//! Tests of exact decisions: these effects, and no others.

mod checks;
mod large;
mod location_sources;
mod matching;
mod observe;
mod places;
mod ready;
mod replaced;
mod rollup;
mod selectors;

use super::{
    decide::{
        Part,
        WorkloadEffect::{
            self, AddFinalizer, ChangePlace, Create, Delete, PatchStatus, RemoveFinalizer, Update,
        },
        decide, needs_confirmation,
    },
    goes_on,
    snapshot::{Checks, Locations, Networks, WorkloadSnapshot},
};
use fedgate_api::{
    Condition, ConditionStatus, Reason, ReplicaCounts, Workload, WorkloadDeployment,
    WorkloadDeploymentStatus, WorkloadStatus, conditions::find, keys, names::HubNamespace,
};
use fedgate_engine::{diff::Digest, reconcile::normalized::Normalized};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

const UID: &str = "5f1c2d9e-0000-4000-8000-000000000001";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A Workload `shop` with these placements and cities.
fn workload(placements: &[(&str, &[&str])]) -> Workload {
    let placements: Vec<Value> = placements
        .iter()
        .map(|(name, cities)| json!({"name": name, "cityCodes": cities, "scaleSettings": {"minReplicas": 1}}))
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload",
        "metadata": {"name": "shop", "namespace": "default", "uid": UID, "generation": 3,
                     "finalizers": ["compute.datumapis.com/workload-controller"]},
        "spec": {
            "placements": placements,
            "template": {"metadata": {"labels": {"app": "shop"}}, "spec": {
                "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"},
                            "sandbox": {"containers": [{"name": "web", "image": "shop/web:1"}]}},
                "networkInterfaces": [{"network": {"name": "default"}}],
            }},
        },
    }))
    .unwrap()
}

fn snapshot(placements: &[(&str, &[&str])]) -> WorkloadSnapshot {
    WorkloadSnapshot {
        workload: workload(placements),
        deployments: Vec::new(),
        held: [].into(),
        hub_namespace: HubNamespace::of("a001"),
        own_hub: None,
        cities: [].into(),
        clusters_listed: true,
        checks: Checks::default(),
    }
}

/// The stored deployment of the same UID.
fn same<'a>(s: &'a mut WorkloadSnapshot, one: &WorkloadDeployment) -> &'a mut WorkloadDeployment {
    let mut all = s.deployments.iter_mut();
    all.find(|d| d.metadata.uid == one.metadata.uid).unwrap()
}

/// Decides, and executes the decision as servers would.
fn step(s: &mut WorkloadSnapshot, second: i64) -> Vec<WorkloadEffect> {
    let effects = decide(s, at(second));
    for effect in effects.clone() {
        match effect {
            AddFinalizer => s.workload.metadata.finalizers = Some(vec![keys::WORKLOAD_FINALIZER.into()]),
            RemoveFinalizer => s.workload.metadata.finalizers = None,
            Create(mut made) => {
                made.metadata.uid = made.metadata.name.as_ref().map(|n| format!("uid-of-{n}"));
                made.metadata.creation_timestamp = Some(Time(at(second)));
                made.metadata.generation = Some(1);
                s.deployments.push(*made);
            }
            Update(applied) => {
                let there = same(s, &applied);
                there.metadata.generation = there.metadata.generation.map(|n| n + 1);
                there.spec = applied.spec;
                there
                    .metadata
                    .labels
                    .get_or_insert_default()
                    .extend(applied.metadata.labels.unwrap());
                there.metadata.owner_references = applied.metadata.owner_references;
            }
            ChangePlace(changed) => {
                let there = same(s, &changed);
                there.metadata.generation = there.metadata.generation.map(|n| n + 1);
                there.spec.placement_name = changed.spec.placement_name;
                there.spec.city_code = changed.spec.city_code;
                there.spec.location_ref = changed.spec.location_ref;
                let labels = there.metadata.labels.get_or_insert_default();
                labels.remove(keys::INSTANCE_LOCATION);
                labels.extend(changed.metadata.labels.unwrap());
            }
            Delete { uid, .. } => {
                let there = s
                    .deployments
                    .iter_mut()
                    .find(|d| d.metadata.uid.as_ref() == Some(&uid))
                    .unwrap();
                there.metadata.deletion_timestamp = Some(Time(at(second)));
            }
            PatchStatus(status) => s.workload.status = Some(*status),
        }
    }
    effects
}

/// A Workload without differences.
fn normalized(placements: &[(&str, &[&str])]) -> WorkloadSnapshot {
    let mut s = snapshot(placements);
    step(&mut s, 0);
    assert_eq!(step(&mut s, 1), []);
    s
}

/// A short text for each effect.
fn words(effects: &[WorkloadEffect]) -> Vec<String> {
    let name = |d: &WorkloadDeployment| {
        format!(
            "{} {}/{}",
            d.metadata.name.as_ref().unwrap(),
            d.spec.placement_name,
            d.spec
                .place()
                .map_or_else(String::new, |place| match (place.city(), place.location()) {
                    (Some(city), None) => (*city).to_owned(),
                    (city, location) => format!("{}@{}", city.unwrap_or(&""), location.unwrap_or(&"")),
                })
        )
    };
    effects
        .iter()
        .map(|effect| match effect {
            AddFinalizer => "+finalizer".to_owned(),
            RemoveFinalizer => "-finalizer".to_owned(),
            Create(d) => format!("create {}", name(d)),
            Update(d) => format!("update {}", name(d)),
            ChangePlace(d) => format!("place {}", name(d)),
            Delete { name, .. } => format!("delete {name}"),
            PatchStatus(_) => "status".to_owned(),
        })
        .collect()
}

fn status_of(effects: &[WorkloadEffect]) -> &WorkloadStatus {
    let Some(PatchStatus(status)) = effects.last() else {
        panic!("no status among {:?}", words(effects))
    };
    status
}

/// The reason of the Workload's Available condition, and of each placement's.
fn reasons(status: &WorkloadStatus) -> Vec<&str> {
    let lists = std::iter::once(&status.conditions).chain(status.placements.iter().map(|p| &p.conditions));
    lists
        .map(|list| find(list, "Available").unwrap().reason.as_str())
        .collect()
}

/// The status of a cell that has acted on the latest generation.
fn report(d: &mut WorkloadDeployment, conditions: &[(&str, ConditionStatus, &str)], counts: ReplicaCounts) {
    let conditions = conditions
        .iter()
        .map(|(t, s, reason)| Condition::new(t, *s, reason, &format!("{reason}!"), at(0)))
        .map(|condition| condition.observed(d.metadata.generation));
    d.status = Some(WorkloadDeploymentStatus {
        conditions: conditions.collect(),
        counts,
        observed_generation: d.metadata.generation,
        ..WorkloadDeploymentStatus::default()
    });
}

#[test]
fn the_finalizer_comes_first_and_alone() {
    let mut s = snapshot(&[("us", &["DFW"])]);
    s.workload.metadata.finalizers = None;
    assert_eq!(step(&mut s, 0), [AddFinalizer]);
    assert_eq!(words(&step(&mut s, 1)), ["create shop-us-dfw us/DFW", "status"]);
}

#[test]
fn a_deployment_is_created_complete() {
    let mut s = snapshot(&[("us", &["DFW"])]);
    let effects = step(&mut s, 0);
    let Create(made) = &effects[0] else {
        panic!("{:?}", words(&effects))
    };
    let wanted = json!({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
        "metadata": {
            "name": "shop-us-dfw", "namespace": "default",
            "labels": {"compute.datumapis.com/workload-uid": UID,
                       "services.miloapis.com/service-name": "compute.datumapis.com"},
            "annotations": {"compute.datumapis.com/federation-namespace": "ns-a001"},
            "finalizers": ["compute.datumapis.com/federator"],
            "ownerReferences": [{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload", "name": "shop",
                                 "uid": UID, "controller": true}],
        },
        "spec": {
            "workloadRef": {"name": "shop", "uid": UID}, "placementName": "us", "cityCode": "DFW",
            "scaleSettings": {"minReplicas": 1, "instanceManagementPolicy": "OrderedReady"},
            "template": serde_json::to_value(fedgate_api::InstanceTemplate::default()).unwrap(),
        },
    });
    let made = serde_json::from_value::<WorkloadDeployment>(serde_json::to_value(made).unwrap()).unwrap();
    assert_eq!(serde_json::to_value(made).unwrap(), wanted);
    let status = status_of(&effects);
    assert_eq!((status.deployments, status.observed_generation), (1, Some(3)));
    assert_eq!(
        reasons(status),
        ["NoAvailablePlacements", "NoAvailableDeployments"]
    );
}

#[test]
fn a_hundred_passes_over_an_unchanged_workload_write_nothing() {
    let mut s = normalized(&[("us", &["DFW", "IAD"]), ("eu", &["LHR"])]);
    for second in 2..102 {
        assert_eq!(step(&mut s, second), []);
    }
}

#[test]
fn what_someone_puts_into_a_spec_goes_and_their_metadata_stays() {
    let mut s = normalized(&[("us", &["DFW"])]);
    let d = &mut s.deployments[0];
    d.metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert("mine".into(), "x".into());
    d.metadata
        .labels
        .as_mut()
        .unwrap()
        .insert("mine".into(), "x".into());
    assert_eq!(step(&mut s, 2), []);
    s.deployments[0].spec.scale_settings.min_replicas = 9;
    let effects = step(&mut s, 3);
    let [Update(applied)] = effects.as_slice() else {
        panic!("{:?}", words(&effects))
    };
    assert_eq!(applied.metadata.uid.as_deref(), Some("uid-of-shop-us-dfw"));
    assert_eq!(applied.metadata.annotations, None);
    assert_eq!(applied.metadata.finalizers, None);
    assert_eq!(applied.spec.scale_settings.min_replicas, 1);
    assert_eq!(s.deployments[0].metadata.labels.as_ref().unwrap()["mine"], "x");
    s.deployments[0].metadata.owner_references = None;
    s.deployments[0]
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .remove(keys::WORKLOAD_UID);
    assert_eq!(words(&step(&mut s, 4)), ["update shop-us-dfw us/DFW"]);
    assert_eq!(step(&mut s, 5), []);
}

/// Case W16: the Workload alone determines a deployment's spec, whatever field is edited there.
#[test]
fn an_edited_spec_is_restored_once_and_an_edited_status_restores_nothing() {
    let mut s = normalized(&[("us", &["DFW"])]);
    let ours = s.deployments[0].spec.clone();
    s.deployments[0].spec.placement_name = "elsewhere".to_owned();
    s.deployments[0].spec.scale_settings.min_replicas = 9;
    assert_eq!(
        words(&step(&mut s, 2)),
        ["update shop-us-dfw us/DFW"],
        "one write restores it"
    );
    assert_eq!(s.deployments[0].spec, ours);
    assert_eq!(step(&mut s, 3), [], "and no war follows");
    let counts = ReplicaCounts {
        desired_replicas: 9,
        ..ReplicaCounts::default()
    };
    report(
        &mut s.deployments[0],
        &[("Available", ConditionStatus::True, "Forged")],
        counts,
    );
    assert_eq!(
        words(&step(&mut s, 4)),
        ["status"],
        "what is said of it is told, no more"
    );
    assert_eq!(s.deployments[0].spec, ours);
    assert_eq!(step(&mut s, 5), []);
}

#[test]
fn a_city_that_is_gone_is_deleted_after_every_upsert() {
    let mut s = normalized(&[("us", &["DFW", "IAD"])]);
    s.workload.spec.placements[0].city_codes = vec!["LHR".into(), "DFW".into()];
    s.workload.spec.placements[0].scale_settings.min_replicas = 4;
    let wanted = [
        "create shop-us-lhr us/LHR",
        "update shop-us-dfw us/DFW",
        "delete shop-us-iad",
        "status",
    ];
    let effects = step(&mut s, 2);
    assert_eq!(words(&effects), wanted);
    assert_eq!(
        effects[2],
        Delete {
            name: "shop-us-iad".into(),
            uid: "uid-of-shop-us-iad".into()
        }
    );
    assert_eq!(status_of(&effects).deployments, 3);
    assert_eq!(step(&mut s, 3), [], "what leaves is waited for");
}

#[test]
fn a_deleted_workload_deletes_waits_and_lets_go() {
    let mut s = normalized(&[("us", &["IAD", "DFW"])]);
    s.workload.metadata.deletion_timestamp = Some(Time(at(2)));
    assert_eq!(
        words(&step(&mut s, 2)),
        ["delete shop-us-dfw", "delete shop-us-iad"]
    );
    assert_eq!(step(&mut s, 3), []);
    s.deployments.clear();
    assert_eq!(step(&mut s, 4), [RemoveFinalizer]);
    assert_eq!(step(&mut s, 5), []);
}

#[test]
fn only_what_changes_deployments_beside_others_is_confirmed() {
    let doubtful = |s: &WorkloadSnapshot| needs_confirmation(&decide(s, at(9)), s);
    let new = snapshot(&[("us", &["DFW"])]);
    assert!(!doubtful(&new), "there is nothing to lose");
    let mut s = normalized(&[("us", &["DFW", "IAD"])]);
    assert!(!doubtful(&s));
    s.workload.spec.placements[0].scale_settings.min_replicas = 4;
    assert!(doubtful(&s), "an apply");
    let mut s = normalized(&[("us", &["DFW", "IAD"])]);
    s.workload.spec.placements[0].city_codes = vec!["DFW".into()];
    assert!(doubtful(&s), "a deletion");
    let mut s = normalized(&[("us", &["DFW"])]);
    s.workload.spec.placements[0].city_codes = vec!["DFW".into(), "LHR".into()];
    assert!(doubtful(&s), "a creation");
    s.workload.metadata.deletion_timestamp = Some(Time(at(2)));
    assert!(doubtful(&s), "the end");
}

#[test]
fn a_deployment_of_this_workloads_gets_back_its_owner_as_it_is() {
    for (field, of) in [("uid", "u-former"), ("name", "former"), ("kind", "Former")] {
        let mut s = normalized(&[("main", &["DFW"])]);
        let owner = &mut s.deployments[0].metadata.owner_references.as_mut().unwrap()[0];
        match field {
            "uid" => owner.uid = of.into(),
            "name" => owner.name = of.into(),
            _ => owner.kind = of.into(),
        }
        let effects = decide(&s, at(9));
        let [Update(applied)] = &effects[..] else {
            panic!("{field}: {:?}", words(&effects));
        };
        let owner = &applied.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            (&*owner.uid, &*owner.name, &*owner.kind),
            (UID, "shop", "Workload"),
            "{field}"
        );
    }
}

#[test]
fn a_plan_that_changed_nothing_is_executed_again_only_after_a_change() {
    let mut normalized = Normalized::default();
    let [wanted, other, before, after] = [1, 2, 3, 4].map(|n: u8| Digest::of_hash(&n));
    let mut go = |executed, wanted, found| goes_on(&mut normalized, executed, wanted, found);
    assert!(go(None, wanted, before));
    assert!(
        go(Some((wanted, before)), wanted, after),
        "another client may have edited it meanwhile"
    );
    assert!(
        !go(Some((wanted, after)), wanted, after),
        "the write changed nothing"
    );
    assert!(!go(None, wanted, after), "in later reconciles too");
    assert!(go(None, wanted, before), "the state is another one");
    assert!(go(None, other, after), "the plan is another one");
    normalized = Normalized::default();
    assert!(goes_on(&mut normalized, None, wanted, after));
}
