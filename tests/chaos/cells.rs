//! The cells' own program, played by level: each pass reads everything and does what is missing (federation.md §6).

use crate::{
    rng::Rng,
    support::{
        Cell,
        cell::{running, waiting},
        kinds::{DEPLOYMENT, INSTANCE, Kind, NAMESPACE},
        label,
        plane::Plane,
        seconds, uid,
    },
};
use fedgate_api::keys;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

const PAUSE: Duration = Duration::from_millis(400);
/// A pass that hangs, because a plane does, is begun anew.
const PASS: Duration = seconds(30);

/// Objects by namespace and name.
type Objects = BTreeMap<(String, String), Value>;

/// What one pass works on.
struct Seen {
    deployments: Objects,
    instances: Objects,
    namespaces: Objects,
    copies: Objects,
    written: Objects,
}

/// One cell at work.
pub(crate) struct Program {
    cell: Cell,
    rng: Rng,
    /// How often what was done.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// The last thing that went wrong.
    pub(crate) trouble: String,
}

fn key(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (
        text(&object["metadata"]["namespace"]),
        text(&object["metadata"]["name"]),
    )
}

fn leaves(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn owner(object: &Value) -> &Value {
    &object["metadata"]["ownerReferences"][0]["uid"]
}

async fn all(plane: &Plane, kind: &Kind) -> kube::Result<Objects> {
    let list = plane.api(kind, "").list(&ListParams::default()).await?;
    let objects = list
        .items
        .iter()
        .filter_map(|object| serde_json::to_value(object).ok());
    Ok(objects.map(|object| (key(&object), object)).collect())
}

async fn status(plane: &Plane, kind: &Kind, at: &(String, String), status: &Value) -> kube::Result<()> {
    let patch = Patch::Merge(json!({"status": status}));
    let api = plane.api(kind, &at.0);
    api.patch_status(&at.1, &PatchParams::default(), &patch)
        .await
        .map(drop)
}

impl Program {
    pub(crate) fn new(cell: Cell, rng: Rng) -> Self {
        Self {
            cell,
            rng,
            counts: BTreeMap::new(),
            trouble: String::new(),
        }
    }

    /// Works until `stop`; as long as `lively`, its Instances also change and go by themselves.
    pub(crate) async fn run(mut self, lively: watch::Receiver<bool>, stop: watch::Receiver<bool>) -> Self {
        while !*stop.borrow() {
            let by_themselves = *lively.borrow();
            match timeout(PASS, self.pass(by_themselves)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.trouble = error.to_string(),
                Err(_) => "a pass hung".clone_into(&mut self.trouble),
            }
            sleep(PAUSE).await;
        }
        self
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn note<T>(&mut self, answer: kube::Result<T>, what: &'static str) {
        match answer {
            Ok(_) => self.count(what),
            // The next pass sees what has become of it.
            Err(error) => self.trouble = format!("{what}: {error}"),
        }
    }

    async fn pass(&mut self, lively: bool) -> kube::Result<()> {
        let (local, hub) = (self.cell.plane.clone(), self.cell.hub.clone());
        let (deployments, instances) = tokio::try_join!(all(&local, &DEPLOYMENT), all(&local, &INSTANCE))?;
        let seen = Seen {
            deployments,
            instances,
            namespaces: BTreeMap::new(),
            copies: BTreeMap::new(),
            written: BTreeMap::new(),
        };
        self.local(&seen, lively).await;
        // The hub's state is read after the cell's: what the cell has lost must not be written back.
        let (namespaces, copies, written) = tokio::try_join!(
            all(&hub, &NAMESPACE),
            all(&hub, &DEPLOYMENT),
            all(&hub, &INSTANCE)
        )?;
        let instances = all(&local, &INSTANCE).await?;
        let seen = Seen {
            instances,
            namespaces,
            copies,
            written,
            ..seen
        };
        self.write_back(&seen).await;
        self.withdraw(&seen).await;
        Ok(())
    }

    // -- at the cell -------------------------------------------------------------------------------------------

    async fn local(&mut self, seen: &Seen, lively: bool) {
        for (at, deployment) in seen.deployments.iter().filter(|(_, d)| !leaves(d)) {
            let scale = deployment["spec"]["scaleSettings"]["minReplicas"]
                .as_u64()
                .unwrap_or(0);
            let own: Vec<&Value> = seen
                .instances
                .values()
                .filter(|i| owner(i) == &deployment["metadata"]["uid"] && !leaves(i))
                .collect();
            let mut ready = 0;
            for ordinal in 0..u32::try_from(scale).unwrap_or(0) {
                let name = format!("{}-{ordinal}", at.1);
                match own.iter().find(|i| i["metadata"]["name"] == *name) {
                    Some(instance) => ready += self.keep(deployment, instance, lively).await,
                    None if seen.instances.contains_key(&(at.0.clone(), name)) => {}
                    None => self.make(deployment, &at.0, ordinal).await,
                }
            }
            for instance in &own {
                let ordinal = label(instance, keys::INSTANCE_INDEX).and_then(|text| text.parse::<u64>().ok());
                if ordinal.is_none_or(|ordinal| ordinal >= scale) {
                    self.drop_instance(instance, "surplus Instance deleted").await;
                }
            }
            self.report(at, deployment, ready, scale).await;
        }
    }

    async fn make(&mut self, deployment: &Value, ns: &str, ordinal: u32) {
        let (plane, instance) = (
            self.cell.plane.clone(),
            self.cell.instance_of(deployment, ordinal),
        );
        let made = plane.try_create(&INSTANCE, ns, instance).await;
        if let Ok(made) = &made {
            let _ = status(&plane, &INSTANCE, &key(made), &waiting()).await;
        }
        self.note(made, "Instance created");
    }

    /// An Instance that is wanted: it rolls with its template, becomes ready, and now and then fails. Answers 1 if it is
    /// ready.
    async fn keep(&mut self, deployment: &Value, instance: &Value, lively: bool) -> u32 {
        let plane = self.cell.plane.clone();
        let mut spec = deployment["spec"]["template"]["spec"].clone();
        spec["controller"] = instance["spec"]["controller"].clone();
        if spec != instance["spec"] {
            self.drop_instance(instance, "Instance rolled").await;
            return 0;
        }
        let ready = instance["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"));
        let at = key(instance);
        if !ready && self.rng.chance(50) {
            let gates = json!({"spec": {"controller": {"schedulingGates": null}}});
            let opened = plane.try_merge(&INSTANCE, &at.0, &at.1, &gates).await;
            self.note(opened, "Instance's gate opened");
            let told = status(&plane, &INSTANCE, &at, &running()).await;
            self.note(told, "Instance ready");
        } else if ready && lively && self.rng.chance(3) {
            let told = status(&plane, &INSTANCE, &at, &waiting()).await;
            self.note(told, "Instance failed");
        } else if lively && self.rng.chance(2) {
            self.drop_instance(instance, "Instance lost").await;
        }
        u32::from(ready)
    }

    async fn drop_instance(&mut self, instance: &Value, why: &'static str) {
        let (plane, at) = (self.cell.plane.clone(), key(instance));
        let gone = plane
            .try_delete(&INSTANCE, &at.0, &at.1, Some(uid(instance)))
            .await;
        self.note(gone, why);
    }

    async fn report(&mut self, at: &(String, String), deployment: &Value, ready: u32, scale: u64) {
        let report = self
            .cell
            .status_of(deployment, ready, u32::try_from(scale).unwrap_or(0));
        if report != deployment["status"] {
            let plane = self.cell.plane.clone();
            let told = status(&plane, &DEPLOYMENT, at, &report).await;
            self.note(told, "status reported");
        }
    }

    // -- on the hub --------------------------------------------------------------------------------------------

    async fn write_back(&mut self, seen: &Seen) {
        for (at, instance) in seen.instances.iter().filter(|(_, i)| !leaves(i)) {
            let deployment = label(instance, keys::WORKLOAD_DEPLOYMENT_NAME).unwrap_or_default();
            let copy = seen.copies.get(&(at.0.clone(), deployment.to_owned()));
            let Some(copy) = copy.filter(|c| !leaves(c)) else {
                continue;
            };
            if label(copy, keys::CITY_CODE) != Some(self.cell.city.as_str()) {
                continue;
            }
            let Some(namespace) = seen.namespaces.get(&(String::new(), at.0.clone())) else {
                continue;
            };
            let object = self.cell.write_back_of(instance, namespace, copy);
            match seen.written.get(at) {
                None => self.publish(at, object, &instance["status"]).await,
                Some(found) => self.bring_up(at, found, &object, instance, copy).await,
            }
        }
    }

    async fn publish(&mut self, at: &(String, String), object: Value, said: &Value) {
        let hub = self.cell.hub.clone();
        let made = hub.try_create(&INSTANCE, &at.0, object).await;
        if made.is_ok() && !said.is_null() {
            let _ = status(&hub, &INSTANCE, at, said).await;
        }
        self.note(made, "write-back created");
    }

    async fn bring_up(
        &mut self,
        at: &(String, String),
        found: &Value,
        object: &Value,
        instance: &Value,
        copy: &Value,
    ) {
        if leaves(found) {
            return;
        }
        let hub = self.cell.hub.clone();
        let mine = label(found, keys::CELL) == Some(self.cell.name.as_str());
        let same = found["metadata"]["annotations"] == object["metadata"]["annotations"]
            && owner(found) == &copy["metadata"]["uid"];
        let moved = label(found, keys::INSTANCE_CITY_CODE) != label(copy, keys::CITY_CODE);
        if (mine && !same) || (!mine && moved) {
            let gone = hub.try_delete(&INSTANCE, &at.0, &at.1, Some(uid(found))).await;
            self.note(gone, "write-back replaced");
            return;
        }
        if !mine {
            return;
        }
        if found["spec"] != object["spec"] || found["metadata"]["labels"] != object["metadata"]["labels"] {
            // A merge patch would keep a gate that has gone.
            let mut patch =
                json!({"metadata": {"labels": object["metadata"]["labels"]}, "spec": object["spec"]});
            if object["spec"]["controller"]["schedulingGates"].is_null() {
                patch["spec"]["controller"]["schedulingGates"] = Value::Null;
            }
            let changed = hub.try_merge(&INSTANCE, &at.0, &at.1, &patch).await;
            self.note(changed, "write-back changed");
        }
        if found["status"] != instance["status"] && !instance["status"].is_null() {
            let told = status(&hub, &INSTANCE, at, &instance["status"]).await;
            self.note(told, "write-back's status changed");
        }
    }

    /// Takes back what this cell wrote for Instances that it no longer has.
    async fn withdraw(&mut self, seen: &Seen) {
        let hub = self.cell.hub.clone();
        for (at, found) in seen.written.iter().filter(|(_, found)| !leaves(found)) {
            let mine = label(found, keys::CELL) == Some(self.cell.name.as_str());
            let has = seen.instances.get(at).is_some_and(|i| {
                found["metadata"]["annotations"][keys::INSTANCE_UID] == i["metadata"]["uid"]
            });
            if mine && !has {
                let gone = hub.try_delete(&INSTANCE, &at.0, &at.1, Some(uid(found))).await;
                self.note(gone, "write-back deleted");
            }
        }
    }
}
