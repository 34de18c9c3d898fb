//! Decisions of the federator: the exact effects, and no others.

mod adopted;
mod carrying;
mod cells;
mod city;
mod deletion;
mod edges;
mod fixed;
mod index;
mod lanes;
mod memory;
mod naming;
mod noted;
mod places;
mod severed;
mod shared;
mod standby;
mod status;
mod suspension;

use super::{
    decide::CopyStep,
    destination::{Destination, Labels},
    events,
    memory::{GRACE_PERIOD, Memory},
    observe::{Companions, HubNamespaceState, HubReadiness, HubReference, Snapshot},
};
use crate::route::CityRoute;
use crate::{
    index::{
        derived::project_hub::NamedHub,
        derived::secondary::places::ClusterPlaces,
        rows::{Binding, HubCopy, Source, Strings},
    },
    queries::cells::Cells,
    rate_limit::{Class, Permit},
    references::Resolution,
    settings::Settings,
    single_member::{MemberApi, Probe, members::CityMembers},
    testing,
};
use fedgate_api::{
    keys,
    names::{HubNamespace, ProjectKey},
};
use fedgate_engine::{
    clock::Now,
    plan::{Effect, Endpoint, Plan, Prepared, Requeue, Write},
    store::table::Row,
};
use fedgate_kinds::{CompanionKind, CompanionKinds, FederatedKind, KindId, PerKind};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::time::Instant;

static KINDS: LazyLock<Arc<PerKind<FederatedKind>>> =
    LazyLock::new(|| Arc::new(FederatedKind::builtin().unwrap().into()));

static COMPANIONS: LazyLock<Arc<CompanionKinds>> =
    LazyLock::new(|| Arc::new(CompanionKinds::of(KINDS.iter())));

const HUB: &str = "ns-6d1f0c52";
static SETTINGS: LazyLock<Settings> = LazyLock::new(testing::settings);
const CLAIM: &str = "propagationpolicy.karmada.io/name";

fn now() -> Now {
    Now {
        wall: "2026-05-04T10:00:00Z".parse().unwrap(),
        instant: Instant::now(),
    }
}

fn later(now: Now, by: Duration) -> Now {
    Now {
        wall: now.wall + by,
        instant: now.instant + by,
    }
}

/// A project deployment as the API serves it, with the gateway's marks.
fn deployment() -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
        "metadata": {
            "name": "storefront-us-dfw", "namespace": "shop", "uid": "u-source", "generation": 3, "resourceVersion": "70",
            "labels": {"team": "web", "x.karmada.io/y": "z"}, "annotations": {"note": "mine", keys::FEDERATION_NAMESPACE: HUB},
            "finalizers": ["other/one", keys::FEDERATOR_FINALIZER],
        },
        "spec": {"cityCode": "DFW", "placementName": "us", "scaleSettings": {"minReplicas": 2},
            "template": {"spec": {"runtime": {}}}},
    })
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn row<D>(value: &Value, digest: D) -> Row<D> {
    let object = object(value.clone());
    Row {
        uid: object.metadata.uid.as_deref().unwrap().into(),
        version: object
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or("1")
            .parse()
            .unwrap(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        partial: false,
        digest,
        body: Some(Arc::new(object)),
    }
}

fn source(value: &Value) -> Row<Source> {
    row(
        value,
        Source::read(
            &object(value.clone()),
            &KINDS[KindId::FIRST],
            &COMPANIONS,
            &mut Strings::default(),
        ),
    )
}

fn copy(value: &Value) -> Row<HubCopy> {
    row(
        value,
        HubCopy::read(
            &object(value.clone()),
            &KINDS[KindId::FIRST],
            &mut Strings::default(),
        ),
    )
}

/// The copy of [`deployment`], as the hub serves it.
fn hub_copy() -> Value {
    let source = object(deployment());
    let dfw = CityRoute::to_city(fedgate_api::names::CityCode::parse("DFW").unwrap());
    let mut copy = super::render::copy(&KINDS[KindId::FIRST], &source, HUB, &dfw, None);
    copy["metadata"]["uid"] = json!("u-copy");
    copy["metadata"]["resourceVersion"] = json!("900");
    copy
}

fn binding() -> Row<Binding> {
    read_binding(&binding_value())
}

fn binding_value() -> Value {
    json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "storefront-us-dfw-workloaddeployment", "namespace": HUB, "uid": "u-b", "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": "x", "kind": "WorkloadDeployment", "name": "storefront-us-dfw", "uid": "u-copy"}]},
        "spec": {"resource": {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": "storefront-us-dfw"}, "clusters": [{"name": "dfw-1"}]},
        "status": {"conditions": [{"type": "Scheduled", "status": "True"}, {"type": "FullyApplied", "status": "True"}]}})
}

fn read_binding(value: &Value) -> Row<Binding> {
    row(
        value,
        Binding::read(
            &object(value.clone()),
            &KINDS,
            &COMPANIONS,
            &mut Strings::default(),
        ),
    )
}

fn snapshot(deployment: &Value, hub_copy: Option<&Value>) -> Snapshot {
    Snapshot {
        kinds: KINDS.clone(),
        companion_kinds: COMPANIONS.clone(),
        kind: KindId::FIRST,
        project: ProjectKey::parse("prod").unwrap(),
        namespace: "shop".into(),
        name: deployment["metadata"]["name"].as_str().unwrap().into(),
        destination: Destination::of(
            Labels {
                places: &ClusterPlaces::default(),
                listed: true,
            },
            &KINDS[KindId::FIRST],
            Some(&source(deployment)),
            hub_copy.map(copy).as_ref(),
        ),
        source: Some(source(deployment)),
        hub: HubNamespace::parse(HUB),
        hub_reference: HubReference {
            own: None,
            named: NamedHub::None,
        },
        single_member: None,
        delay: None,
        hub_state: HubNamespaceState::Ours,
        copy: hub_copy.map(copy),
        asks_for: None,
        cells: Cells::default(),
        city_members: CityMembers {
            candidates: Vec::new(),
            api: MemberApi::Fit,
        },
        binding: None,
        readiness: HubReadiness {
            is_ready: true,
            ..HubReadiness::default()
        },
        largest_spec: 256 * 1024,
        is_claim_right: true,
        companions: Companions {
            references: Some(Resolution {
                expected: Some(Vec::new()),
                error: None,
                resolving: false,
            }),
            are_there: true,
            ..Companions::default()
        },
        suspended: false,
        arriving: None,
        complete: true,
    }
}

/// The step of a decision, as these tests tell it.
#[derive(Debug, PartialEq)]
enum Action {
    Read { source: bool, copy: bool },
    Confirm(Plan<Prepared>),
    ConfirmGone,
    Probe(Probe),
    Permit(Class),
    Apply(Plan<Prepared>),
}

/// The memory before and after a plan is applied.
struct MemoryUpdate {
    observed: Memory,
    applied: Memory,
}

/// A decision, and the memory that it leads to.
struct Decision {
    action: Action,
    memory: MemoryUpdate,
}

fn decision(s: &Snapshot, memory: &Memory, settings: &Settings, permit: Permit, now: Now) -> Decision {
    let mut observed = memory.clone();
    let step = super::decide::decide(s, &mut observed, settings, permit, now);
    let mut applied = observed.clone();
    let action = match step {
        CopyStep::Read { source, copy } => Action::Read { source, copy },
        CopyStep::ConfirmGone => Action::ConfirmGone,
        CopyStep::Probe(probe) => Action::Probe(probe),
        CopyStep::Permit(class) => Action::Permit(class),
        CopyStep::Wait(next) => Action::Apply(Plan::wait(next)),
        CopyStep::Act(act) => {
            applied = act.applied;
            if act.needs_get {
                Action::Confirm(act.plan)
            } else {
                Action::Apply(act.plan)
            }
        }
    };
    let memory = MemoryUpdate { observed, applied };
    Decision { action, memory }
}

/// Decides, and takes the memory that follows if the whole plan is applied.
fn decide(s: &Snapshot, memory: &mut Memory, settings: &Settings, now: Now) -> Action {
    let decision = decision(s, memory, settings, Permit::Granted, now);
    *memory = decision.memory.applied;
    decision.action
}

fn plan(action: Action) -> (Vec<Effect>, Requeue) {
    match action {
        Action::Apply(plan) | Action::Confirm(plan) => (plan.effects, plan.next),
        other => panic!("{other:?}"),
    }
}

fn one(action: Action) -> Effect {
    let (mut effects, _) = plan(action);
    assert_eq!(effects.len(), 1, "{effects:?}");
    effects.remove(0)
}

fn patch(effect: &Effect) -> &Value {
    match &effect.write {
        Write::Merge { patch } => patch,
        Write::Apply { body, .. }
        | Write::Update { body, .. }
        | Write::Create { body, .. }
        | Write::Replace { body } => body,
        delete @ (Write::Delete { .. } | Write::DeleteNamed) => panic!("{delete:?}"),
    }
}

fn idle(action: Action) {
    assert_eq!(plan(action).0, []);
}

#[tokio::test]
async fn finalizer_and_annotation_come_before_anything_on_the_hub() {
    let mut d = deployment();
    d["metadata"]["finalizers"] = json!(["other/one"]);
    d["metadata"]["annotations"] = json!({});
    let effect = one(decide(
        &snapshot(&d, None),
        &mut Memory::default(),
        &SETTINGS,
        now(),
    ));
    assert_eq!(
        (effect.reason.label(), effect.endpoint),
        ("announce", Endpoint::Main)
    );
    assert_eq!(
        patch(&effect),
        &json!({"metadata": {"uid": "u-source", "resourceVersion": "70",
            "finalizers": ["other/one", keys::FEDERATOR_FINALIZER], "annotations": {keys::FEDERATION_NAMESPACE: HUB}}})
    );
}

#[tokio::test]
async fn the_copy_carries_the_allow_list_and_the_whole_spec() {
    let effect = one(decide(
        &snapshot(&deployment(), None),
        &mut Memory::default(),
        &SETTINGS,
        now(),
    ));
    assert_eq!(effect.reason.label(), "create_copy");
    assert_eq!(
        patch(&effect),
        &json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
            "metadata": {"name": "storefront-us-dfw", "namespace": HUB,
                "labels": {keys::CITY_CODE: "DFW", keys::UPSTREAM_NAMESPACE: "shop"},
                "annotations": {keys::SOURCE_UID: "u-source", keys::SOURCE_GENERATION: "3"}},
            "spec": deployment()["spec"]})
    );
}

#[tokio::test]
async fn nothing_goes_to_the_hub_before_namespace_policy_and_companions_are_there() {
    let mut s = snapshot(&deployment(), None);
    s.readiness.is_ready = false;
    idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    let mut s = snapshot(&deployment(), None);
    s.companions.are_there = false;
    idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
}

#[tokio::test]
async fn at_rest_nothing_is_written_whatever_the_tenant_labels() {
    let mut s = snapshot(&deployment(), Some(&hub_copy()));
    s.binding = Some(binding());
    let mut d = deployment();
    d["status"] = json!({"replicas": 0, "currentReplicas": 0, "desiredReplicas": 0, "readyReplicas": 0, "updatedReplicas": 0,
        "conditions": [{"type": "Federated", "status": "True", "reason": "Delivered", "message": "delivered to dfw-1",
            "observedGeneration": 3, "lastTransitionTime": "2026-05-04T09:00:00Z"}]});
    d["metadata"]["labels"] = json!({"new": "label"});
    s.source = Some(source(&d));
    let (effects, next) = plan(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!((effects, next), (vec![], Requeue::AwaitChange));
}

#[tokio::test]
async fn a_new_generation_is_one_apply_that_cannot_create() {
    let mut d = deployment();
    d["metadata"]["generation"] = json!(4);
    d["spec"]["scaleSettings"]["minReplicas"] = json!(5);
    let effect = one(decide(
        &snapshot(&d, Some(&hub_copy())),
        &mut Memory::default(),
        &SETTINGS,
        now(),
    ));
    assert_eq!(effect.reason.label(), "update_copy");
    assert_eq!(patch(&effect)["metadata"]["uid"], "u-copy");
    assert_eq!(
        patch(&effect)["metadata"]["annotations"][keys::SOURCE_GENERATION],
        "4"
    );
}

#[tokio::test]
async fn a_new_spec_or_city_waits_for_what_it_references() {
    for city in ["DFW", "LHR"] {
        let mut d = deployment();
        d["metadata"]["generation"] = json!(4);
        d["spec"]["cityCode"] = json!(city);
        let mut s = snapshot(&d, Some(&hub_copy()));
        s.companions.are_there = false;
        idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
        s.companions.are_there = true;
        s.companions.references.as_mut().unwrap().resolving = true;
        idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
        s.companions.references.as_mut().unwrap().resolving = false;
        one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    }
    let mut s = snapshot(&deployment(), Some(&hub_copy()));
    (s.is_claim_right, s.companions.are_there) = (false, false);
    let mut memory = Memory::default();
    let start = now();
    idle(decide(&s, &mut memory, &SETTINGS, start));
    let claim = one(decide(
        &s,
        &mut memory,
        &SETTINGS,
        later(start, Duration::from_secs(10)),
    ));
    assert_eq!(
        claim.reason.label(),
        "repair_claim",
        "what stays as it is does not wait"
    );
}

#[tokio::test]
async fn an_older_generation_is_carried_and_said_only_if_the_project_confirms_it() {
    let mut d = deployment();
    d["metadata"]["generation"] = json!(2);
    d["spec"]["scaleSettings"]["minReplicas"] = json!(1);
    let mut c = hub_copy();
    c["status"] = json!({"replicas": 1, "observedGeneration": 3});
    let mut s = snapshot(&d, Some(&c));
    let Action::Confirm(plan) = decide(&s, &mut Memory::default(), &SETTINGS, now()) else {
        panic!("it is not asked for")
    };
    assert_eq!(plan.effects.len(), 1);
    assert_eq!(plan.effects[0].reason.label(), "update_copy");
    assert_eq!(plan.notes[0].reason, "GenerationRewound");
    s.companions.are_there = false;
    idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
}

#[tokio::test]
async fn what_takes_a_copy_away_for_another_uid_is_confirmed() {
    let mut c = hub_copy();
    c["metadata"]["annotations"][keys::SOURCE_UID] = json!("u-dead");
    let mut s = snapshot(&deployment(), Some(&c));
    for state in [HubNamespaceState::Ours, HubNamespaceState::EarlierLife] {
        s.hub_state = state;
        let action = decide(&s, &mut Memory::default(), &SETTINGS, now());
        assert!(matches!(action, Action::Confirm(_)), "{action:?}");
    }
}

#[tokio::test]
async fn a_copy_of_an_earlier_deployment_is_deleted_first() {
    let mut c = hub_copy();
    c["metadata"]["annotations"][keys::SOURCE_UID] = json!("u-dead");
    let effect = one(decide(
        &snapshot(&deployment(), Some(&c)),
        &mut Memory::default(),
        &SETTINGS,
        now(),
    ));
    assert_eq!(
        effect.write,
        Write::Delete {
            uid: "u-copy".into(),
            resource_version: None
        }
    );
}

#[tokio::test]
async fn a_deployment_of_a_claim_that_is_refused_changes_nothing_but_its_status() {
    let mut s = snapshot(&deployment(), None);
    s.hub = None;
    s.hub_state = HubNamespaceState::Foreign;
    let Action::Apply(plan) = decide(&s, &mut Memory::default(), &SETTINGS, now()) else {
        panic!("it reads")
    };
    assert_eq!(plan.effects.len(), 1);
    let condition = &patch(&plan.effects[0])["status"]["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("HubNamespaceClaimed"))
    );
    assert_eq!(plan.notes.len(), 1, "an Event says it too");
}

#[tokio::test]
async fn a_copy_of_an_earlier_life_goes_and_none_is_made_before_the_rest_is_gone() {
    let mut c = hub_copy();
    c["metadata"]["annotations"][keys::SOURCE_UID] = json!("u-dead");
    let mut s = snapshot(&deployment(), Some(&c));
    s.hub_state = HubNamespaceState::EarlierLife;
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(effect.reason.label(), "drain_earlier_life");
    s.copy = None;
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(
        patch(&effect)["status"]["conditions"][0]["reason"],
        "EarlierLifeDraining"
    );
}

#[tokio::test]
async fn suspension_travels_as_true_or_not_at_all() {
    for (value, carried) in [("true", Some("true")), ("yes", None)] {
        let mut d = deployment();
        d["metadata"]["annotations"][keys::SUSPENDED] = json!(value);
        let effect = one(decide(
            &snapshot(&d, None),
            &mut Memory::default(),
            &SETTINGS,
            now(),
        ));
        assert_eq!(
            patch(&effect)["metadata"]["annotations"]
                .get(keys::SUSPENDED)
                .and_then(Value::as_str),
            carried
        );
    }
}

#[tokio::test]
async fn a_carried_annotation_that_is_gone_goes_from_the_copy_whoever_put_it_there() {
    let mut c = hub_copy();
    c["metadata"]["annotations"][keys::SUSPENDED] = json!("true");
    let mut d = deployment();
    d["metadata"]["annotations"][keys::REFERENCED_DATA_ERROR] = json!("{}");
    let mut s = snapshot(&d, Some(&c));
    s.companions.references = None;
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    let Write::Update { body, strict: true } = &effect.write else {
        panic!("{effect:?}")
    };
    let annotations = body["metadata"]["annotations"].as_object().unwrap();
    let removed = annotations.iter().filter(|(_, value)| value.is_null());
    let removed: Vec<_> = removed.map(|(key, _)| key.as_str()).collect();
    assert_eq!(removed, [keys::EXPECTED_REFERENCED_DATA, keys::SUSPENDED]);
}

#[tokio::test]
async fn a_status_over_the_cap_stays_on_the_hub_and_is_said() {
    let mut c = hub_copy();
    c["status"] = json!({"replicas": 1, "text": "x".repeat(64 * 1024)});
    let mut s = snapshot(&deployment(), Some(&c));
    idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    let note = events::too_large(&s).unwrap();
    assert_eq!(
        (note.reason.as_str(), note.action.as_str(), note.warning),
        ("QuarantinedTooLarge", "QuarantiningDeployment", true)
    );
    c["status"]["text"] = json!("x");
    s.copy = Some(copy(&c));
    assert_eq!(events::too_large(&s), None);
}

#[tokio::test]
async fn a_terminal_source_error_travels_and_the_list_stays() {
    let mut d = deployment();
    d["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "gone"}}]);
    d["metadata"]["annotations"][keys::EXPECTED_REFERENCED_DATA] = json!("[\"ConfigMap/old\"]");
    let mut s = snapshot(&d, None);
    assert_eq!(
        s.source.as_ref().unwrap().digest.references[0].kind,
        CompanionKind::CONFIG_MAP
    );
    s.companions.references = Some(Resolution {
        expected: None,
        error: Some((fedgate_api::Reason::SourceNotFound, "m".into())),
        resolving: false,
    });
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(
        patch(&effect)["metadata"]["annotations"],
        json!({keys::REFERENCED_DATA_ERROR: "{\"message\":\"m\",\"reason\":\"SourceNotFound\"}"})
    );
    assert_eq!(
        patch(&effect)["metadata"]["finalizers"],
        json!([
            "other/one",
            keys::FEDERATOR_FINALIZER,
            keys::REFERENCED_DATA_FINALIZER
        ])
    );
}
