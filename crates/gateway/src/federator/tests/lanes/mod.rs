//! Decisions on objects that live at one member: the way to the member, and the way back. A fixture of the index takes the
//! place of the planes.

use super::{Action, SETTINGS, decision, later, now};
use crate::{
    Gateway,
    federator::{Federator, memory::Memory, observe::observe},
    index::{
        GatewayIndex, TableId,
        fixture::{self, HUB, shop},
        networking::WorkloadChecks,
        single_member::{DeliveryPolicy, Stage, pin},
    },
    rate_limit::Permit,
    single_member::{Observation, Probe},
    testing::{Rig, refusal},
};
use fedgate_api::keys;
use fedgate_engine::{
    clock::Now,
    error::Failure,
    key::{Key, Plane},
    plan::{Effect, Endpoint, Write},
    runtime::{driver::reconcile, role::Role},
};
use fedgate_kinds::{FederatedKind, FinishedWhen, KindId, Kinds, PerKind};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc, time::Duration};

mod abandon;
mod earlier;
mod guards;
mod namesakes;
mod refused;
mod remade;
mod replaced;
mod resumed;
mod status;
mod stuck;
mod wanted;

pub(super) const NAME: &str = "gold";
pub(super) const MEMBER: &str = "dfw-1";

/// The kinds of the tests, of which one lives at one member.
fn kinds() -> Arc<PerKind<FederatedKind>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kinds");
    let kinds = Kinds::load_dir(&folder).unwrap().federated;
    Arc::new(kinds.into())
}

/// A project with one object, and a hub with three members, two of them in its city.
pub(super) struct World {
    pub(super) index: GatewayIndex,
    pub(super) kind: KindId,
    /// Name of the object that is decided on.
    pub(super) name: &'static str,
    pub(super) memory: Memory,
    pub(super) now: Now,
    version: u64,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(|_| ())
    }

    /// A world whose kind is changed.
    pub(super) fn with(change: impl Fn(&mut FederatedKind)) -> Self {
        let mut kinds = PerKind::clone(&kinds());
        kinds
            .iter_mut()
            .filter(|kind| kind.is_exactly_one())
            .for_each(change);
        Self::of(kinds)
    }

    /// A world with these kinds.
    pub(super) fn of(kinds: PerKind<FederatedKind>) -> Self {
        let kinds = Arc::new(kinds);
        let kind = kinds.position(FederatedKind::is_exactly_one).unwrap();
        let mut index = GatewayIndex::new(kinds, WorkloadChecks::default());
        for table in index.hub_tables() {
            index.list_hub(table, &[]);
        }
        index.list_hub(TableId::Namespaces, &[fixture::hub_namespace("dfw.keep")]);
        index.list_hub(
            TableId::CitySets,
            &[fixture::city_set("cities-dfw.keep", &["DFW"])],
        );
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
        index.hub.user = Some("fedgate-gateway".into());
        let mut world = Self {
            index,
            kind,
            name: NAME,
            memory: Memory::default(),
            now: now(),
            version: 10,
        };
        for (name, city) in [("dfw-1", "DFW"), ("dfw-2", "DFW"), ("lhr-1", "LHR")] {
            world.cluster(name, city, &format!("m-{name}"));
        }
        world.source(&json!({}));
        world
    }

    pub(super) fn next(&mut self, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        object
    }

    fn cluster(&mut self, name: &str, city: &str, uid: &str) {
        let mut cluster = fixture::object("", name, uid);
        cluster["metadata"]["labels"] = json!({keys::CITY_CODE: city});
        cluster["status"] = json!({
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "CompleteAPIEnablements", "status": "True"}],
            "apiEnablements": [{"groupVersion": "example.fedgate.dev/v1", "resources": [{"kind": "Vault", "name": "vaults"}]}],
        });
        let cluster = self.next(cluster);
        self.index.hub_has(TableId::Clusters, &cluster);
    }

    /// A Cluster of the member's name joins, with this UID, and the UID of the Cluster whose member it is, by an operator;
    /// returns the keys that it enqueues.
    pub(super) fn joins(&mut self, uid: &str, same_as: Option<&str>) -> Vec<Key> {
        let mut cluster = fixture::object("", MEMBER, uid);
        if let Some(earlier) = same_as {
            cluster["metadata"]["annotations"] = json!({keys::SAME_AS: earlier});
        }
        self.member_is(cluster, "True")
    }

    /// The Cluster of the member is ready, or not; returns the keys that it enqueues.
    pub(super) fn ready(&mut self, status: &str) -> Vec<Key> {
        self.member_is(fixture::object("", MEMBER, "m-dfw-1"), status)
    }

    fn member_is(&mut self, mut cluster: Value, ready: &str) -> Vec<Key> {
        cluster["metadata"]["labels"] = json!({keys::CITY_CODE: "DFW"});
        cluster["status"] = json!({"conditions": [{"type": "Ready", "status": ready}]});
        let cluster = self.next(cluster);
        self.index.hub_has(TableId::Clusters, &cluster)
    }

    /// The Cluster of the member leaves; returns the keys that this enqueues.
    pub(super) fn leaves(&mut self) -> Vec<Key> {
        let cluster = self.next(fixture::object("", MEMBER, "m-dfw-1"));
        self.index.hub_lost(TableId::Clusters, &cluster)
    }

    /// The object of the project, with these changes.
    pub(super) fn source(&mut self, changes: &Value) {
        let mut source = fixture::source(NAME, "DFW");
        source["kind"] = json!("Vault");
        source["apiVersion"] = json!("example.fedgate.dev/v1");
        source["metadata"]["labels"] = json!({keys::CITY_CODE: "DFW"});
        source["spec"] = json!({"size": 1});
        merge(&mut source, changes);
        let source = self.next(source);
        self.index.shop_has(TableId::Federated(self.kind), &source);
    }

    pub(super) fn lane(&self, stage: Stage) -> DeliveryPolicy {
        DeliveryPolicy::At(self.kind, stage, MEMBER.into())
    }

    pub(super) fn name(&self, lane: &DeliveryPolicy) -> String {
        lane.name(&self.index.kinds)
    }

    /// Makes the policy of a lane.
    pub(super) fn policy(&mut self, lane: &DeliveryPolicy) {
        let name = self.name(lane);
        let mut policy = fixture::object(HUB, &name, &format!("p-{name}"));
        policy["spec"] = lane.spec(&self.index.kinds, HUB);
        let policy = self.next(policy);
        self.index.hub_has(TableId::CityPolicies, &policy);
    }

    pub(super) fn policies(&mut self) {
        let city = fedgate_api::names::CityCode::parse("DFW").unwrap();
        self.policy(&DeliveryPolicy::Choose(self.kind, city));
        for stage in Stage::ALL {
            self.policy(&self.lane(stage));
        }
    }

    /// The copy in a lane.
    pub(super) fn copy(&mut self, lane: &str, changes: &Value) {
        let mut copy = fixture::copy(NAME, "DFW");
        copy["metadata"]["labels"][keys::LANE] = json!(lane);
        copy["spec"] = json!({"size": 1});
        merge(&mut copy, changes);
        let copy = self.next(copy);
        self.index.hub_has(TableId::Federated(self.kind), &copy);
    }

    pub(super) fn copy_lost(&mut self) {
        let copy = self.next(fixture::copy(NAME, "DFW"));
        self.index.hub_lost(TableId::Federated(self.kind), &copy);
    }

    /// The copy in a stage at the member, with its binding.
    pub(super) fn at(&mut self, stage: Stage, item: &Value) {
        let lane = self.name(&self.lane(stage));
        self.copy(&lane, &json!({}));
        self.binding(&lane, &[MEMBER], item);
    }

    /// The binding of the copy, by the policy of a lane.
    pub(super) fn binding(&mut self, lane: &str, members: &[&str], item: &Value) {
        self.binding_with(lane, members, item, &json!([]));
    }

    /// Adds a binding with further conditions.
    pub(super) fn binding_with(
        &mut self,
        lane: &str,
        members: &[&str],
        item: &Value,
        further: &Value,
    ) -> Vec<Key> {
        let mut binding = fixture::object(HUB, &format!("{NAME}-vault"), "b-gold");
        let clusters: Vec<Value> = members.iter().map(|name| json!({"name": name})).collect();
        let mut conditions = vec![json!({"type": "Scheduled", "status": "True"})];
        conditions.extend(further.as_array().cloned().unwrap_or_default());
        merge(
            &mut binding,
            &json!({
                "metadata": {"generation": 4, "annotations": {keys::CLAIM_NAME: lane},
                    "labels": {keys::BINDING_ID: "id-1"},
                    "ownerReferences": [{"apiVersion": "example.fedgate.dev/v1", "kind": "Vault", "name": NAME, "uid": "c-gold"}]},
                "spec": {"resource": {"apiVersion": "example.fedgate.dev/v1", "kind": "Vault", "name": NAME}, "clusters": clusters,
                    "suspension": {"dispatching": !lane.contains("-pin-")}},
                "status": {"schedulerObservedGeneration": 4,
                    "conditions": conditions,
                    "aggregatedStatus": item},
            }),
        );
        let binding = self.next(binding);
        self.index.hub_has(TableId::Bindings, &binding)
    }

    pub(super) fn binding_lost(&mut self) {
        let binding = self.next(fixture::object(HUB, &format!("{NAME}-vault"), "b-gold"));
        self.index.hub_lost(TableId::Bindings, &binding);
    }

    pub(super) fn pin(&mut self, changes: &Value) {
        let pins = self.pin_of(changes);
        self.record(&pins);
    }

    fn version_of_record(&self) -> String {
        let row = self.index.hub.pins.get(keys::SYSTEM_NAMESPACE, "fedgate-pins-a1");
        row.expect("it is there").resource_version()
    }

    /// The pins of the hub namespace: that of the object, with these changes.
    fn pin_of(&self, changes: &Value) -> Value {
        let mut pin =
            json!({"member": MEMBER, "memberUid": "m-dfw-1", "copyUids": ["c-gold"], "sourceUid": "u-gold"});
        merge(&mut pin, changes);
        let key = pin::key(&self.index.kinds[self.kind], NAME);
        json!({key: pin.to_string()})
    }

    pub(super) fn record(&mut self, data: &Value) {
        let record = self.next_record(data);
        self.index.hub_has(TableId::Pins, &record);
    }

    /// The record with these pins, as the hub has it next.
    fn next_record(&mut self, data: &Value) -> Value {
        let mut record = fixture::object(keys::SYSTEM_NAMESPACE, "fedgate-pins-a1", "r-1");
        record["data"] = data.clone();
        self.next(record)
    }

    /// The effects of the next decision, in words; each is carried out.
    pub(super) fn decides(&mut self) -> Vec<String> {
        self.decides_with(Permit::Granted)
    }

    /// The decision while the hub's permits are given, asked for or awaited.
    pub(super) fn decides_with(&mut self, permit: Permit) -> Vec<String> {
        let key = self.index.source_key(self.kind, &shop(), "default", self.name);
        let snapshot = observe(&self.index, &key, &shop()).unwrap();
        let decision = decision(&snapshot, &self.memory, &SETTINGS, permit, self.now);
        self.memory = decision.memory.applied;
        match decision.action {
            Action::Read { source, copy } => panic!("read {source} {copy}"),
            Action::ConfirmGone => vec!["confirm gone".to_owned()],
            Action::Permit(class) => vec![format!("permit {class:?}")],
            Action::Probe(Probe::Works { member, ids }) => {
                vec![format!("look at works of {} at {member}", ids.join(", "))]
            }
            Action::Probe(Probe::StuckWork { member }) => vec![format!("look for a stuck work at {member}")],
            Action::Probe(Probe::HubUser) => vec!["ask who it is".to_owned()],
            Action::Probe(Probe::Object { pin }) => vec![format!("ask {} for it", pin.member)],
            Action::Probe(Probe::Member { pin, .. }) => vec![format!("look at {}", pin.member)],
            Action::Apply(plan) | Action::Confirm(plan) => plan.effects.iter().map(words).collect(),
        }
    }

    /// The conditions of the last status write.
    pub(super) fn says(&mut self) -> Vec<String> {
        let words = |c: &Value| format!("{} {}", text(&c["type"]), text(&c["reason"]));
        self.conditions().iter().map(words).collect()
    }

    /// Reason and message of one of them.
    pub(super) fn tells(&mut self, kind: &str) -> String {
        let conditions = self.conditions();
        let told = conditions.iter().find(|c| c["type"] == kind);
        told.map(|c| format!("{} {}", text(&c["reason"]), text(&c["message"])))
            .unwrap_or_default()
    }

    fn conditions(&mut self) -> Vec<Value> {
        let key = self.index.source_key(self.kind, &shop(), "default", self.name);
        self.now = later(self.now, Duration::from_secs(60));
        for _ in 0..2 {
            let snapshot = observe(&self.index, &key, &shop()).unwrap();
            let decision = decision(&snapshot, &self.memory, &SETTINGS, Permit::Granted, self.now);
            self.memory = decision.memory.observed;
            let (Action::Apply(plan) | Action::Confirm(plan)) = decision.action else {
                continue;
            };
            let status = plan
                .effects
                .iter()
                .find(|effect| effect.endpoint == Endpoint::Status);
            if let Some(Write::Apply { body, .. }) = status.map(|effect| &effect.write) {
                return body["status"]["conditions"].as_array().unwrap().clone();
            }
            self.now = later(self.now, Duration::from_secs(10));
        }
        Vec::new()
    }

    fn passes(&mut self, seconds: u64) {
        self.now = later(self.now, Duration::from_secs(seconds));
    }

    /// Lets the member say that it has the spec of this generation of the project's object, and that no guard holds in it.
    pub(super) fn has_spec(&mut self, generation: i64) {
        self.has(generation, false);
    }

    /// Lets the member say that it has the spec of this generation, and whether a guard holds in it.
    pub(super) fn has(&mut self, generation: i64, guarded: bool) {
        self.memory.member.probing.observation = Some(Observation::There {
            deleting: false,
            finalizers: Vec::new(),
            generation: Some(generation),
            guarded,
        });
    }

    /// True if the wanted lane is this one.
    fn wants(&self, lane: &DeliveryPolicy) -> bool {
        self.memory.member.policy.as_ref() == Some(lane)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, patch) => into.clone_from(patch),
    }
}

/// Reason of an effect, and what it does to lane, pin or spec.
fn words(effect: &Effect) -> String {
    let mut words = vec![effect.reason.label().to_owned()];
    let (Write::Create { body, .. }
    | Write::Update { body, .. }
    | Write::Apply { body, .. }
    | Write::Merge { patch: body }) = &effect.write
    else {
        return words.join(" ");
    };
    words.extend(body["metadata"]["labels"][keys::LANE].as_str().map(str::to_owned));
    let pins = body["data"].as_object().into_iter().flatten();
    for (_, pin) in pins {
        words.push(pin.as_str().map_or_else(|| "null".to_owned(), str::to_owned));
    }
    if effect.endpoint == Endpoint::Main && !body["spec"].is_null() {
        words.push(body["spec"].to_string());
    }
    words.join(" ")
}

const APPLIED: &str = r#"[{"clusterName": "dfw-1", "applied": true}]"#;

/// Status of a binding that the scheduler has seen as it is, with these items.
pub(super) fn scheduled(items: &Value) -> Value {
    json!({"schedulerObservedGeneration": 1, "conditions": [{"type": "Scheduled", "status": "True"}], "aggregatedStatus": items})
}

pub(super) fn applied() -> Value {
    serde_json::from_str(APPLIED).unwrap()
}

/// Karmada's Work at the member would be both objects', and can outlive the first one's copy and binding.
#[test]
fn a_copy_is_made_in_the_choosing_lane_once_its_policy_is_there() {
    let mut world = World::new();
    let city = fedgate_api::names::CityCode::parse("DFW").unwrap();
    let choose = DeliveryPolicy::Choose(world.kind, city);
    assert_eq!(world.decides(), [""; 0], "nothing for the hub");
    assert!(world.wants(&choose), "{:?}", world.memory.member.policy);
    world.policy(&choose);
    assert_eq!(world.decides(), [r#"create_copy vault-choose-dfw {"size":1}"#]);
}

#[test]
fn nothing_goes_to_the_hub_before_it_is_known_that_members_can_be_asked() {
    let mut world = World::new();
    world.policies();
    world.index.hub.user = None;
    assert_eq!(world.decides(), ["ask who it is"]);
    world.index.hub.user = Some("system:serviceaccount:fedgate-system:fedgate-gateway".into());
    assert_eq!(world.says()[0], "Federated HubIdentityRefused");
    assert!(!world.decides().iter().any(|word| word.contains("copy")));
    world.pin(&json!({"delivered": true}));
    world.at(Stage::Preserve, &applied());
    world.source(&json!({"metadata": {"generation": 2}, "spec": {"size": 5}}));
    assert!(
        !world.decides().iter().any(|word| word.contains("copy")),
        "an edit waits, too"
    );
    world.index.hub.user = Some("fedgate-gateway".into());
    assert_eq!(world.decides(), [r#"update_copy vault-pin-dfw-1 {"size":5}"#]);
}

#[test]
fn a_kind_that_asks_no_member_does_with_any_user() {
    let mut world = World::with(|kind| kind.deletion.finished_when = FinishedWhen::Released);
    world.policies();
    world.index.hub.user = None;
    assert_eq!(world.decides(), [r#"create_copy vault-choose-dfw {"size":1}"#]);
}

#[test]
fn the_one_member_that_karmada_has_chosen_is_pinned_and_no_other_choice() {
    let mut world = World::new();
    world.policies();
    world.copy("vault-choose-dfw", &json!({}));
    assert_eq!(world.says(), ["Federated Scheduling", "Scheduled Scheduling"]);
    world.binding("vault-choose-dfw", &["dfw-1", "dfw-2"], &json!([]));
    assert_eq!(
        world.says(),
        ["Federated TooManyMembers", "Scheduled TooManyMembers"]
    );
    world.binding("another-policy", &["dfw-1"], &json!([]));
    assert!(
        !world.decides().iter().any(|word| word.contains("pin")),
        "another policy's choice"
    );
    world.binding("vault-choose-dfw", &["lhr-1"], &json!([]));
    assert!(
        !world.decides().iter().any(|word| word.contains("pin")),
        "no member of the city"
    );
    world.binding("vault-choose-dfw", &["dfw-1"], &json!([]));
    assert_eq!(
        world.decides(),
        [
            r#"write_pin {"member":"dfw-1","memberUid":"m-dfw-1","copyUids":["c-gold"],"sourceUid":"u-gold","delivered":false,"kept":[]}"#
        ]
    );
}

#[test]
fn a_pinned_copy_is_delivered_only_when_it_is_given_to_its_member_alone() {
    let mut world = World::new();
    world.copy("vault-choose-dfw", &json!({}));
    world.pin(&json!({}));
    let drop = world.lane(Stage::Withdraw);
    world.decides();
    assert!(world.wants(&drop));
    world.policies();
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
    world.copy("vault-drop-dfw-1", &json!({}));
    for members in [&["dfw-2"][..], &["dfw-1", "dfw-2"], &[]] {
        world.binding("vault-drop-dfw-1", members, &json!([]));
        assert!(
            !world.decides().iter().any(|word| word.starts_with("change_lane")),
            "{members:?}"
        );
    }
    world.binding("vault-drop-dfw-1", &[MEMBER], &json!([]));
    assert_eq!(world.decides(), ["change_lane vault-send-dfw-1"]);
    let plain = world.next(fixture::hub_namespace("dfw"));
    world.index.hub_has(TableId::Namespaces, &plain);
    let set = world.next(fixture::city_set("cities-dfw", &["DFW"]));
    world.index.hub_has(TableId::CitySets, &set);
    assert!(
        !world.decides().iter().any(|word| word.starts_with("change_lane")),
        "its Namespace has to be preserved first"
    );
}

#[test]
fn a_copy_waits_for_the_companions_that_it_needs() {
    let mut world = World::new();
    let finalizers = [keys::FEDERATOR_FINALIZER, keys::REFERENCED_DATA_FINALIZER];
    world.source(
        &json!({"metadata": {"finalizers": finalizers}, "spec": {"credentials": {"secretName": "token"}}}),
    );
    world.policies();
    assert_eq!(world.says(), ["Federated SourceNotFound"]);
    world
        .index
        .list_shop(TableId::SECRETS, &[fixture::object("default", "token", "s-1")]);
    assert_eq!(
        world.decides(),
        [r#"create_copy vault-choose-dfw {"credentials":{"secretName":"token"},"size":1}"#]
    );
    world.copy(
        "vault-drop-dfw-1",
        &json!({"spec": {"credentials": {"secretName": "token"}}}),
    );
    world.binding("vault-drop-dfw-1", &[MEMBER], &json!([]));
    world.pin(&json!({}));
    assert_eq!(
        world.says(),
        [
            "Federated CompanionsPending",
            "Scheduled Pinned",
            "Applied CompanionsPending",
            "StatusCurrent NotReported"
        ]
    );
    let mut companion = fixture::companion("token", &json!(["default/gold"]));
    companion["metadata"]["labels"] = json!({keys::LANE: "with-dfw-1"});
    world.index.hub_has(TableId::SECRETS, &companion);
    let mut binding = fixture::object(HUB, "token-secret", "b-token");
    merge(
        &mut binding,
        &json!({
            "metadata": {"generation": 1, "annotations": {keys::CLAIM_NAME: "with-dfw-1"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "token", "uid": "k-token"}]},
            "spec": {"resource": {"apiVersion": "v1", "kind": "Secret", "name": "token"}, "clusters": [{"name": "dfw-1"}]},
            "status": scheduled(&json!([{"clusterName": "dfw-1", "appliedMessage": "no room"}])),
        }),
    );
    world.index.hub_has(TableId::Bindings, &binding);
    assert_eq!(world.says()[0], "Federated CompanionRefused");
    binding["status"]["aggregatedStatus"][0]["applied"] = json!(true);
    let mut earlier = world.next(binding.clone());
    earlier["metadata"]["annotations"][keys::CLAIM_NAME] = json!("with-none");
    world.index.hub_has(TableId::Bindings, &earlier);
    assert_eq!(
        world.says()[0],
        "Federated CompanionsPending",
        "an earlier lane's"
    );
    let mut unseen = world.next(binding.clone());
    unseen["metadata"]["generation"] = json!(2);
    world.index.hub_has(TableId::Bindings, &unseen);
    assert_eq!(
        world.says()[0],
        "Federated CompanionsPending",
        "before the scheduler has seen the lane"
    );
    let binding = world.next(binding);
    world.index.hub_has(TableId::Bindings, &binding);
    assert_eq!(world.decides(), ["change_lane vault-send-dfw-1"]);
}

#[test]
fn the_first_delivery_is_recorded_and_edits_follow() {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({}));
    world.at(Stage::Deliver, &json!([]));
    assert!(
        !world.decides().iter().any(|word| word.contains("pin")),
        "nothing is applied yet"
    );
    world.at(Stage::Deliver, &applied());
    assert_eq!(
        world.decides(),
        [
            r#"write_pin {"member":"dfw-1","memberUid":"m-dfw-1","copyUids":["c-gold"],"sourceUid":"u-gold","delivered":true,"kept":[]}"#
        ]
    );
    world.pin(&json!({"delivered": true}));
    assert_eq!(
        world.decides(),
        ["change_lane vault-pin-dfw-1"],
        "preserved from now on"
    );
    world.at(Stage::Preserve, &applied());
    assert_eq!(world.says()[0], "Federated Delivered");
    world.source(&json!({"metadata": {"generation": 2}, "spec": {"size": 5}}));
    assert_eq!(world.decides(), [r#"update_copy vault-pin-dfw-1 {"size":5}"#]);
}

#[test]
fn a_suspended_object_is_held_and_its_edits_go_with_the_lane_that_delivers_them() {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true}));
    world.at(Stage::Preserve, &applied());
    let mark = json!({"example.fedgate.dev/suspended": "true"});
    world.source(&json!({"metadata": {"annotations": mark}}));
    assert_eq!(world.decides(), ["change_lane vault-hold-dfw-1"]);
    world.at(Stage::Suspend, &applied());
    world.source(&json!({"metadata": {"annotations": mark, "generation": 2}, "spec": {"size": 5}}));
    assert_eq!(world.says()[0], "Federated DispatchSuspended");
    world.source(&json!({"metadata": {"generation": 2}, "spec": {"size": 5}}));
    assert_eq!(
        world.decides(),
        [r#"change_lane vault-pin-dfw-1 {"size":5}"#],
        "in one patch"
    );
    // Before the first delivery there is nothing to hold.
    world.pin(&json!({}));
    world.at(Stage::Deliver, &json!([]));
    world.source(&json!({"metadata": {"annotations": mark}}));
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
}

#[test]
fn a_place_that_is_edited_changes_nothing_once_the_object_has_its_member() {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true}));
    world.at(Stage::Preserve, &applied());
    // The place is taken away, is none, or is another one.
    for labels in [
        Value::Null,
        json!({keys::CITY_CODE: "no city"}),
        json!({keys::CITY_CODE: "LHR"}),
    ] {
        world.source(&json!({"metadata": {"labels": labels, "generation": 2}, "spec": {"size": 5}}));
        let decided = world.decides();
        assert!(decided.iter().all(|word| word == "return_status"), "{decided:?}");
        assert_eq!(world.says()[0], "Federated PlacementImmutable");
    }
    assert!(
        world
            .index
            .cities_of_kind(world.kind, HUB)
            .iter()
            .all(|city| city.as_str() == "DFW")
    );
    world.copy("vault-choose-dfw", &json!({}));
    world.record(&json!({}));
    world.decides();
    let lhr = fedgate_api::names::CityCode::parse("LHR").unwrap();
    assert!(
        world.index.cities_of_kind(world.kind, HUB).contains(&lhr),
        "without a pin it may move"
    );
}

#[test]
fn a_copy_that_karmada_gives_to_another_member_is_held() {
    for (delivered, lane) in [(true, "vault-hold-dfw-1"), (false, "vault-drop-dfw-1")] {
        let mut world = World::new();
        world.policies();
        world.pin(&json!({"delivered": delivered}));
        world.at(Stage::Preserve, &json!([]));
        world.binding("vault-pin-dfw-1", &["dfw-2"], &json!([]));
        assert!(
            !world.decides().iter().any(|word| word.starts_with("change_lane")),
            "it may be back at once"
        );
        world.passes(5);
        assert_eq!(world.decides(), [format!("change_lane {lane}")]);
        assert_eq!(
            world.says().first().map(String::as_str),
            None,
            "{lane}: the lane comes first"
        );
    }
}

#[test]
fn nothing_is_delivered_to_a_cluster_that_has_joined_anew_until_an_operator_says_it_is_the_same() {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true}));
    world.at(Stage::Preserve, &applied());
    world.cluster(MEMBER, "DFW", "m-new");
    assert_eq!(
        world.decides(),
        ["change_lane vault-hold-dfw-1"],
        "what it has applied is preserved"
    );
    world.at(Stage::Preserve, &json!([]));
    assert_eq!(
        world.decides(),
        ["change_lane vault-drop-dfw-1"],
        "what it has refused is stopped"
    );
    world.at(Stage::Withdraw, &json!([]));
    assert_eq!(world.decides(), ["look at works of id-1 at dfw-1"]);
    world.memory.member.probing.observation = Some(Observation::WorksStopped);
    assert_eq!(
        world.decides(),
        ["change_lane vault-none-dfw-1"],
        "and given to no member"
    );
    world.at(Stage::Release, &json!([]));
    assert_eq!(world.says()[0], "Federated MemberReplaced");
    let mut cluster = fixture::object("", MEMBER, "m-new");
    merge(
        &mut cluster,
        &json!({"metadata": {"labels": {keys::CITY_CODE: "DFW"}, "annotations": {keys::SAME_AS: "m-dfw-1"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    );
    let cluster = world.next(cluster);
    world.index.hub_has(TableId::Clusters, &cluster);
    assert_eq!(
        world.decides(),
        ["change_lane vault-mend-dfw-1"],
        "its object is taken over"
    );
    world.index.hub_lost(TableId::Clusters, &cluster);
    world.at(Stage::Preserve, &applied());
    assert_eq!(
        world.decides(),
        ["change_lane vault-none-dfw-1"],
        "before one joins under its name"
    );
    world.at(Stage::Release, &json!([]));
    assert_eq!(world.says()[0], "Federated Strayed");
}

#[test]
fn what_karmada_has_let_go_of_is_taken_over_again_and_not_too_often() {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true}));
    let refused = json!([{"clusterName": "dfw-1", "appliedMessage": "already exists"}]);
    world.at(Stage::Preserve, &refused);
    assert!(!world.decides().iter().any(|word| word.starts_with("change_lane")));
    world.passes(5);
    assert_eq!(world.decides(), ["change_lane vault-mend-dfw-1"]);
    world.at(Stage::TakeOver, &applied());
    assert_eq!(world.decides(), ["change_lane vault-pin-dfw-1"]);
    world.at(Stage::Preserve, &refused);
    world.passes(10);
    world.decides();
    world.passes(10);
    assert!(
        !world.decides().iter().any(|word| word.starts_with("change_lane")),
        "one round in 30 s"
    );
    world.passes(30);
    assert_eq!(world.decides(), ["change_lane vault-mend-dfw-1"]);
}

#[test]
fn a_round_in_which_an_object_is_taken_over_begins_with_its_policy() {
    let mut world = World::new();
    for stage in Stage::ALL.into_iter().filter(|stage| *stage != Stage::TakeOver) {
        let lane = world.lane(stage);
        world.policy(&lane);
    }
    world.pin(&json!({"delivered": true}));
    world.at(Stage::Preserve, &json!([]));
    world.decides();
    world.passes(5);
    world.decides();
    let lane = world.lane(Stage::TakeOver);
    assert!(world.wants(&lane), "its policy is made");
    world.policy(&lane);
    assert_eq!(world.decides(), ["change_lane vault-mend-dfw-1"]);
}

#[test]
fn a_copy_that_a_hand_has_deleted_is_made_again_at_its_member() {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true}));
    assert_eq!(world.decides(), [r#"create_copy vault-drop-dfw-1 {"size":1}"#]);
    world.copy("vault-drop-dfw-1", &json!({"metadata": {"uid": "c-two"}}));
    let decided = world.decides();
    assert!(
        decided[0].contains(r#""copyUids":["c-gold","c-two"]"#),
        "{decided:?}"
    );
}

/// A write that an earlier leader sent must not undo a newer choice when it arrives.
#[test]
fn a_record_that_is_there_is_written_by_its_version() {
    let mut world = World::new();
    world.policies();
    world.record(&json!({}));
    world.copy("vault-choose-dfw", &json!({}));
    world.binding("vault-choose-dfw", &["dfw-1"], &json!([]));
    let written = |world: &World, reason: &str| {
        let key = world.index.source_key(world.kind, &shop(), "default", NAME);
        let snapshot = observe(&world.index, &key, &shop()).unwrap();
        let decision = decision(&snapshot, &world.memory, &SETTINGS, Permit::Granted, world.now);
        let (Action::Apply(plan) | Action::Confirm(plan)) = decision.action else {
            panic!("it is written")
        };
        let [effect] = plan.effects.as_slice() else {
            panic!("{plan:?}")
        };
        assert_eq!(effect.reason.label(), reason);
        let Write::Merge { patch } = &effect.write else {
            panic!("{effect:?}")
        };
        assert_eq!(patch["metadata"]["uid"], "r-1");
        assert_eq!(
            patch["metadata"]["resourceVersion"],
            json!(world.version_of_record())
        );
    };
    written(&world, "write_pin");
    world.pin(&json!({}));
    world.at(Stage::Deliver, &applied());
    written(&world, "write_pin");
    let mut world = deleted(&json!({}));
    world.copy_lost();
    world.binding_lost();
    world.memory.member.probing.observation = Some(Observation::Absent);
    written(&world, "remove_pin");
}

/// A record that is too large could not be written, for no object of the namespace.
#[test]
fn a_namespace_with_too_many_members_gets_no_more_until_one_is_gone() {
    let mut world = World::new();
    world.policies();
    world.copy("vault-choose-dfw", &json!({}));
    world.binding("vault-choose-dfw", &["dfw-1"], &json!([]));
    let pin = world.pin_of(&json!({}));
    let text = pin
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap()
        .as_str()
        .unwrap();
    let mut full = serde_json::Map::new();
    while full
        .iter()
        .map(|(key, pin)| key.len() + pin.as_str().unwrap().len())
        .sum::<usize>()
        <= pin::RECORD_LIMIT
    {
        for number in full.len()..full.len() + 100 {
            let key = pin::key(&world.index.kinds[world.kind], &format!("other-{number:05}"));
            full.insert(key, json!(text));
        }
    }
    assert!(full.len() > 3_000, "{}", full.len());
    world.record(&Value::Object(full.clone()));
    assert_eq!(world.says()[1], "Scheduled NamespaceFull");
    assert!(!world.decides().iter().any(|word| word.contains("pin")));
    for key in full.keys().take(100).cloned().collect::<Vec<_>>() {
        full.remove(&key);
    }
    let record = world.next_record(&Value::Object(full));
    let enqueued = world.index.hub_has(TableId::Pins, &record);
    let key = world.index.source_key(world.kind, &shop(), "default", NAME);
    assert!(enqueued.contains(&key), "it hears of the room");
    let decided = world.decides();
    assert!(decided[0].starts_with("write_pin"), "{}", decided[0]);
    world.record(&pin);
    assert!(!world.says().contains(&"Scheduled NamespaceFull".to_owned()));
}

/// Each object of a namespace writes its own pin in it: a conflict is no failure.
#[tokio::test]
async fn a_conflict_of_the_record_is_expected_and_no_other_is() {
    let mut world = World::new();
    world.policies();
    world.record(&json!({}));
    world.copy("vault-choose-dfw", &json!({}));
    world.binding("vault-choose-dfw", &["dfw-1"], &json!([]));
    let key = world.index.source_key(world.kind, &shop(), "default", NAME);
    let rig = Rig::new(world.index, |_, _| refusal(409, "Conflict", &json!({})));
    let ctx = rig.reconcile_once();
    let failure = reconcile(&Federator::default(), &ctx, &key).await.unwrap_err();
    assert_eq!(failure.object, "configmaps fedgate-system/fedgate-pins-a1");
    assert!(Gateway::expects_conflict(&failure));
    let of = |plane, object: &str| Failure {
        plane,
        object: object.to_owned(),
        ..failure.clone()
    };
    for other in [
        of(Plane::Hub, "configmaps fedgate-system/other"),
        of(Plane::Hub, "configmaps default/fedgate-pins-a1"),
        of(Plane::Hub, "secrets fedgate-system/fedgate-pins-a1"),
        of(
            Plane::Project(shop()),
            "configmaps fedgate-system/fedgate-pins-a1",
        ),
    ] {
        assert!(!Gateway::expects_conflict(&other), "{other:?}");
    }
}

#[test]
fn a_pin_that_was_lost_is_rebuilt_from_lane_and_binding_if_they_agree() {
    let mut world = World::new();
    world.policies();
    world.at(Stage::Preserve, &applied());
    let decided = world.decides();
    assert!(
        decided[0].starts_with("write_pin") && decided[0].contains(r#""delivered":true"#),
        "{decided:?}"
    );
    world.binding("vault-pin-dfw-1", &["dfw-2"], &json!([]));
    assert!(!world.decides().iter().any(|word| word.contains("pin")));
    let key = pin::key(&world.index.kinds[world.kind], NAME);
    world.record(&json!({key: "{"}));
    assert_eq!(world.says()[0], "Federated Strayed");
}

/// A deletion of an object whose member is known to have its last spec.
fn deleted(changes: &Value) -> World {
    let mut world = World::new();
    world.memory.member.deletion.is_unguarded = true;
    world.policies();
    world.pin(&json!({"delivered": true}));
    world.at(Stage::Preserve, &applied());
    let mut leaving = json!({"metadata": {"deletionTimestamp": "2026-05-04T09:00:00Z"}});
    merge(&mut leaving, changes);
    world.source(&leaving);
    world
}

#[test]
fn a_deletion_stops_the_copy_asks_the_member_and_lets_go_last() {
    let mut world = deleted(&json!({}));
    world.memory.member.deletion.is_unguarded = false;
    assert_eq!(
        world.decides(),
        ["ask dfw-1 for it"],
        "its kind has guards: which spec does it have?"
    );
    world.has_spec(1);
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
    world.at(Stage::Withdraw, &applied());
    assert_eq!(world.decides(), ["look at works of id-1 at dfw-1"]);
    world.memory.member.probing.observation = Some(Observation::WorksGoOn);
    assert_eq!(
        world.decides(),
        [""; 0],
        "it is deleted only once nothing of it is dispatched"
    );
    assert_eq!(world.decides(), ["look at works of id-1 at dfw-1"]);
    world.memory.member.probing.observation = Some(Observation::WorksStopped);
    assert_eq!(world.decides(), ["delete_copy"]);
    world.copy_lost();
    assert!(
        !world.decides().iter().any(|word| word.starts_with("look")),
        "its binding is there"
    );
    world.binding_lost();
    assert_eq!(world.decides(), ["look at dfw-1"]);
    world.memory.member.probing.observation = Some(Observation::There {
        deleting: true,
        finalizers: vec!["drain".to_owned()],
        generation: None,
        guarded: false,
    });
    assert_eq!(world.decides(), ["return_status"]);
    assert_eq!(world.decides(), ["look at dfw-1"]);
    world.memory.member.probing.observation = Some(Observation::Unknown("forbidden".to_owned()));
    world.passes(1);
    assert!(
        !world.decides().iter().any(|word| word.contains("pin")),
        "no answer proves nothing"
    );
    world.memory.member.probing.observation = Some(Observation::Absent);
    assert_eq!(world.decides(), ["remove_pin null"]);
    world.record(&json!({}));
    assert_eq!(world.decides(), ["let_go"]);
}

#[test]
fn a_guard_holds_a_deletion_before_anything_is_asked_of_the_hub() {
    let mut world = deleted(&json!({"spec": {"locked": true}}));
    assert_eq!(world.says(), ["Federated DeletionHeld"]);
    assert!(
        !world
            .decides()
            .iter()
            .any(|word| !word.starts_with("return_status"))
    );
}

#[test]
fn an_object_that_karmada_no_longer_manages_is_taken_over_before_it_is_deleted() {
    let mut world = deleted(&json!({}));
    world.copy_lost();
    world.binding_lost();
    world.memory.member.probing.observation = Some(Observation::There {
        deleting: false,
        finalizers: Vec::new(),
        generation: None,
        guarded: false,
    });
    let there = world.memory.member.probing.observation.clone();
    assert_eq!(world.decides(), [r#"create_copy vault-drop-dfw-1 {"size":1}"#]);
    world.memory.member.probing.observation.clone_from(&there);
    assert_eq!(
        world.decides(),
        ["return_status"],
        "somebody else makes it again and again: such rounds have a pause"
    );
    world.passes(31);
    world.memory.member.probing.observation = there;
    assert_eq!(world.decides(), [r#"create_copy vault-drop-dfw-1 {"size":1}"#]);
    world.pin(&json!({"delivered": true, "copyUids": ["c-old", "c-gold"]}));
    world.at(Stage::Withdraw, &json!([]));
    assert_eq!(world.decides(), ["change_lane vault-mend-dfw-1"]);
    world.at(Stage::TakeOver, &json!([]));
    assert_eq!(world.decides(), [""; 0]);
    world.at(Stage::TakeOver, &applied());
    assert_eq!(
        world.decides(),
        ["ask dfw-1 for it"],
        "the new copy may have brought another spec"
    );
    world.has_spec(1);
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
    world.at(Stage::Withdraw, &applied());
    assert_eq!(world.decides(), ["look at works of id-1 at dfw-1"]);
}

#[test]
fn a_copy_that_was_delivered_nowhere_is_deleted_at_once() {
    let mut world = World::new();
    world.policies();
    world.copy("vault-choose-dfw", &json!({}));
    world.source(&json!({"metadata": {"deletionTimestamp": "2026-05-04T09:00:00Z"}}));
    assert_eq!(world.decides(), ["delete_copy"]);
    world.copy_lost();
    assert_eq!(world.decides(), ["confirm gone"]);
    world.memory.is_binding_settled = true;
    assert_eq!(world.decides(), ["let_go"]);
}

#[test]
fn an_earlier_object_of_the_name_keeps_its_member_to_itself() {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true, "sourceUid": "u-earlier"}));
    world.at(Stage::Preserve, &applied());
    assert_eq!(world.says()[0], "Federated EarlierLifeDraining");
}
