//! The story: apply, run, scale down, move, delete, and nothing is left.

use super::{
    cell::Cell,
    inventory,
    journal::{Followed, Journal, Seen},
    kinds::{
        BINDING, CLUSTER_BINDING, CLUSTER_POLICY, CONFIG_MAP, DEPLOYMENT, INSTANCE, Kind, NAMESPACE, POLICY,
        SECRET, WORKLOAD,
    },
    table,
};
use crate::sandbox::{CellSpec, PlaneRole, Progress, Sandbox, SandboxError, User, apply::Objects};
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

const PROJECT: &str = "alpha";
/// The tenant's namespace: one of its own, so that its end can be shown too.
const NAMESPACE_NAME: &str = "shop";
const EXAMPLE: &str = include_str!("../../../examples/storefront.yaml");
const LONE: &str = include_str!("../../../examples/kiosk.yaml");
const NAME: &str = "storefront";
const LONE_NAME: &str = "kiosk";
const OF_PROJECT: &[&Kind] = &[&WORKLOAD, &DEPLOYMENT, &INSTANCE];
const OF_HUB: &[&Kind] = &[
    &NAMESPACE,
    &CLUSTER_POLICY,
    &POLICY,
    &CONFIG_MAP,
    &SECRET,
    &DEPLOYMENT,
    &BINDING,
    &CLUSTER_BINDING,
    &INSTANCE,
];
const OF_CELL: &[&Kind] = &[&NAMESPACE, &CONFIG_MAP, &SECRET, &DEPLOYMENT, &INSTANCE];

/// Ten times what two busy cores need: a new kind takes real Karmada six seconds.
const SOON: Duration = Duration::from_mins(1);
/// Deletions wait for Karmada, garbage collectors and the gateway's own times.
const LATER: Duration = Duration::from_mins(2);
const LOOK_AGAIN: Duration = Duration::from_millis(250);
const TRACES_GONE_WITHIN: Duration = Duration::from_secs(30);

/// Who takes part.
pub(super) struct Story<'a> {
    sandbox: &'a Sandbox,
    cells: &'a [CellSpec],
    out: &'a Progress,
    project: Client,
}

impl<'a> Story<'a> {
    pub(super) fn new(
        sandbox: &'a Sandbox,
        cells: &'a [CellSpec],
        out: &'a Progress,
    ) -> Result<Self, SandboxError> {
        let project = sandbox.client(PROJECT, User::Admin)?;
        Ok(Self {
            sandbox,
            cells,
            out,
            project,
        })
    }

    /// Tells it from the beginning; `before` is what the planes held then, and must hold in the end.
    pub(super) async fn tell(&self, before: &BTreeSet<String>) -> Result<(), SandboxError> {
        let hub_namespace = self.make_namespace().await?;
        let journal = self.follow(&hub_namespace).await?;
        let cells = self.cells(&hub_namespace)?;
        let (dfw, lhr) = (cell(&cells, "DFW")?, cell(&cells, "LHR")?);

        journal.step(&format!(
            "A tenant applies examples/storefront.yaml to project {PROJECT}, namespace {NAMESPACE_NAME}"
        ));
        self.out.say(&format!(
            "(on the hub and at the cells its namespace is {hub_namespace})"
        ));
        self.apply(EXAMPLE).await?;
        let us = delivered(&journal, dfw, "us", 2).await?;
        let eu = delivered(&journal, lhr, "eu", 1).await?;

        journal.step("Both cells run their Instances (played here) and report");
        for (cell, deployment, count) in [(dfw, &us, 2), (lhr, &eu, 1)] {
            start(cell, deployment, 0..count).await?;
        }
        self.ready_in_project(&journal, &[(&us, 2), (&eu, 1)]).await?;
        self.show(&[&WORKLOAD, &DEPLOYMENT, &INSTANCE]).await?;

        journal.step("The tenant scales placement us from 2 to 1");
        self.place(&[("us", "DFW", 1), ("eu", "LHR", 1)]).await?;
        let us = delivered(&journal, dfw, "us", 1).await?;
        dfw.stop(name(&us), 1).await?;
        dfw.report(name(&us), 1).await?;
        self.ready_in_project(&journal, &[(&us, 1), (&eu, 1)]).await?;
        self.show(&[&INSTANCE]).await?;

        journal.step("The tenant moves placement eu from LHR to DFW");
        self.place(&[("us", "DFW", 1), ("eu", "DFW", 1)]).await?;
        let moved = delivered(&journal, dfw, "eu", 1).await?;
        start(dfw, &moved, 0..1).await?;
        self.ready_in_project(&journal, &[(&us, 1), (&moved, 1)]).await?;
        journal
            .until("cell lhr-1 has nothing of the tenant any more", LATER, |seen| {
                OF_CELL
                    .iter()
                    .all(|kind| seen.of(&lhr.name, kind).next().is_none())
            })
            .await?;
        self.show(&[&DEPLOYMENT, &INSTANCE]).await?;

        self.move_while_it_lives(&journal, dfw, lhr).await?;
        self.delete(&journal, before).await
    }

    /// A deployment that no Workload owns changes its city: one patch on the hub.
    async fn move_while_it_lives(
        &self,
        journal: &Journal,
        from: &Cell,
        to: &Cell,
    ) -> Result<(), SandboxError> {
        journal.step("The tenant applies examples/kiosk.yaml, a deployment without a Workload, in DFW");
        self.apply(LONE).await?;
        journal
            .until("kiosk is at the cell in DFW", SOON, |seen| {
                seen.get(&from.name, &DEPLOYMENT, LONE_NAME).is_some()
            })
            .await?;
        journal.step("The tenant changes its cityCode to LHR: it moves, with one patch on the hub");
        self.patch(&DEPLOYMENT, LONE_NAME, json!({"spec": {"cityCode": to.city}}))
            .await?;
        journal
            .until(
                "kiosk is at the cell in LHR and no longer in DFW",
                LATER,
                |seen| {
                    seen.get(&to.name, &DEPLOYMENT, LONE_NAME).is_some()
                        && seen.get(&from.name, &DEPLOYMENT, LONE_NAME).is_none()
                },
            )
            .await
    }

    async fn delete(&self, journal: &Journal, before: &BTreeSet<String>) -> Result<(), SandboxError> {
        journal.step("The tenant deletes everything, and the namespace");
        for (kind, name) in [(&WORKLOAD, NAME), (&DEPLOYMENT, LONE_NAME)] {
            self.remove(kind, name).await?;
        }
        journal
            .until(
                "the project has no Workload, deployment and Instance",
                LATER,
                |seen| {
                    OF_PROJECT
                        .iter()
                        .all(|kind| seen.of(PROJECT, kind).next().is_none())
                },
            )
            .await?;
        self.remove(&NAMESPACE, NAMESPACE_NAME).await?;
        journal
            .until(
                "hub and cells hold nothing of the tenant",
                LATER,
                Seen::as_at_first,
            )
            .await?;

        journal.step("Is anything left? Every object of every kind on every plane is compared");
        let left = self.left(before).await?;
        if left.is_empty() {
            let planes = self.sandbox.planes.len();
            journal.say(&format!(
                "nothing: the {planes} planes hold the same {} objects as before",
                before.len()
            ));
            return Ok(());
        }
        let list: Vec<String> = left.into_iter().collect();
        Err(SandboxError::Demo(format!("left behind:\n{}", list.join("\n"))))
    }

    /// What is there beyond `before`, once what is about to end has ended: Works, say, which outlive their binding
    /// by a moment.
    async fn left(&self, before: &BTreeSet<String>) -> Result<BTreeSet<String>, SandboxError> {
        let started = Instant::now();
        loop {
            let now = inventory::take(self.sandbox).await?;
            let left: BTreeSet<String> = now.difference(before).cloned().collect();
            if left.is_empty() || started.elapsed() > TRACES_GONE_WITHIN {
                return Ok(left);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// The tenant's namespace; answers the hub namespace that belongs to it.
    async fn make_namespace(&self) -> Result<String, SandboxError> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE_NAME}});
        let namespace = serde_json::from_value(namespace)
            .map_err(|e| SandboxError::Demo(format!("the namespace is no object: {e}")))?;
        let made = NAMESPACE
            .api(self.project.clone(), "")
            .create(&PostParams::default(), &namespace)
            .await
            .map_err(SandboxError::api(
                PROJECT,
                format!("create Namespace {NAMESPACE_NAME}"),
            ))?;
        Ok(format!("ns-{}", made.metadata.uid.unwrap_or_default()))
    }

    async fn follow(&self, hub_namespace: &str) -> Result<Journal, SandboxError> {
        let mut followed = Vec::new();
        for plane in &self.sandbox.planes {
            let (namespace, kinds) = match plane.role {
                PlaneRole::Hub => (hub_namespace, OF_HUB),
                PlaneRole::Cell => (hub_namespace, OF_CELL),
                PlaneRole::Project if plane.name == PROJECT => (NAMESPACE_NAME, OF_PROJECT),
                PlaneRole::Project => continue,
            };
            followed.push(Followed {
                plane: &plane.name,
                role: plane.role,
                client: self.sandbox.client(&plane.name, User::Admin)?,
                namespace,
                kinds,
            });
        }
        Journal::start(&followed, self.out.clone()).await
    }

    fn cells(&self, namespace: &str) -> Result<Vec<Cell>, SandboxError> {
        self.cells
            .iter()
            .map(|spec| {
                Ok(Cell {
                    local: self.sandbox.client(&spec.name, User::Admin)?,
                    hub: self.sandbox.client("hub", User::Cell(&spec.name))?,
                    name: spec.name.clone(),
                    city: spec.city.clone(),
                    namespace: namespace.to_owned(),
                })
            })
            .collect()
    }

    async fn apply(&self, yaml: &str) -> Result<(), SandboxError> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .map_err(|e| SandboxError::Demo(format!("the example is no YAML: {e}")))?;
        let mut objects = Objects::default();
        for mut document in documents.into_iter().filter(|document| !document.is_null()) {
            document["metadata"]["namespace"] = json!(NAMESPACE_NAME);
            objects.add("example", document)?;
        }
        objects.apply(PROJECT, &self.project, &self.sandbox.logs()).await
    }

    /// Sets the Workload's placements: name, city, count.
    async fn place(&self, placements: &[(&str, &str, i64)]) -> Result<(), SandboxError> {
        let placements: Vec<Value> = placements
            .iter()
            .map(|(name, city, count)| {
                json!({"name": name, "cityCodes": [city], "scaleSettings": {"minReplicas": count}})
            })
            .collect();
        self.patch(&WORKLOAD, NAME, json!({"spec": {"placements": placements}}))
            .await
    }

    async fn patch(&self, kind: &Kind, name: &str, patch: Value) -> Result<(), SandboxError> {
        kind.api(self.project.clone(), NAMESPACE_NAME)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map(|_| ())
            .map_err(SandboxError::api(PROJECT, format!("patch {} {name}", kind.kind)))
    }

    async fn remove(&self, kind: &Kind, name: &str) -> Result<(), SandboxError> {
        kind.api(self.project.clone(), NAMESPACE_NAME)
            .delete(name, &DeleteParams::background())
            .await
            .map(|_| ())
            .map_err(SandboxError::api(PROJECT, format!("delete {} {name}", kind.kind)))
    }

    /// Waits until the project shows exactly these deployments' Instances, all of them ready, and the Workload
    /// counts them.
    async fn ready_in_project(
        &self,
        journal: &Journal,
        wanted: &[(&Value, u64)],
    ) -> Result<(), SandboxError> {
        let names: BTreeSet<String> = wanted
            .iter()
            .flat_map(|(deployment, count)| {
                (0..*count).map(|ordinal| format!("{}-{ordinal}", name(deployment)))
            })
            .collect();
        let sum = wanted.iter().map(|(_, count)| count).sum::<u64>();
        let what = format!(
            "project {PROJECT} has these Instances and no others, all ready, and the Workload counts them: {}",
            names.iter().cloned().collect::<Vec<_>>().join(", ")
        );
        journal
            .until(&what, LATER, |seen| {
                let shown: BTreeSet<&str> = seen.of(PROJECT, &INSTANCE).map(name).collect();
                let counted = seen
                    .get(PROJECT, &WORKLOAD, NAME)
                    .and_then(|workload| workload["status"]["readyReplicas"].as_u64());
                shown == names.iter().map(String::as_str).collect()
                    && seen.of(PROJECT, &INSTANCE).all(is_ready)
                    && counted == Some(sum)
            })
            .await
    }

    async fn show(&self, kinds: &[&Kind]) -> Result<(), SandboxError> {
        for kind in kinds {
            let text = table::get(&self.project, PROJECT, kind, NAMESPACE_NAME).await?;
            self.out.say(&format!("\n{}", text.trim_end()));
        }
        Ok(())
    }
}

/// Waits until the deployment of the placement is at the cell with that count and all that it references, and the
/// deployment is told so; answers it as the cell has it.
async fn delivered(
    journal: &Journal,
    cell: &Cell,
    placement: &str,
    count: i64,
) -> Result<Value, SandboxError> {
    let what = format!(
        "cell {} has the deployment of placement {placement} for {count}, its ConfigMap and its Secret",
        cell.name
    );
    journal
        .find(&what, SOON, |seen| {
            let found = seen.of(&cell.name, &DEPLOYMENT).find(|deployment| {
                deployment["spec"]["placementName"] == placement
                    && deployment["spec"]["scaleSettings"]["minReplicas"] == count
            })?;
            let complete = [&CONFIG_MAP, &SECRET]
                .iter()
                .all(|kind| seen.of(&cell.name, kind).next().is_some());
            complete.then(|| found.clone())
        })
        .await
}

/// Starts Instances, lets them run and reports them.
async fn start(cell: &Cell, deployment: &Value, ordinals: std::ops::Range<i64>) -> Result<(), SandboxError> {
    let count = ordinals.end;
    for ordinal in ordinals {
        cell.start(deployment, ordinal).await?;
        cell.run(name(deployment), ordinal).await?;
    }
    cell.report(name(deployment), count).await
}

fn cell<'a>(cells: &'a [Cell], city: &str) -> Result<&'a Cell, SandboxError> {
    cells
        .iter()
        .find(|cell| cell.city == city)
        .ok_or_else(|| SandboxError::Demo(format!("the sandbox has no cell in {city}")))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_ready(instance: &Value) -> bool {
    let conditions = instance["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
