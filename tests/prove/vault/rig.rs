//! Members with planes of their own, and what an operator does there.

use crate::rig::{COMPUTE, HUB, Rig};
use fedgate_api::keys;
use fedgate_kinds::{ByMember, Kinds};
use fedgate_simulator::{Controllers, Definition, Plane, karmada::Cluster};
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::task::JoinSet;

/// The members that have planes: two of one city, one of another.
pub(super) const MEMBERS: [(&str, &str); 3] = [("dfw-1", "DFW"), ("dfw-2", "DFW"), ("lhr-1", "LHR")];
pub(super) const CLUSTER: &str = "Cluster.cluster.karmada.io";
/// What a member's operator holds its object with.
const DRAIN: &str = "example.fedgate.dev/drain";
/// The size of a vault that another controller of the member deletes, as one does of which a lease has expired.
pub(super) const EXPIRED: u32 = 13;
/// The size of one that such a controller deletes without its operator's leave, so that it is gone at once.
pub(super) const LAPSED: u32 = 14;
/// How long such a controller lets a vault be; long enough for Karmada to stop when it is told to.
const LAPSES_AFTER: Duration = Duration::from_secs(15);
/// How long the operator takes to let an object go.
const DRAINS_FOR: Duration = Duration::from_secs(3);

/// The definitions of vaults and of what goes with them.
static DEFINITIONS: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(|| {
    let files = [
        include_str!("../../kinds/vault-crd.yaml"),
        include_str!("../../kinds/seal-crd.yaml"),
        include_str!("../../kinds/charter-crd.yaml"),
    ];
    let parse = |text: &str| {
        let crd: Value = serde_saphyr::from_str(text).unwrap();
        Arc::new(Definition::parse(&crd))
    };
    files.map(parse).into()
});

/// Planes, members, and operators at the members that act until this is dropped.
pub(super) struct Scene {
    pub(super) rig: Rig,
    _operators: JoinSet<()>,
}

impl Scene {
    /// Planes of these projects, without a gateway.
    pub(super) fn new(seed: u64, projects: &[&str]) -> Self {
        Self::with(seed, projects, ByMember::Restored)
    }

    /// Planes on which the kind `Vault` has this `byMember`.
    pub(super) fn with(seed: u64, projects: &[&str], by_member: ByMember) -> Self {
        let mut rig = Rig::unhurried(seed, projects);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kinds");
        let mut kinds = Kinds::load_dir(&folder).unwrap().federated;
        kinds.retain(|kind| kind.resource.kind == "Vault");
        kinds[0].deletion.by_member = by_member;
        rig.kinds.extend(kinds);
        for plane in rig.projects.values().chain([&rig.hub]) {
            plane.define_all(&DEFINITIONS);
        }
        let own =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": keys::SYSTEM_NAMESPACE}});
        // One that is there already will do.
        let _ = rig.hub.create(own);
        rig.karmada.aggregate("Vault");
        let mut operators = JoinSet::new();
        for (name, city) in MEMBERS {
            let plane = rig.simulator.add(name);
            plane.define_all(&COMPUTE);
            plane.define_all(&DEFINITIONS);
            plane.controllers(Controllers::Within(Duration::from_secs(2)));
            rig.karmada.join(&Cluster::new(name, keys::CITY_CODE, city));
            rig.karmada.member(name, &plane);
            operators.spawn(operate(plane));
        }
        Self {
            rig,
            _operators: operators,
        }
    }
}

/// All planes but those of Karmada's members.
pub(super) fn upper(rig: &Rig) -> Vec<(String, Plane)> {
    let mut planes = vec![(HUB.to_owned(), rig.hub.clone())];
    planes.extend(
        rig.projects
            .iter()
            .map(|(name, plane)| (name.clone(), plane.clone())),
    );
    planes
}

/// The operator makes the vault the owner of its seal, which then goes with it.
fn adopt(member: &Plane, vault: &Value) {
    let text = |key: &str| vault["metadata"][key].as_str().unwrap_or_default();
    let (namespace, seal) = (
        text("namespace"),
        vault["spec"]["sealName"].as_str().unwrap_or_default(),
    );
    let owner = json!([{"apiVersion": vault["apiVersion"], "kind": "Vault", "name": text("name"), "uid": text("uid")}]);
    let is_adopted = |seal: &Value| seal["metadata"]["ownerReferences"] == owner;
    if member
        .get("Seal", namespace, seal)
        .is_some_and(|seal| !is_adopted(&seal))
    {
        let _ = member.merge(
            "Seal",
            namespace,
            seal,
            json!({"metadata": {"ownerReferences": owner}}),
        );
    }
}

/// The member's operator: it holds each object, says that it is ready, and lets it go a while after it was deleted.
async fn operate(member: Plane) {
    let mut changed = member.changed();
    loop {
        let (mut ends, mut lapsed) = (false, Vec::new());
        for vault in member.list("Vault") {
            let text = |key: &str| vault["metadata"][key].as_str().unwrap_or_default();
            let (namespace, name) = (text("namespace"), text("name"));
            let finalizers = |of: Value| json!({"metadata": {"finalizers": of}});
            let is_held = vault["metadata"]["finalizers"][0] == DRAIN;
            // What is gone meanwhile needs nothing.
            if !vault["metadata"]["deletionTimestamp"].is_null() {
                ends = true;
                continue;
            }
            adopt(&member, &vault);
            if vault["spec"]["size"] == LAPSED {
                lapsed.push((namespace.to_owned(), name.to_owned()));
            } else if !is_held {
                let _ = member.merge("Vault", namespace, name, finalizers(json!([DRAIN])));
            } else if vault["status"]["ready"] != vault["spec"]["size"] {
                let status = json!({"phase": "Ready", "ready": vault["spec"]["size"]});
                let _ = member.merge_status("Vault", namespace, name, json!({"status": status}));
            } else if vault["spec"]["size"] == EXPIRED {
                let _ = member.delete("Vault", namespace, name);
            }
        }
        if ends {
            tokio::time::sleep(DRAINS_FOR).await;
            for vault in member.list("Vault") {
                if !vault["metadata"]["deletionTimestamp"].is_null() {
                    let text = |key: &str| vault["metadata"][key].as_str().unwrap_or_default();
                    let free = json!({"metadata": {"finalizers": null}});
                    let _ = member.merge("Vault", text("namespace"), text("name"), free);
                }
            }
        } else if !lapsed.is_empty() {
            tokio::time::sleep(LAPSES_AFTER).await;
            for (namespace, name) in lapsed {
                let free = json!({"metadata": {"finalizers": null}});
                let _ = member.merge("Vault", &namespace, &name, free);
                let _ = member.delete("Vault", &namespace, &name);
            }
        } else if changed.changed().await.is_err() {
            return;
        }
    }
}
