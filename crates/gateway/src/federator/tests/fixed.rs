//! Decisions on objects that every member of their city has and whose kind fixes the place, asks for the kind at a member,
//! and guards the deletion. A fixture of the index takes the place of the planes.

use super::{Action, SETTINGS, decision, now};
use crate::{
    companions::observe as companions,
    federator::{memory::Memory, observe::observe},
    index::{
        GatewayIndex, TableId,
        fixture::{self, HUB, shop},
        networking::WorkloadChecks,
    },
    policy_spec,
    rate_limit::Permit,
    route::Route,
    single_member::referrers::CompanionRef,
};
use fedgate_api::{keys, names::CityCode};
use fedgate_engine::{
    key::{Key, Plane},
    plan::{Endpoint, Event, Write},
    plane::watch::WatchEvent,
    runtime::index::Index,
};
use fedgate_kinds::{CompanionKind, FederatedKind, KindId, Kinds};
use fedgate_operations::Stage;
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path, sync::Arc};

const NAME: &str = "north";
const API: &str = "example.fedgate.dev/v1";
const MARK: &str = "example.fedgate.dev/dark";

/// A project with one object, and a hub with two members in its city, which serve its kind.
struct World {
    index: GatewayIndex,
    kind: KindId,
    memory: Memory,
    version: u64,
    /// The object as it was written last.
    last: Value,
}

impl World {
    fn new() -> Self {
        let mut world = Self::without_clusters();
        world.index.list_hub(TableId::Clusters, &[]);
        world.cluster("dfw-1", &["Beacon"], "True");
        world.cluster("dfw-2", &["Beacon"], "True");
        world.cluster("lhr-1", &["Beacon"], "True");
        world
    }

    fn without_clusters() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kinds");
        let kinds = Kinds::load_dir(&folder).unwrap().federated;
        let kinds = Arc::new(kinds.into());
        let mut index = GatewayIndex::new(kinds, WorkloadChecks::default());
        let is_beacon = |kind: &FederatedKind| kind.resource.kind == "Beacon";
        let kind = index.kinds.position(is_beacon).unwrap();
        for table in index.hub_tables() {
            if table != TableId::Clusters {
                index.list_hub(table, &[]);
            }
        }
        index.list_hub(TableId::Namespaces, &[fixture::hub_namespace("dfw")]);
        index.list_hub(TableId::CitySets, &[fixture::city_set("cities-dfw", &["DFW"])]);
        let mut policy = fixture::object(HUB, "beacon-dfw", "p-beacon");
        let route = Route::City(CityCode::parse("DFW").unwrap());
        policy["spec"] = policy_spec::route_spec(&index.kinds[kind], HUB, &route);
        index.list_hub(TableId::CityPolicies, &[policy]);
        index.engage(shop());
        let live = [
            fixture::namespace("kube-system", "p1", &json!({})),
            fixture::namespace("default", "a1", &json!({})),
        ];
        for table in index.project_tables() {
            index.list_shop(table, if table == TableId::Namespaces { &live } else { &[] });
        }
        for companions in index.companions.ids() {
            index.list_shop(TableId::Companions(companions), &[]);
        }
        let mut world = Self {
            index,
            kind,
            memory: Memory::default(),
            version: 10,
            last: Value::Null,
        };
        world.source(1, &json!({"city": "DFW", "power": 1}), &json!({}));
        world
    }

    fn next(&mut self, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        object
    }

    /// A Cluster that serves these kinds, of the city in its name; returns the enqueued keys.
    fn cluster(&mut self, name: &str, kinds: &[&str], is_surveyed: &str) -> Vec<Key> {
        let mut cluster = fixture::object("", name, &format!("m-{name}"));
        cluster["metadata"]["labels"] = json!({keys::CITY_CODE: name[..3].to_uppercase()});
        let kinds: Vec<Value> = kinds.iter().map(|kind| json!({"kind": kind})).collect();
        cluster["status"] = json!({
            "conditions": [{"type": "Ready", "status": "True"},
                {"type": "CompleteAPIEnablements", "status": is_surveyed}],
            "apiEnablements": [{"groupVersion": API, "resources": kinds}],
        });
        let cluster = self.next(cluster);
        self.index.hub_has(TableId::Clusters, &cluster)
    }

    /// The object of the project in a generation, with this spec, and metadata and status from `further`.
    fn source(&mut self, generation: i64, spec: &Value, further: &Value) -> Vec<Key> {
        let mut source = fixture::source(NAME, "DFW");
        source["kind"] = json!("Beacon");
        source["apiVersion"] = json!(API);
        source["metadata"]["generation"] = json!(generation);
        source["spec"] = spec.clone();
        super::lanes::merge(&mut source, further);
        let source = self.next(source);
        self.last = source.clone();
        self.index.shop_has(TableId::Federated(self.kind), &source)
    }

    /// Adds the copy of the first generation.
    fn copy(&mut self, further: &Value) {
        let mut copy = fixture::copy(NAME, "DFW");
        copy["kind"] = json!("Beacon");
        copy["apiVersion"] = json!(API);
        copy["spec"] = json!({"city": "DFW", "power": 1});
        super::lanes::merge(&mut copy, further);
        let copy = self.next(copy);
        self.index.hub_has(TableId::Federated(self.kind), &copy);
    }

    fn key(&self) -> Key {
        self.index.source_key(self.kind, &shop(), "default", NAME)
    }

    /// The next decision: the reason of each request to the hub with what it writes, the condition `Federated` that is told
    /// to the project, and the Events.
    fn decides(&mut self) -> Decided {
        let snapshot = observe(&self.index, &self.key(), &shop()).unwrap();
        let decision = decision(&snapshot, &self.memory, &SETTINGS, Permit::Granted, now());
        self.memory = decision.memory.applied;
        let (Action::Apply(plan) | Action::Confirm(plan)) = decision.action else {
            panic!("{:?}", decision.action)
        };
        let mut decided = Decided {
            events: plan.notes,
            ..Decided::default()
        };
        for effect in plan.effects {
            let written = match effect.write {
                Write::Merge { patch: body }
                | Write::Apply { body, .. }
                | Write::Update { body, .. }
                | Write::Create { body, .. }
                | Write::Replace { body } => body,
                Write::Delete { uid, .. } => json!({"uid": uid}),
                Write::DeleteNamed => Value::Null,
            };
            if effect.endpoint == Endpoint::Status {
                let conditions = written["status"]["conditions"].as_array().unwrap();
                decided.told = conditions.iter().find(|one| one["type"] == "Federated").cloned();
            } else {
                decided.requests.push((effect.reason.label(), written));
            }
        }
        decided
    }

    /// Decides and expects that only this is told to the project, once.
    fn only_tells(&mut self, reason: &str, message: &str, generation: i64) -> Value {
        let decided = self.decides();
        assert_eq!(decided.requests, []);
        let told = decided.told.unwrap();
        assert_eq!(
            (&told["status"], &told["reason"], &told["message"]),
            (&json!("False"), &json!(reason), &json!(message))
        );
        assert_eq!(told["observedGeneration"], generation);
        let events: Vec<(&str, bool)> = decided
            .events
            .iter()
            .map(|event| (event.reason.as_str(), event.warning))
            .collect();
        assert_eq!(events, [(reason, true)]);
        told
    }

    /// True if the object counts as one that waits for the hub; its status changes.
    fn waits(&mut self) -> bool {
        let mut source = self.last.clone();
        source["status"]["lit"] = json!(self.version);
        let source = self.next(source);
        let event = WatchEvent::Apply(Box::new(serde_json::from_value(source).unwrap()));
        let (plane, table) = (Plane::Project(shop()), TableId::Federated(self.kind));
        let engagement = self.index.projects[&shop()].engagement;
        self.index.apply(&plane, engagement, table, event);
        !self.index.undelivered.of(Stage::ProjectToHub).is_empty()
    }

    /// The lists of cities and routes that the hub namespace is to reach.
    fn reached(&self) -> (Vec<String>, usize) {
        let cities = self.index.cities_of_kind(self.kind, HUB);
        let destinations = self.index.destinations_of_kind(self.kind, HUB);
        let routes: BTreeSet<Route> = destinations.into_iter().map(|to| to.route).collect();
        (cities.iter().map(ToString::to_string).collect(), routes.len())
    }
}

#[derive(Debug, Default)]
struct Decided {
    requests: Vec<(&'static str, Value)>,
    told: Option<Value>,
    events: Vec<Event>,
}

impl Decided {
    fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.told.is_none() && self.events.is_empty()
    }

    /// The reason of the only request, and the spec in it.
    fn one(&self) -> (&'static str, &Value) {
        assert_eq!(self.requests.len(), 1, "{self:?}");
        (self.requests[0].0, &self.requests[0].1["spec"])
    }
}

#[test]
fn a_place_that_is_edited_changes_nothing_once_a_copy_is_there() {
    for (spec, asked) in [
        (json!({"city": "LHR", "power": 5}), "LHR"),
        (json!({"city": "no city", "power": 5}), "\"no city\""),
        (json!({"power": 5}), "\"\""),
    ] {
        let mut world = World::new();
        world.copy(&json!({}));
        world.source(2, &spec, &json!({}));
        let message = format!(
            "it lives at DFW and cannot move to {asked}; set the place back, or make it anew under another name"
        );
        let told = world.only_tells("PlacementImmutable", &message, 2);
        assert_eq!(
            world.reached(),
            (vec!["DFW".to_owned()], 1),
            "no other city is used"
        );
        let told = json!({"status": {"conditions": [told]}});
        world.source(2, &spec, &told);
        assert!(world.decides().is_idle(), "it is told once");
        assert!(!world.waits(), "it waits for its tenant, not for the hub");
        let back = json!({"city": "DFW", "power": 5});
        assert!(world.source(3, &back, &told).contains(&world.key()));
        assert_eq!(world.decides().one(), ("update_copy", &back));
    }
}

#[test]
fn before_a_copy_is_there_the_place_may_change() {
    let lhr = json!({"city": "LHR", "power": 1});
    let mut world = World::new();
    world.source(2, &lhr, &json!({}));
    assert_eq!(world.reached().0, ["LHR"]);
    // A copy of an earlier object of the name fixes nothing.
    world.copy(&json!({"metadata": {"annotations": {keys::SOURCE_UID: "u-earlier"}}}));
    assert_eq!(world.reached().0, ["DFW", "LHR"]);
    let snapshot = observe(&world.index, &world.key(), &shop()).unwrap();
    assert_eq!(
        (snapshot.asks_for, snapshot.destination.city().unwrap().as_str()),
        (None, "LHR")
    );
}

#[test]
fn an_object_whose_place_is_refused_can_be_resumed() {
    let mut world = World::new();
    world.copy(&json!({"metadata": {"annotations": {MARK: "true"}}}));
    world.source(2, &json!({"city": "LHR", "power": 5}), &json!({}));
    let decided = world.decides();
    assert_eq!(
        decided.requests,
        [(
            "suspend_copy",
            json!({"metadata": {"uid": "c-north", "annotations": {MARK: null}}})
        )]
    );
}

#[test]
fn an_object_whose_place_is_refused_keeps_its_companions_and_gets_no_others() {
    let mut world = World::new();
    world.copy(&json!({"spec": {"keyName": "old"}}));
    let index = &mut world.index;
    index.hub_has(
        TableId::SECRETS,
        &fixture::companion("old", &json!(["default/north"])),
    );
    for name in ["old", "new"] {
        index.shop_has(TableId::SECRETS, &fixture::object("default", name, name));
    }
    let wanted = |world: &World, name: &str| {
        let expired = BTreeSet::new();
        let of = companions::observe(
            &world.index,
            CompanionRef {
                kind: CompanionKind::SECRET,
                hub: HUB,
                name,
            },
            &expired,
        );
        of.unwrap().wanted_by.len()
    };
    world.source(2, &json!({"city": "LHR", "keyName": "new"}), &json!({}));
    assert_eq!((wanted(&world, "old"), wanted(&world, "new")), (1, 0));
    world.source(3, &json!({"city": "DFW", "keyName": "new"}), &json!({}));
    assert_eq!((wanted(&world, "old"), wanted(&world, "new")), (0, 1));
}

#[test]
fn a_new_copy_waits_for_a_member_that_serves_its_kind() {
    let message = "no cell of the city serves example.fedgate.dev/v1 Beacon: dfw-1, dfw-2";
    let spec = json!({"city": "DFW", "power": 1});
    for finalizers in [json!([]), json!([keys::FEDERATOR_FINALIZER])] {
        let mut world = World::new();
        world.cluster("dfw-1", &[], "True");
        world.cluster("dfw-2", &["Gadget"], "True");
        let metadata = json!({"metadata": {"finalizers": finalizers}});
        world.source(1, &spec, &metadata);
        let told = world.only_tells("MemberApiMissing", message, 1);
        let mut further = metadata.clone();
        further["status"] = json!({"conditions": [told]});
        world.source(1, &spec, &further);
        assert!(world.decides().is_idle(), "it is told once");
        assert!(!world.waits());
        let enqueued = world.cluster("dfw-2", &["Beacon"], "True");
        assert!(enqueued.contains(&world.key()), "{enqueued:?}");
        let first = world.decides().requests[0].0;
        assert!(["announce", "create_copy"].contains(&first), "{first}");
    }
    // A Cluster that does not know yet what it serves may serve it.
    let mut world = World::new();
    world.cluster("dfw-1", &[], "True");
    world.cluster("dfw-2", &[], "False");
    assert_eq!(world.decides().one(), ("create_copy", &spec));
}

#[test]
fn a_copy_that_is_there_stays_and_follows_though_no_member_serves_its_kind() {
    let mut world = World::new();
    world.copy(&json!({}));
    world.cluster("dfw-1", &[], "True");
    world.cluster("dfw-2", &[], "True");
    assert!(world.decides().is_idle());
    let edit = json!({"city": "DFW", "power": 2});
    world.source(2, &edit, &json!({}));
    assert_eq!(world.decides().one(), ("update_copy", &edit));
    // Karmada says that no cluster fits; the condition says why.
    world.source(1, &json!({"city": "DFW", "power": 1}), &json!({}));
    let mut binding = fixture::object(HUB, "north-beacon", "b-north");
    binding["metadata"]["ownerReferences"] =
        json!([{"apiVersion": API, "kind": "Beacon", "name": NAME, "uid": "c-north"}]);
    binding["spec"] = json!({"resource": {"apiVersion": API, "kind": "Beacon", "name": NAME}});
    binding["status"] =
        json!({"conditions": [{"type": "Scheduled", "status": "False", "reason": "NoClusterFit"}]});
    world.index.hub_has(TableId::Bindings, &binding);
    let message = "no cell of the city serves example.fedgate.dev/v1 Beacon: dfw-1, dfw-2";
    world.only_tells("MemberApiMissing", message, 1);
}

#[test]
fn a_city_without_a_cluster_is_no_matter_of_the_kind_and_one_that_is_not_listed_proves_nothing() {
    let spec = json!({"city": "DFW", "power": 1});
    let mut world = World::without_clusters();
    assert!(world.decides().is_idle(), "the Clusters are not known yet");
    world.index.list_hub(TableId::Clusters, &[]);
    assert_eq!(world.decides().one(), ("create_copy", &spec));
}

#[test]
fn a_guard_holds_a_deletion_before_anything_is_asked_of_the_hub() {
    let mut world = World::new();
    world.copy(&json!({}));
    let spec = |locked: bool| json!({"city": "DFW", "power": 1, "locked": locked});
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-05-04T09:00:00Z"}});
    world.source(2, &spec(true), &leaving);
    let message = "spec.locked is true; set it to false to delete";
    let told = world.only_tells("DeletionHeld", message, 2);
    let mut further = leaving.clone();
    further["status"] = json!({"conditions": [told]});
    world.source(2, &spec(true), &further);
    assert!(world.decides().is_idle(), "it is told once");
    assert!(!world.waits(), "it waits for its tenant, not for the hub");
    assert!(world.source(3, &spec(false), &further).contains(&world.key()));
    assert_eq!(
        world.decides().requests,
        [("delete_copy", json!({"uid": "c-north"}))]
    );
    assert!(world.waits());
}
