//! Each of the six links of a deployment's way, broken in turn.

use super::{find, first_broken, hops, observe, verdict};
use fedgate_api::keys;
use fedgate_engine::{
    clock::{Clock, Now},
    error::Category,
    key::Plane,
    plane::watch::WatchEvent,
    runtime::{
        failures::{Class, LastFailure},
        index::Index,
    },
};
use fedgate_gateway::index::{
    GatewayIndex, TableId,
    fixture::{self, HUB, binding, cluster, copy, shop, source, zoo},
};
use fedgate_operations::{HopKind, HopState, TracedObject, Verdict};
use serde_json::{Value, json};
use std::sync::Arc;

const EARLIER: &str = "2026-05-04T10:00:00Z";
const NOW: &str = "2026-05-04T12:00:00Z";

fn now() -> Now {
    Clock::fixed(NOW.parse().unwrap()).now()
}

fn condition(kind: &str, status: &str, reason: &str, generation: i64) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": format!("{reason} it is"),
        "observedGeneration": generation, "lastTransitionTime": EARLIER})
}

/// The objects of a deployment that is whole.
struct Chain {
    source: Value,
    copy: Value,
    binding: Value,
    cluster: Value,
    write_back: Option<Value>,
    projection: Option<Value>,
}

impl Chain {
    fn whole() -> Self {
        let created = |mut object: Value| {
            object["metadata"]["creationTimestamp"] = json!(EARLIER);
            object
        };
        let mut source = created(source("web", "DFW"));
        source["spec"] = json!({"cityCode": "DFW", "placementName": "us", "workloadRef": {"name": "web", "uid": "w"},
            "scaleSettings": {"minReplicas": 1}, "template": {"spec": {}}});
        source["status"] = json!({"observedGeneration": 1, "desiredReplicas": 1, "replicas": 1, "readyReplicas": 1,
            "currentReplicas": 1, "updatedReplicas": 1,
            "conditions": [condition("Federated", "True", "Delivered", 1),
                condition("Available", "True", "StableInstanceFound", 1)]});
        let mut copy = created(copy("web", "DFW"));
        copy["status"] = source["status"].clone();
        let mut binding = binding("web");
        binding["metadata"]["annotations"] = json!({keys::CLAIM_NAME: "city-DFW"});
        binding["spec"]["clusters"] = json!([{"name": "dfw-1"}]);
        binding["status"] = json!({"conditions": [condition("Scheduled", "True", "Success", 1),
            condition("FullyApplied", "True", "Success", 1)]});
        let mut cluster = cluster("DFW");
        cluster["status"] = json!({"conditions": [condition("Ready", "True", "ClusterReady", 1)]});
        let instance = |namespace: &str| {
            let mut instance = created(fixture::object(namespace, "web-0", "i-0"));
            instance["metadata"]["labels"] = json!({keys::CITY_CODE: "DFW", keys::CELL: "dfw-1",
                keys::WORKLOAD_DEPLOYMENT_NAME: "web"});
            instance["status"] = json!({"conditions": [condition("Ready", "True", "Available", 1)]});
            instance
        };
        let mut projection = instance("default");
        projection["metadata"]["ownerReferences"] = json!([{"apiVersion": fedgate_api::API_VERSION,
            "kind": "WorkloadDeployment", "name": "web", "uid": "u-web"}]);
        Self {
            source,
            copy,
            binding,
            cluster,
            write_back: Some(instance(HUB)),
            projection: Some(projection),
        }
    }

    /// The index that sees all of it at this time.
    fn index(&self, seen: &str) -> GatewayIndex {
        let mut index = GatewayIndex::fixture();
        index.clock = Clock::fixed(seen.parse().unwrap());
        let kind = index.workload_kind().unwrap();
        let project = Plane::Project(shop());
        let engagement = index.projects[&shop()].engagement;
        let mut apply = |plane: &Plane, table, object: &Value| {
            let mut object = object.clone();
            object["metadata"]["resourceVersion"] = json!("9");
            let event = WatchEvent::Apply(Box::new(serde_json::from_value(object).unwrap()));
            let engagement = if *plane == Plane::Hub { 0 } else { engagement };
            index.apply(plane, engagement, table, event);
        };
        apply(
            &Plane::Hub,
            TableId::CityPolicies,
            &fixture::city_policy("city-DFW", "DFW"),
        );
        apply(&Plane::Hub, TableId::Clusters, &self.cluster);
        apply(&Plane::Hub, TableId::Federated(kind), &self.copy);
        apply(&Plane::Hub, TableId::Bindings, &self.binding);
        apply(&project, TableId::Federated(kind), &self.source);
        if let Some(write_back) = &self.write_back {
            apply(&Plane::Hub, TableId::WrittenBack(kind), write_back);
        }
        if let Some(projection) = &self.projection {
            apply(&project, TableId::WrittenBack(kind), projection);
        }
        index
    }

    /// The verdict, the first broken hop with its detail, and the states of all hops.
    fn traced(
        &self,
        failure: Option<&LastFailure>,
    ) -> (Verdict, Option<HopKind>, String, Vec<(HopKind, HopState)>) {
        self.traced_at(EARLIER, failure)
    }

    fn traced_at(
        &self,
        seen: &str,
        failure: Option<&LastFailure>,
    ) -> (Verdict, Option<HopKind>, String, Vec<(HopKind, HopState)>) {
        let index = self.index(seen);
        let kind = index.workload_kind().unwrap();
        let shop = shop();
        let deployed = observe::deployment(&index, &shop, kind, "default", &Arc::from("web"));
        let branch = hops::branch(&deployed, failure, None, now());
        let states = branch.hops.iter().map(|hop| (hop.hop, hop.state)).collect();
        let branches = [branch];
        let object = TracedObject {
            project: "shop".to_owned(),
            namespace: "default".to_owned(),
            kind: "workloaddeployments".to_owned(),
            name: "web".to_owned(),
        };
        let broken = first_broken(&object, &branches);
        let (hop, detail) = broken.map_or((None, String::new()), |broken| {
            assert!(!broken.next.is_empty());
            (Some(broken.hop), broken.detail)
        });
        (verdict(&branches), hop, detail, states)
    }
}

#[test]
fn a_whole_way_has_six_hops() {
    let (verdict, hop, detail, states) = Chain::whole().traced(None);
    let expected = [
        HopKind::Project,
        HopKind::Hub,
        HopKind::Binding,
        HopKind::Cell,
        HopKind::Instances,
        HopKind::Projection,
    ];
    assert_eq!(states, expected.map(|hop| (hop, HopState::Ok)));
    assert_eq!((verdict, hop, detail.as_str()), (Verdict::Whole, None, ""));
}

#[test]
fn the_first_broken_link_is_named_with_its_cause() {
    type Break = fn(&mut Chain);
    let table: [(HopKind, &str, Break); 9] = [
        (HopKind::Hub, "NoCellForCity", |chain| {
            chain.source["status"]["conditions"][0] = condition("Federated", "False", "NoCellForCity", 1);
        }),
        (HopKind::Hub, "HubUnreachable", |chain| {
            chain.source["metadata"]["generation"] = json!(2);
            chain.source["status"]["conditions"][0] = condition("Federated", "False", "HubUnreachable", 2);
        }),
        (HopKind::Binding, "frozen", |chain| {
            chain.binding["metadata"]["annotations"] = json!({keys::CLAIM_NAME: "city-LHR"});
        }),
        (HopKind::Binding, "NoClusterFit", |chain| {
            chain.binding["status"]["conditions"][0] = condition("Scheduled", "False", "NoClusterFit", 1);
        }),
        (HopKind::Cell, "ClusterNotReachable", |chain| {
            chain.cluster["status"]["conditions"][0] = condition("Ready", "False", "ClusterNotReachable", 1);
        }),
        (HopKind::Cell, "no report of this generation yet", |chain| {
            for object in [&mut chain.source, &mut chain.copy] {
                object["metadata"]["generation"] = json!(2);
            }
            chain.copy["metadata"]["annotations"][keys::SOURCE_GENERATION] = json!("2");
        }),
        (HopKind::Instances, "ImageUnavailable", |chain| {
            chain.source["status"]["readyReplicas"] = json!(0);
            chain.source["status"]["conditions"][1] = condition("Available", "False", "ImageUnavailable", 1);
        }),
        (HopKind::Project, "no deployment exists", |chain| {
            chain.source["metadata"]["name"] = json!("other");
        }),
        (HopKind::Binding, "ApplyFailed", |chain| {
            chain.binding["status"] = json!({"conditions": [condition("Scheduled", "True", "Success", 1)],
                "aggregatedStatus": [{"clusterName": "dfw-1", "applied": false, "appliedMessage": "denied"}]});
            chain.source["status"]["conditions"][0] = condition("Federated", "False", "ApplyFailed", 1);
        }),
    ];
    for (expected, word, how) in table {
        let mut chain = Chain::whole();
        how(&mut chain);
        let (verdict, hop, detail, states) = chain.traced(None);
        assert_eq!(
            (verdict, hop),
            (Verdict::Broken, Some(expected)),
            "{word}: {states:?}"
        );
        assert!(detail.contains(word), "{word} is not in {detail}");
    }
}

#[test]
fn an_edit_of_an_old_deployment_waits_at_each_hop_that_it_has_not_passed() {
    let mut chain = Chain::whole();
    chain.source["metadata"]["generation"] = json!(2);
    let young = "2026-05-04T11:59:30Z";
    let waiting = |chain: &Chain| {
        let (verdict, hop, _, states) = chain.traced_at(young, None);
        assert_eq!((verdict, hop), (Verdict::Moving, None), "{states:?}");
        let waits = states
            .into_iter()
            .filter(|(_, state)| *state == HopState::Waiting);
        waits.map(|(hop, _)| hop).collect::<Vec<_>>()
    };
    assert_eq!(waiting(&chain), [HopKind::Hub, HopKind::Cell, HopKind::Instances]);
    // Karmada schedules anew.
    chain.copy["metadata"]["annotations"][keys::SOURCE_GENERATION] = json!("2");
    chain.binding["status"] = json!({"conditions": [condition("Scheduled", "False", "Pending", 1)]});
    assert_eq!(
        waiting(&chain),
        [HopKind::Binding, HopKind::Cell, HopKind::Instances]
    );
}

#[test]
fn a_projection_that_is_missing_for_long_is_broken_and_one_too_many_waits() {
    let missing = Chain {
        projection: None,
        ..Chain::whole()
    };
    let (verdict, hop, detail, _) = missing.traced(None);
    assert_eq!((verdict, hop), (Verdict::Broken, Some(HopKind::Projection)));
    assert!(detail.contains("web-0"), "{detail}");
    let extra = Chain {
        write_back: None,
        ..Chain::whole()
    };
    let (verdict, _, _, states) = extra.traced(None);
    assert_eq!(verdict, Verdict::Moving);
    assert_eq!(states[5], (HopKind::Projection, HopState::Waiting));
}

#[test]
fn a_failure_of_its_key_is_a_hop_of_its_own_and_a_young_one_breaks_nothing() {
    let failure = |since: &str| LastFailure {
        controller: "federator",
        plane: Plane::Hub,
        verb: "apply",
        object: "workloaddeployments.compute.datumapis.com ns-a1/web".into(),
        category: Category::Server,
        class: Class::Retry,
        message: "etcdserver: request timed out".into(),
        since: since.parse().unwrap(),
        last: NOW.parse().unwrap(),
        attempts: 11,
        next: None,
    };
    let (verdict, hop, detail, states) = Chain::whole().traced(Some(&failure(EARLIER)));
    assert_eq!(
        (verdict, hop),
        (Verdict::Broken, Some(HopKind::Write)),
        "{states:?}"
    );
    assert!(
        detail.contains("etcdserver") && detail.contains("11 times"),
        "{detail}"
    );
    let (verdict, hop, ..) = Chain::whole().traced(Some(&failure("2026-05-04T11:59:30Z")));
    assert_eq!((verdict, hop), (Verdict::Moving, None));
}

#[test]
fn a_workload_has_a_branch_for_each_location_that_it_names() {
    let mut chain = Chain::whole();
    let spec = chain.source["spec"].as_object_mut().unwrap();
    spec.remove("cityCode");
    spec.insert("locationRef".to_owned(), json!({"name": "us-south-1"}));
    let mut index = chain.index(EARLIER);
    let mut workload = fixture::object("default", "web", "w");
    let scale = json!({"minReplicas": 1});
    workload["spec"] = json!({
        "template": {"spec": {"runtime": {"resources": {"instanceType": "x"}}, "networkInterfaces": []}},
        "placements": [
            {"name": "us", "locations": [{"name": "us-south-1"}, {"name": "eu-west-1"}], "scaleSettings": scale},
            {"name": "eu", "cityCodes": ["LHR"], "scaleSettings": scale},
        ],
    });
    let engagement = index.projects[&shop()].engagement;
    let event = WatchEvent::Apply(Box::new(serde_json::from_value(workload).unwrap()));
    index.apply(&Plane::Project(shop()), engagement, TableId::Workloads, event);
    let query = TracedObject {
        project: "shop".to_owned(),
        namespace: "default".to_owned(),
        kind: "workloads".to_owned(),
        name: "web".to_owned(),
    };
    let shop = shop();
    let branches = find(&index, &shop, &query).ok().unwrap();
    let places = branches
        .iter()
        .map(|b| (&*b.placement, &*b.city, &*b.object.name));
    let wanted = [
        ("us", "us-south-1", "web"),
        ("us", "eu-west-1", ""),
        ("eu", "LHR", ""),
    ];
    assert_eq!(places.collect::<Vec<_>>(), wanted);
}

/// The plane of `zoo` reports the UID of the namespace of `shop`, and objects of the same names.
#[test]
fn a_project_whose_claim_is_refused_sees_nothing_of_the_hub_namespace() {
    let mut index = Chain::whole().index(EARLIER);
    index.with_zoo("z1", "a1");
    assert!(index.is_refused(HUB, &zoo()));
    let kind = index.workload_kind().unwrap();
    let mut its = |table, mut object: Value| {
        object["metadata"]["namespace"] = json!("cages");
        index.project_event(
            &zoo(),
            table,
            WatchEvent::Apply(Box::new(serde_json::from_value(object).unwrap())),
        );
    };
    let chain = Chain::whole();
    its(TableId::Federated(kind), chain.source);
    its(TableId::WrittenBack(kind), chain.projection.unwrap());
    for (plural, name) in [("workloaddeployments", "web"), ("instances", "web-0")] {
        let query = TracedObject {
            project: "zoo".to_owned(),
            namespace: "cages".to_owned(),
            kind: plural.to_owned(),
            name: name.to_owned(),
        };
        let zoo = zoo();
        let branches = find(&index, &zoo, &query).ok().unwrap();
        let branch = &branches[0];
        assert_eq!(&*branch.object.hub, "", "{plural}");
        assert!(branch.copy.is_none() && branch.binding.is_none(), "{plural}");
        assert!(
            branch.clusters().is_empty() && branch.instances.is_empty(),
            "{plural}"
        );
        assert!(branch.source.is_some(), "{plural}: its own object is shown");
        let shown = format!("{:?}", hops::branch(branch, None, None, now()));
        assert!(
            !shown.contains(HUB) && !shown.contains("dfw-1"),
            "{plural}: {shown}"
        );
    }
}
