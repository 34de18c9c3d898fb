//! Tests of the exact keys that each change enqueues: two deployments of one namespace, each with copy, binding,
//! companion and write-back.

use super::fixture::{HUB, binding, companion, copy, object, shop, source};
use super::*;
use fedgate_api::keys;
use fedgate_kinds::KindId;
use serde_json::Value;

/// The index, and the version of the last object.
struct Scene {
    index: GatewayIndex,
    version: u64,
}

fn web() -> Value {
    let mut web = source("web", "DFW");
    web["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "db"}}]);
    web
}

fn write_back(deployment: &str, name: &str) -> Value {
    let mut of = object(HUB, name, &format!("w-{name}"));
    of["metadata"]["labels"] = json!({keys::WORKLOAD_DEPLOYMENT_NAME: deployment, keys::CELL: "dfw-1", keys::INSTANCE_CITY_CODE: "DFW"});
    of
}

impl Scene {
    fn new() -> Self {
        let mut scene = Self {
            index: GatewayIndex::fixture(),
            version: 10,
        };
        scene.shop(TableId::DEPLOYMENTS, web());
        scene.shop(TableId::DEPLOYMENTS, source("api", "DFW"));
        for name in ["web", "api"] {
            scene.hub(TableId::DEPLOYMENTS, copy(name, "DFW"));
            scene.hub(TableId::Bindings, binding(name));
            scene.hub(TableId::INSTANCES, write_back(name, &format!("{name}-0")));
        }
        scene.hub(TableId::SECRETS, companion("db", &json!(["default/web"])));
        scene.hub(TableId::SECRETS, companion("former", &json!(["default/api"])));
        scene
    }

    fn newer(&mut self, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        object
    }

    fn hub(&mut self, table: TableId, object: Value) -> BTreeSet<Key> {
        let object = self.newer(object);
        self.index.hub_has(table, &object).into_iter().collect()
    }

    fn shop(&mut self, table: TableId, object: Value) -> BTreeSet<Key> {
        let object = self.newer(object);
        self.index.shop_has(table, &object).into_iter().collect()
    }

    /// Keys of `web`, by letter: source, Namespace, policies, copy, write-back, companion (`d`, for data).
    fn keys(&self, letters: &str) -> BTreeSet<Key> {
        let key = |letter| match letter {
            's' => self.index.source_key(KindId::FIRST, &shop(), "default", "web"),
            'n' => self.index.hub_key(TableId::Namespaces, "", HUB),
            'p' => self.index.hub_key(TableId::CityPolicies, HUB, ""),
            'c' => self.index.hub_key(TableId::DEPLOYMENTS, HUB, "web"),
            'w' => self.index.hub_key(TableId::INSTANCES, HUB, "web-0"),
            'd' => self.index.hub_key(TableId::SECRETS, HUB, "db"),
            other => panic!("{other}"),
        };
        letters.chars().map(key).collect()
    }
}

#[track_caller]
fn change(
    of: Value,
    how: impl FnOnce(&mut Value),
    event: fn(&mut Scene, Value) -> BTreeSet<Key>,
    wakes: &str,
) {
    let mut scene = Scene::new();
    let mut of = of;
    how(&mut of);
    let enqueued = event(&mut scene, of);
    assert_eq!(enqueued, scene.keys(wakes), "{wakes}");
}

#[test]
fn a_binding_concerns_its_deployment_and_by_its_clusters_and_policy_others_too() {
    let event = |scene: &mut Scene, of| scene.hub(TableId::Bindings, of);
    let gone = |scene: &mut Scene, of| scene.index.hub_lost(TableId::Bindings, &of).into_iter().collect();
    change(binding("web"), |_| (), event, "");
    let applied = json!({"conditions": [{"type": "FullyApplied", "status": "True"}]});
    change(binding("web"), |b| b["status"] = applied, event, "s");
    let clusters = json!([{"name": "dfw-1"}]);
    change(binding("web"), |b| b["spec"]["clusters"] = clusters, event, "sw");
    let claimed = json!({keys::CLAIM_NAME: "city-dfw"});
    change(
        binding("web"),
        |b| b["metadata"]["annotations"] = claimed,
        event,
        "spnd",
    );
    change(
        binding("web"),
        |b| b["metadata"]["resourceVersion"] = json!("99"),
        gone,
        "swpnd",
    );
}

#[test]
fn a_copy_concerns_its_deployment_and_by_its_place_others_too() {
    let event = |scene: &mut Scene, of| scene.hub(TableId::DEPLOYMENTS, of);
    change(copy("web", "DFW"), |_| (), event, "");
    change(
        copy("web", "DFW"),
        |c| c["status"] = json!({"replicas": 1}),
        event,
        "s",
    );
    change(copy("web", "LHR"), |_| (), event, "scpnwd");
    change(
        copy("web", "DFW"),
        |c| c["metadata"]["uid"] = json!("c-again"),
        event,
        "scpnwd",
    );
}

#[test]
fn a_write_back_concerns_itself_and_by_its_labels_the_namespace() {
    let event = |scene: &mut Scene, of| scene.hub(TableId::INSTANCES, of);
    change(write_back("web", "web-0"), |_| (), event, "");
    change(
        write_back("web", "web-0"),
        |w| w["spec"] = json!({"a": 1}),
        event,
        "w",
    );
    change(write_back("api", "web-0"), |_| (), event, "wn");
    let lhr = json!("LHR");
    change(
        write_back("web", "web-0"),
        |w| w["metadata"]["labels"][keys::INSTANCE_CITY_CODE] = lhr,
        event,
        "wn",
    );
}

#[test]
fn data_concerns_those_that_reference_it() {
    let event = |scene: &mut Scene, of| scene.shop(TableId::SECRETS, of);
    let secret = |name: &str| {
        let mut secret = object("default", name, "u-secret");
        secret["data"] = json!({"a": "Yg=="});
        secret
    };
    change(secret("db"), |_| (), event, "sd");
    let mut scene = Scene::new();
    let mut api = source("api", "DFW");
    api["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "db2"}}]);
    scene.shop(TableId::DEPLOYMENTS, api);
    assert_eq!(
        scene.shop(TableId::SECRETS, secret("db")),
        scene.keys("sd"),
        "the other has another"
    );
    let mut scene = Scene::new();
    let other = scene.index.hub_key(TableId::SECRETS, HUB, "other");
    assert_eq!(scene.shop(TableId::SECRETS, secret("other")), [other].into());
    let event = |scene: &mut Scene, of| scene.hub(TableId::SECRETS, of);
    change(
        companion("db", &json!(["default/web", "default/x"])),
        |_| (),
        event,
        "dns",
    );
    // A deployment that dropped its reference may have waited for the companion's release.
    let former = scene.index.hub_key(TableId::SECRETS, HUB, "former");
    let api = scene.index.source_key(KindId::FIRST, &shop(), "default", "api");
    let mut wanted = scene.keys("n");
    wanted.extend([former, api]);
    assert_eq!(
        scene.hub(TableId::SECRETS, companion("former", &json!([]))),
        wanted
    );
}

#[test]
fn a_deployment_concerns_itself_and_by_what_changes_others_too() {
    let event = |scene: &mut Scene, of| scene.shop(TableId::DEPLOYMENTS, of);
    let gone = |scene: &mut Scene, of| {
        scene
            .index
            .shop_lost(TableId::DEPLOYMENTS, &of)
            .into_iter()
            .collect()
    };
    change(web(), |_| (), event, "");
    change(web(), |s| s["spec"]["placementName"] = json!("x"), event, "s");
    change(
        web(),
        |s| s["spec"]["scaleSettings"] = json!({"minReplicas": 7}),
        event,
        "swd",
    );
    let expected = json!("[\"Secret/db\"]");
    change(
        web(),
        |s| s["metadata"]["annotations"][keys::EXPECTED_REFERENCED_DATA] = expected,
        event,
        "sd",
    );
    change(web(), |s| s["spec"]["template"]["spec"] = json!({}), event, "sd");
    change(web(), |s| s["spec"]["cityCode"] = json!("LHR"), event, "snpcd");
    let leaves = json!("2026-05-04T10:00:00Z");
    change(
        web(),
        |s| s["metadata"]["deletionTimestamp"] = leaves,
        event,
        "snpcwd",
    );
    change(
        web(),
        |s| s["metadata"]["resourceVersion"] = json!("99"),
        gone,
        "snpcwd",
    );
}
