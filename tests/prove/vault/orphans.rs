//! Vaults whose tenants, namespaces or projects are gone without a deletion: what they have on the hub and at their members
//! ends all the same, companions that went with them first.

use super::{
    end::wrong,
    ops::Act::{Create, Namespace, Secret},
    rig::Scene,
};
use crate::rig::{rest, simulate};
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than an orphan is kept, and than a look for orphans takes to come.
const CLEANED: Duration = Duration::from_mins(10);

/// A vault in a namespace of its own, at its member with a seal that goes with it.
async fn delivered() -> Scene {
    let mut scene = Scene::new(1, &["p", "q"]);
    Namespace("p", "shop").apply(&scene.rig);
    Secret("p", "shop", "b25l").apply(&scene.rig);
    Create("p", "shop", "gold", "DFW").apply(&scene.rig);
    scene.rig.start();
    rest(Duration::from_mins(2)).await;
    assert_eq!(wrong(&scene.rig), Vec::<String>::new());
    scene
}

/// A hand takes the finalizers off and deletes the vault with its namespace, while the gateway is down.
async fn vanishes(scene: &mut Scene) {
    scene.rig.kill().await;
    let project = &scene.rig.projects["p"];
    let free = json!({"metadata": {"finalizers": Value::Null}});
    project.merge("Vault", "shop", "gold", free).unwrap();
    project.delete("Vault", "shop", "gold").unwrap();
    project.delete("Namespace", "", "shop").unwrap();
    rest(Duration::from_secs(30)).await;
    assert_eq!(project.get("Namespace", "", "shop"), None);
    scene.rig.start();
}

#[test]
fn a_vault_whose_namespace_is_gone_ends_with_its_seal() {
    simulate(async {
        let mut scene = delivered().await;
        vanishes(&mut scene).await;
        rest(CLEANED).await;
        assert_eq!(wrong(&scene.rig), Vec::<String>::new());
        let left = scene.rig.hub.list("Namespace").into_iter();
        let names = left.map(|ns| ns["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        let left: Vec<String> = names.filter(|name| name.starts_with("ns-")).collect();
        assert_eq!(left, Vec::<String>::new());
    });
}
