//! 12, 13, 23, 42, 54 and 81 for everything that the gateway writes: what someone deletes or edits by hand is as it was
//! by the event of that alone, with one write.

use crate::support::{
    Case,
    audit::{AuditLog, GATEWAY},
    cell::running,
    condition, deployment_with_data,
    kinds::{
        CLUSTER_POLICY, CONFIG_MAP, DEPLOYMENT, INSTANCE, INTERPRETER, Kind, NAMESPACE, POLICY, SECRET,
        WORKLOAD,
    },
    label, lone_trials, objects,
    plane::{BY_EVENT, Plane, brief},
    seconds, uid,
};
use fedgate_api::{keys, names};
use futures::{Stream, StreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

lone_trials![
    changes_by_hand_on_the_hub_are_undone,
    changes_by_hand_in_the_project_are_undone,
    hub_namespace_deleted_by_hand_is_made_anew,
];

/// What of an object has to be as it was.
type Essence = fn(&Value) -> Value;

/// One object of ours, and the writes that what was done to it asks for.
struct Ours<'a> {
    plane: &'a Plane,
    log: &'a AuditLog,
    kind: &'static Kind,
    namespace: &'a str,
    name: &'a str,
    essence: Essence,
    mark: u64,
    wanted: Vec<&'static str>,
}

impl<'a> Ours<'a> {
    fn on_hub(case: &'a Case, kind: &'static Kind, name: &'a str, essence: Essence) -> Self {
        Self::new(&case.hub, &case.suite.hub_log, kind, &case.hub_ns, name, essence)
    }

    fn in_project(case: &'a Case, kind: &'static Kind, name: &'a str, essence: Essence) -> Self {
        Self::new(
            &case.project,
            &case.suite.alpha_log,
            kind,
            &case.ns,
            name,
            essence,
        )
    }

    fn new(
        plane: &'a Plane,
        log: &'a AuditLog,
        kind: &'static Kind,
        namespace: &'a str,
        name: &'a str,
        essence: Essence,
    ) -> Self {
        let namespace = if kind.namespaced { namespace } else { "" };
        let (mark, wanted) = (log.mark(), Vec::new());
        Self {
            plane,
            log,
            kind,
            namespace,
            name,
            essence,
            mark,
            wanted,
        }
    }

    /// The object as it is, and a watch of what becomes of it.
    async fn watched(&self) -> (Value, impl Stream<Item = Option<Value>> + Unpin + use<>) {
        let mut states = self.plane.states(self.kind, self.namespace, self.name);
        let first = timeout(seconds(30), states.next()).await;
        let first = first.ok().flatten().flatten();
        (
            first.unwrap_or_else(|| panic!("{} {} is there", self.kind.name, self.name)),
            states,
        )
    }

    /// Deletes it; it has to be back by the event of its end.
    async fn deleted(&mut self, writes: &[&'static str]) {
        let (old, mut watch) = self.watched().await;
        self.plane.delete(self.kind, self.namespace, self.name).await;
        let (mut gone, mut last) = (None, None);
        let back = async {
            while let Some(state) = watch.next().await {
                match &state {
                    None => gone = Some(Instant::now()),
                    Some(o) if uid(o) != uid(&old) && (self.essence)(o) == (self.essence)(&old) => return,
                    Some(_) => {}
                }
                last = state;
            }
        };
        let came = timeout(seconds(60), back).await.is_ok();
        let what = format!("{} {}", self.kind.name, self.name);
        assert!(
            came,
            "{what} is not back as it was; last seen: {}",
            brief(last.as_ref())
        );
        let pause = gone.map(|gone| gone.elapsed());
        assert!(
            pause.is_some_and(|pause| pause < BY_EVENT),
            "{what} is back {pause:?} after its end"
        );
        self.wanted.extend(writes);
    }

    /// Edits it, or its status; it has to be as it was by the event of the edit.
    async fn edited(&mut self, edit: Value, writes: &[&'static str]) {
        let (old, mut watch) = self.watched().await;
        let what = format!("{} {}", self.kind.name, self.name);
        let began = Instant::now();
        let edited = if edit["status"].is_null() {
            self.plane.merge(self.kind, self.namespace, self.name, edit).await
        } else {
            let status = edit["status"].clone();
            self.plane
                .merge_status(self.kind, self.namespace, self.name, status)
                .await
        };
        assert_ne!(
            (self.essence)(&edited),
            (self.essence)(&old),
            "the edit of {what} shows"
        );
        let (mut seen, mut last) = (false, None);
        let restored = async {
            while let Some(state) = watch.next().await {
                let as_was = state
                    .as_ref()
                    .is_some_and(|o| (self.essence)(o) == (self.essence)(&old));
                if seen && as_was {
                    return;
                }
                seen |= !as_was;
                last = state;
            }
        };
        let came = timeout(seconds(30), restored).await.is_ok();
        assert!(
            came,
            "{what} is not as it was; last seen: {}",
            brief(last.as_ref())
        );
        let pause = began.elapsed();
        assert!(pause < BY_EVENT, "{what} is as it was {pause:?} after its edit");
        self.wanted.extend(writes);
    }

    /// Asserts that the gateway wrote to it what was asked for, and no more.
    fn check(&self) {
        let written: Vec<String> = self
            .log
            .since(self.mark, GATEWAY)
            .iter()
            .filter(|e| e.is_write() && e.response_status.code != 409)
            .filter(|e| e.object_ref.resource == self.kind.plural && e.object_ref.name == self.name)
            .filter(|e| !self.kind.namespaced || e.object_ref.namespace == self.namespace)
            .map(crate::support::Entry::action)
            .filter(|action| self.kind.plural != DEPLOYMENT.plural || !action.ends_with("/status"))
            .collect();
        assert_eq!(written, self.wanted, "writes to {} {}", self.kind.name, self.name);
    }
}

fn spec(object: &Value) -> Value {
    object["spec"].clone()
}

fn identity(namespace: &Value) -> Value {
    let of = |key| label(namespace, key);
    json!([
        of(keys::UPSTREAM_CLUSTER),
        of(keys::UPSTREAM_NAMESPACE),
        of(keys::SKIP_AUTO_PROPAGATION),
        of(keys::PROJECT_UID),
        of(keys::CITIES),
    ])
}

fn copied(copy: &Value) -> Value {
    let annotations = &copy["metadata"]["annotations"];
    json!([
        copy["spec"],
        label(copy, keys::CITY_CODE),
        label(copy, keys::UPSTREAM_NAMESPACE),
        annotations[keys::SOURCE_UID],
        annotations[keys::SOURCE_GENERATION],
        annotations[keys::EXPECTED_REFERENCED_DATA],
    ])
}

fn carried(companion: &Value) -> Value {
    let references = &companion["metadata"]["annotations"][keys::REFERENCED_BY];
    json!([
        companion["data"],
        companion["type"],
        label(companion, keys::REFERENCED_DATA),
        references
    ])
}

fn owned(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!([metadata["labels"], metadata["ownerReferences"], object["spec"]])
}

fn projected(instance: &Value) -> Value {
    json!([owned(instance), instance["status"]])
}

async fn changes_by_hand_on_the_hub_are_undone(case: Case) {
    let nowhere = case.unready_city().await;
    case.config_map("settings", &json!({"a": "1"})).await;
    case.secret("keys", "Opaque", &json!({"password": "p"})).await;
    let web = deployment_with_data("web", "DFW", Some("settings"), Some("keys"), &[]);
    case.create(&DEPLOYMENT, web).await;
    case.deploy("far", &nowhere).await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    case.condition("far", "Federated", "False", "NoCellForCity").await;
    case.condition("web", "ReferencedDataReady", "True", "Ready")
        .await;
    case.quiet().await;
    let codes = ["DFW", &*nowhere].map(|code| names::CityCode::parse(code).expect("a valid code"));
    let set = names::city_set(&codes.into()).expect("a set of two");
    let cities = names::city_set_policy(&set);

    let mut interpreter = Ours::on_hub(&case, &INTERPRETER, "gadget", spec);
    interpreter
        .deleted(&["create resourceinterpretercustomizations"])
        .await;
    let script = "function InterpretHealth(observed) return false end";
    let health = json!({"spec": {"customizations": {"healthInterpretation": {"luaScript": script}}}});
    interpreter
        .edited(health, &["patch resourceinterpretercustomizations"])
        .await;

    let mut set = Ours::on_hub(&case, &CLUSTER_POLICY, &cities, spec);
    let narrow = json!([{"key": keys::CITY_CODE, "operator": "In", "values": ["DFW"]}]);
    let affinity = json!({"clusterAffinity": {"labelSelector": {"matchExpressions": narrow}}});
    set.edited(
        json!({"spec": {"placement": affinity}}),
        &["patch clusterpropagationpolicies"],
    )
    .await;
    set.deleted(&["create clusterpropagationpolicies"]).await;

    let mut namespace = Ours::on_hub(&case, &NAMESPACE, &case.hub_ns, identity);
    for (key, forged) in [
        (keys::UPSTREAM_CLUSTER, json!("cluster-beta")),
        (keys::UPSTREAM_NAMESPACE, json!(null)),
        (keys::PROJECT_UID, json!("00000000-0000-4000-8000-00000000dead")),
        (keys::SKIP_AUTO_PROPAGATION, json!("false")),
        (keys::CITIES, json!("nowhere")),
    ] {
        namespace
            .edited(
                json!({"metadata": {"labels": {key: forged}}}),
                &["patch namespaces"],
            )
            .await;
    }

    let mut policy = Ours::on_hub(&case, &POLICY, "city-dfw", spec);
    let placement = json!({"clusterAffinity": {"labelSelector": {"matchLabels": {keys::CITY_CODE: "LHR"}}}});
    let edit = json!({"spec": {"placement": placement, "propagateDeps": false}});
    policy.edited(edit, &["patch propagationpolicies"]).await;
    policy.deleted(&["create propagationpolicies"]).await;

    let mut settings = Ours::on_hub(&case, &CONFIG_MAP, "settings", carried);
    settings
        .edited(json!({"data": {"a": "forged"}}), &["patch configmaps"])
        .await;
    let nobody = json!({"metadata": {"annotations": {keys::REFERENCED_BY: "[]"}}});
    settings.edited(nobody.clone(), &["patch configmaps"]).await;
    settings.deleted(&["create configmaps"]).await;
    let mut secret = Ours::on_hub(&case, &SECRET, "keys", carried);
    secret
        .edited(json!({"data": {"password": "Zm9yZ2Vk"}}), &["patch secrets"])
        .await;
    secret.edited(nobody, &["patch secrets"]).await;
    secret.deleted(&["create secrets"]).await;

    let mut copy = Ours::on_hub(&case, &DEPLOYMENT, "web", copied);
    let edit = json!({
        "metadata": {"annotations": {keys::EXPECTED_REFERENCED_DATA: "[]", keys::SOURCE_GENERATION: null}},
        "spec": {"scaleSettings": {"minReplicas": 9}},
    });
    copy.edited(edit, &["patch workloaddeployments"]).await;
    copy.deleted(&["create workloaddeployments"]).await;

    case.quiet().await;
    for object in [interpreter, set, namespace, policy, settings, secret, copy] {
        object.check();
    }
    // All of it serves as before.
    case.merge(
        &DEPLOYMENT,
        "web",
        json!({"spec": {"scaleSettings": {"minReplicas": 2}}}),
    )
    .await;
    case.dfw
        .sees(&case.hub_ns, "web", "has the new scale", |o| {
            o["spec"]["scaleSettings"]["minReplicas"] == 2
        })
        .await;
}

async fn changes_by_hand_in_the_project_are_undone(case: Case) {
    let name = "shop-main-dfw";
    case.create(&WORKLOAD, objects::workload("shop", &["DFW"])).await;
    case.copy(name).await;
    case.dfw.report(&case.hub_ns, name, 1, 1).await;
    case.dfw.run(&case.hub_ns, name, 0).await;
    let instance = format!("{name}-0");
    let said = |o: &Value| condition(o, "Ready").is_some();
    case.project
        .sees(
            &INSTANCE,
            &case.ns,
            &instance,
            "has its status",
            seconds(30),
            said,
        )
        .await;
    case.condition(name, "Federated", "True", "Delivered").await;
    case.quiet().await;

    let mut projection = Ours::in_project(&case, &INSTANCE, &instance, projected);
    let edit = json!({
        "metadata": {"labels": {keys::WORKLOAD_NAME: "other"}},
        "spec": {"runtime": {"resources": {"instanceType": "other"}}},
    });
    projection.edited(edit, &["patch instances"]).await;
    let owner = json!({
        "apiVersion": DEPLOYMENT.api_version(), "kind": DEPLOYMENT.name, "name": name, "controller": true,
        "uid": uid(&case.project.exists(&DEPLOYMENT, &case.ns, name, seconds(5)).await),
    });
    let edit = json!({"metadata": {"ownerReferences": [owner]}});
    projection.edited(edit, &["patch instances"]).await;
    projection
        .edited(json!({"status": running()}), &["patch instances/status"])
        .await;
    projection
        .deleted(&["create instances", "patch instances/status"])
        .await;
    case.quiet().await;
    projection.check();

    let mut deployment = Ours::in_project(&case, &DEPLOYMENT, name, owned);
    let edit = json!({
        "metadata": {"labels": {keys::WORKLOAD_UID: "other"}},
        "spec": {"scaleSettings": {"minReplicas": 9}},
    });
    deployment.edited(edit, &["patch workloaddeployments"]).await;
    // The first patch lets the old one go.
    deployment
        .deleted(&["patch workloaddeployments", "create workloaddeployments"])
        .await;
    case.quiet().await;
    deployment.check();
    case.dfw.deployment(&case.hub_ns, name).await;
}

async fn hub_namespace_deleted_by_hand_is_made_anew(case: Case) {
    case.config_map("settings", &json!({"a": "1"})).await;
    let web = deployment_with_data("web", "DFW", Some("settings"), None, &[]);
    case.create(&DEPLOYMENT, web).await;
    let at_cell = case.dfw.deployment(&case.hub_ns, "web").await;
    case.quiet().await;
    let mark = case.suite.hub_log.mark();
    let mut namespace = Ours::on_hub(&case, &NAMESPACE, &case.hub_ns, identity);
    namespace.deleted(&["create namespaces"]).await;
    case.copy("web").await;
    case.dfw
        .sees(&case.hub_ns, "web", "is delivered anew", |o| {
            uid(o) != uid(&at_cell) && o["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
    case.quiet().await;
    namespace.check();
    // Everything is written again, once and in order; what was refused while the namespace went is no write.
    let made: Vec<String> = case
        .suite
        .hub_log
        .since(mark, GATEWAY)
        .iter()
        .filter(|e| e.is_write() && e.succeeded())
        .filter(|e| e.object_ref.namespace == case.hub_ns || e.object_ref.name == case.hub_ns)
        .map(crate::support::Entry::action)
        .collect();
    assert_eq!(
        made,
        [
            "create namespaces",
            "create propagationpolicies",
            "create configmaps",
            "create workloaddeployments"
        ]
    );
}
