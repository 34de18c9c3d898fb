//! P6: the gateway's requests for each action of the contract's table (federation.md §4), counted by the API servers.

use super::{
    audit::Audit,
    gateway::{Gateway, LINGER},
    latency::settle,
    objects::{Kind, binding_name, deployment, instance_status, report, write_back},
    plane::{exists, gone, has, text},
    report::Figure,
    rig::{Home, Program, Rig},
};
use anyhow::Result;
use fedgate_api::keys;
use serde_json::{Value, json};
use std::{future::Future, time::Duration};

/// Longer than the gateway waits before it returns a status again.
const QUIET: Duration = Duration::from_millis(800);
/// Longer than it waits before it says alone that a deployment is or is not delivered.
const LONG: Duration = Duration::from_secs(7);
/// At rest.
const IDLE: Duration = Duration::from_secs(15);

/// Counts row by row.
pub(crate) struct Budget<'a> {
    rig: &'a Rig,
    audit: Audit,
    pub(crate) figures: Vec<Figure>,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(rig: &'a Rig) -> Self {
        Self {
            rig,
            audit: Audit::new(rig),
            figures: Vec::new(),
        }
    }

    /// Runs one action and compares the writes to projects and hub that follow with the table.
    async fn row(
        &mut self,
        what: &str,
        (project, hub): (usize, usize),
        quiet: Duration,
        action: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let mark = self.audit.mark();
        action.await?;
        self.audit.quiet(quiet).await?;
        let seen = self.audit.since(&mark)?;
        let holds = seen.project.len() == project && seen.hub.len() == hub;
        if !holds {
            eprintln!(
                "bench: P6 {what}: project {:?}, hub {:?}, gets {:?}",
                seen.project, seen.hub, seen.gets
            );
        }
        #[allow(clippy::cast_precision_loss)]
        self.figures.push(Figure {
            name: format!("P6 {what}"),
            detail: format!("project {} + hub {}", seen.project.len(), seen.hub.len()),
            value: (seen.project.len() + seen.hub.len()) as f64,
            unit: "writes",
            floor: None,
            ratio: None,
            bar: format!("= {} ({project} + {hub})", project + hub),
            holds,
        });
        Ok(())
    }

    /// The rows of deployments, cities, status and write-backs, in one new namespace.
    pub(crate) async fn deployments(&mut self) -> Result<()> {
        let rig = self.rig;
        for (name, cities) in [("sets-both", &["DFW", "LHR"][..]), ("sets-lhr", &["LHR"])] {
            let home = rig.home(Program::Gateway, 0, name).await?;
            for city in cities {
                let name = city.to_lowercase();
                create(&home, &name, city, None).await?;
                settle(&home, &name).await?;
            }
        }
        self.audit.quiet(LONG).await?;
        let home = rig.home(Program::Gateway, 0, "budget").await?;
        self.creations(&home).await?;
        self.changes(&home).await?;
        self.write_backs(&home).await?;
        self.by_hand(&home).await?;
        self.deletions(&home).await
    }

    async fn creations(&mut self, home: &Home<'_>) -> Result<()> {
        self.row(
            "first of a project namespace",
            (1, 3),
            QUIET,
            create(home, "a", "DFW", None),
        )
        .await?;
        settle(home, "a").await?;
        self.audit.quiet(QUIET).await?;
        self.row(
            "deployment created, city known",
            (1, 1),
            QUIET,
            create(home, "b", "DFW", None),
        )
        .await?;
        settle(home, "b").await?;
        self.audit.quiet(QUIET).await?;
        self.row(
            "first of a city in its namespace",
            (1, 3),
            QUIET,
            create(home, "c", "LHR", None),
        )
        .await?;
        settle(home, "c").await?;
        self.audit.quiet(LONG).await
    }

    async fn changes(&mut self, home: &Home<'_>) -> Result<()> {
        let patch = json!({"spec": {"scaleSettings": {"minReplicas": 2}}});
        self.row(
            "spec changed",
            (0, 1),
            QUIET,
            change(home, "b", patch, "/spec/scaleSettings/minReplicas"),
        )
        .await?;
        let patch = json!({"metadata": {"annotations": {keys::SUSPENDED: "true"}}});
        self.row("carried annotation changed", (0, 1), QUIET, async {
            home.project
                .merge(Kind::Deployment, &home.namespace, "b", &patch)
                .await
                .map(|_| ())
        })
        .await?;
        let (ns, hub_ns) = (home.namespace.as_str(), home.hub_namespace.as_str());
        self.row("copy's status changed", (1, 0), QUIET, async {
            let returned = home
                .project
                .deployment(ns, "b", has("/status/readyReplicas", json!(0)));
            home.hub.status(Kind::Deployment, hub_ns, "b", report(0)).await?;
            returned.seen().await.map(|_| ())
        })
        .await?;
        self.row(
            "city move, new city known, and its report",
            (1, 1),
            LONG,
            relocate(home, "b", "LHR", 1),
        )
        .await?;
        let action = relocate(home, "a", "LHR", 0);
        self.row(
            "city move, its report, and the old city left empty",
            (1, 3),
            LINGER + LONG,
            action,
        )
        .await?;
        let action = relocate(home, "a", "DFW", 1);
        self.row(
            "city move, new city not known, and its report",
            (1, 3),
            LONG,
            action,
        )
        .await
    }

    async fn deletions(&mut self, home: &Home<'_>) -> Result<()> {
        self.row("deployment deleted", (1, 1), QUIET, delete(home, "c"))
            .await?;
        self.row(
            "last of its city deleted, after the linger",
            (1, 3),
            LINGER + LONG,
            delete(home, "a"),
        )
        .await?;
        self.row(
            "last of its namespace deleted",
            (1, 2),
            LINGER + LONG,
            delete(home, "b"),
        )
        .await
    }

    async fn write_backs(&mut self, home: &Home<'_>) -> Result<()> {
        let (ns, hub_ns, name) = (home.namespace.as_str(), home.hub_namespace.as_str(), "a-0");
        self.row("write-back appears", (2, 0), QUIET, async {
            let copy = home.hub.get(Kind::Deployment, hub_ns, "a").await?;
            let object = write_back(&home.key, ns, "a", text(&copy, "/metadata/uid"), name);
            let projected = home.project.instance(ns, name, exists);
            home.hub.create(Kind::Instance, hub_ns, object).await?;
            home.hub
                .status(Kind::Instance, hub_ns, name, instance_status(false))
                .await?;
            projected.seen().await.map(|_| ())
        })
        .await?;
        self.row("status of a write-back changes", (1, 0), QUIET, async {
            home.hub
                .status(Kind::Instance, hub_ns, name, instance_status(true))
                .await
        })
        .await?;
        self.row("write-back goes", (1, 0), QUIET, async {
            let removed = home.project.instance(ns, name, gone);
            home.hub.delete(Kind::Instance, hub_ns, name).await?;
            removed.seen().await.map(|_| ())
        })
        .await
    }

    async fn by_hand(&mut self, home: &Home<'_>) -> Result<()> {
        let hub_ns = home.hub_namespace.as_str();
        let edit = json!({"spec": {"scaleSettings": {"minReplicas": 9}}});
        self.row("copy edited by hand", (0, 1), QUIET, async {
            home.hub
                .merge(Kind::Deployment, hub_ns, "a", &edit)
                .await
                .map(|_| ())
        })
        .await?;
        self.row("city policy deleted by hand", (0, 1), QUIET, async {
            home.hub.delete(Kind::Policy, hub_ns, "city-dfw").await
        })
        .await?;
        let noise = json!({"metadata": {"labels": {"note": "x"}, "annotations": {"note": "x"}}});
        self.row("changes that carry nothing", (0, 0), QUIET, async {
            home.project
                .merge(Kind::Deployment, &home.namespace, "a", &noise)
                .await?;
            home.hub.merge(Kind::Deployment, hub_ns, "a", &noise).await?;
            home.hub.merge(Kind::Namespace, "", hub_ns, &noise).await?;
            home.hub.merge(Kind::Policy, hub_ns, "city-lhr", &noise).await?;
            home.project
                .merge(Kind::Namespace, "", &home.namespace, &noise)
                .await?;
            Ok(())
        })
        .await
    }

    /// The rows of companions.
    pub(crate) async fn companions(&mut self) -> Result<()> {
        let home = self.rig.home(Program::Gateway, 0, "companions").await?;
        let ns = home.namespace.as_str();
        for name in ["first", "settings"] {
            let object = json!({"metadata": {"name": name}, "data": {"a": "1"}});
            home.project.create(Kind::ConfigMap, ns, object).await?;
        }
        // The first reference in a project makes the gateway watch ConfigMaps and Secrets there.
        create(&home, "warm", "DFW", Some("first")).await?;
        settle(&home, "warm").await?;
        self.audit.quiet(LONG).await?;
        let action = create(&home, "web", "DFW", Some("settings"));
        self.row(
            "deployment created with a companion and its verdict",
            (2, 2),
            QUIET,
            action,
        )
        .await?;
        settle(&home, "web").await?;
        self.audit.quiet(LONG).await?;
        self.row("companion changed", (0, 1), QUIET, async {
            let patch = json!({"data": {"a": "2"}});
            home.project
                .merge(Kind::ConfigMap, ns, "settings", &patch)
                .await
                .map(|_| ())
        })
        .await?;
        self.row(
            "deployment with a companion deleted",
            (1, 2),
            QUIET,
            delete(&home, "web"),
        )
        .await
    }

    /// Rest and restart: no writes, no gets. Answers the new gateway.
    pub(crate) async fn rest(&mut self, gateway: Gateway) -> Result<Gateway> {
        self.audit.quiet(LONG).await?;
        self.row("at rest for 15 s", (0, 0), IDLE, async { Ok(()) })
            .await?;
        gateway.stop().await?;
        let mark = self.audit.mark();
        let mut started = None;
        self.row("restart with everything in place", (0, 0), LONG, async {
            started = Some(self.rig.gateway(true).await?);
            Ok(())
        })
        .await?;
        let gets = self.audit.since(&mark)?.gets;
        if !gets.is_empty() {
            eprintln!("bench: P6 gets of the restart: {gets:?}");
        }
        #[allow(clippy::cast_precision_loss)]
        self.figures.push(Figure {
            name: "P6 gets of the restart".to_owned(),
            detail: String::new(),
            value: gets.len() as f64,
            unit: "gets",
            floor: None,
            ratio: None,
            bar: "= 0".to_owned(),
            holds: gets.is_empty(),
        });
        anyhow::Context::context(started, "the gateway was started")
    }
}

/// Creates a deployment and waits for its copy.
async fn create(home: &Home<'_>, name: &str, city: &str, config_map: Option<&str>) -> Result<()> {
    let copied = home.hub.deployment(&home.hub_namespace, name, exists);
    home.project
        .create(
            Kind::Deployment,
            &home.namespace,
            deployment(name, city, config_map),
        )
        .await?;
    copied.seen().await.map(|_| ())
}

/// Patches a deployment and waits until its copy has the same value at the path.
async fn change(home: &Home<'_>, name: &str, patch: Value, pointer: &'static str) -> Result<()> {
    let value = patch.pointer(pointer).cloned().unwrap_or_default();
    let copied = home
        .hub
        .deployment(&home.hub_namespace, name, has(pointer, value));
    home.project
        .merge(Kind::Deployment, &home.namespace, name, &patch)
        .await?;
    copied.seen().await.map(|_| ())
}

/// Moves a deployment to another city, whose cell then has `ready` instances: what `Federated` says of the new
/// generation rides with that report.
async fn relocate(home: &Home<'_>, name: &str, city: &str, ready: u32) -> Result<()> {
    change(home, name, json!({"spec": {"cityCode": city}}), "/spec/cityCode").await?;
    let returned = home
        .project
        .deployment(&home.namespace, name, has("/status/readyReplicas", json!(ready)));
    home.hub
        .status(Kind::Deployment, &home.hub_namespace, name, report(ready))
        .await?;
    returned.seen().await.map(|_| ())
}

/// Deletes a deployment, and its binding once the copy is gone, as Karmada would.
async fn delete(home: &Home<'_>, name: &str) -> Result<()> {
    let uncopied = home.hub.deployment(&home.hub_namespace, name, gone);
    let removed = home.project.deployment(&home.namespace, name, gone);
    home.project
        .delete(Kind::Deployment, &home.namespace, name)
        .await?;
    uncopied.seen().await?;
    home.hub
        .delete(Kind::Binding, &home.hub_namespace, &binding_name(name))
        .await?;
    removed.seen().await.map(|_| ())
}
