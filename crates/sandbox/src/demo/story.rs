//! The story: run, fail and be fixed, scale, restart, suspend, move, delete, and nothing is left.

use super::{
    hops::{self, Way},
    inventory,
    journal::{self, Followed, Journal, Seen},
    kinds::{
        BINDING, CLUSTER_BINDING, CLUSTER_POLICY, CONFIG_MAP, DEPLOYMENT, INSTANCE, Kind, NAMESPACE, POD,
        POLICY, SECRET, WORKLOAD,
    },
    state::{self, Wanted},
    tenant::{NAMESPACE_NAME, PROJECT, Tenant},
    typed,
    words::is_true,
};
use crate::{CellSpec, PlaneRole, Progress, Sandbox, SandboxError, User};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};
use tokio::process::Command;

const SETTINGS: &str = include_str!("../../../../examples/storefront-settings.yaml");
const EXAMPLE: &str = include_str!("../../../../examples/storefront.yaml");
const LONE: &str = include_str!("../../../../examples/kiosk.yaml");
/// The Workload of the first example, what it references, and its deployments by city.
const NAME: &str = "storefront";
const CONFIG_MAP_NAME: &str = "web-settings";
const SECRET_NAME: &str = "web-db";
const IN_DFW: &str = "storefront-us-dfw";
const IN_LHR: &str = "storefront-eu-lhr";
const MOVED: &str = "storefront-eu-dfw";
/// The deployment of the second example, and its Instance.
const LONE_NAME: &str = "kiosk";
const LONE_INSTANCE: &str = "kiosk-0";
/// Exit code of `kubectl compute` for a rollout that is blocked and for a trace with a broken link.
const BLOCKED: i32 = 9;
/// KWOK cannot pull what is called so.
const BAD_IMAGE: &str = "docker.io/library/nginx:broken";
/// The image of the first example.
const GOOD_IMAGE: &str = "docker.io/library/nginx:1.29";

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
const OF_CELL: &[&Kind] = &[&NAMESPACE, &CONFIG_MAP, &SECRET, &DEPLOYMENT, &INSTANCE, &POD];

/// Far more than two busy cores need: a new kind takes real Karmada six seconds, deletions wait for garbage collectors
/// and the gateway's own times.
const LONG_ENOUGH: Duration = Duration::from_mins(2);
const LOOK_AGAIN: Duration = Duration::from_millis(250);
const TRACES_GONE_WITHIN: Duration = Duration::from_secs(30);

/// Who takes part.
pub(super) struct Story<'a> {
    sandbox: &'a Sandbox,
    out: &'a Progress,
    /// URL of the gateway's administrative address.
    gateway: &'a str,
    tenant: Tenant,
    journal: Journal,
    dfw: &'a str,
    lhr: &'a str,
}

impl<'a> Story<'a> {
    /// Makes the tenant's namespace and starts to watch.
    pub(super) async fn begin(
        sandbox: &'a Sandbox,
        cells: &'a [CellSpec],
        gateway: &'a str,
        out: &'a Progress,
    ) -> Result<Self, SandboxError> {
        let (dfw, lhr) = (cell(cells, "DFW")?, cell(cells, "LHR")?);
        let tenant = Tenant::new(sandbox)?;
        let namespace = tenant.make_namespace().await?;
        let journal = follow(sandbox, &namespace, out).await?;
        out.say(&format!(
            "(namespace {NAMESPACE_NAME} of project {PROJECT} is {namespace} on the hub and at cells)\n\
             (told below: what the tenant sees, and the cells' Pods; every change on every plane: {})",
            journal::path(&sandbox.logs()).display()
        ));
        Ok(Self {
            sandbox,
            out,
            gateway,
            tenant,
            journal,
            dfw,
            lhr,
        })
    }

    /// Tells it to the end; `before` is what the planes held at first, and must hold then.
    pub(super) async fn tell(&self, before: &BTreeSet<String>) -> Result<(), SandboxError> {
        self.run().await?;
        self.break_and_fix().await?;
        self.scale().await?;
        self.restart().await?;
        self.suspend().await?;
        self.change_the_city_of_a_deployment().await?;
        self.change_the_city_of_a_placement().await?;
        self.look_as_operator().await?;
        self.delete(before).await
    }

    async fn run(&self) -> Result<(), SandboxError> {
        self.journal
            .step("1. A tenant deploys examples/storefront.yaml: two Instances in DFW, one in LHR");
        self.tenant.apply(SETTINGS).await?;
        let file = self.sandbox.logs().join("storefront.yaml");
        std::fs::write(&file, EXAMPLE).map_err(SandboxError::io("write", &file))?;
        self.compute(&format!("deploy -f {}", file.display()), 0).await?;
        self.until_it_runs(&[(IN_DFW, 2), (IN_LHR, 1)], |_| true).await?;
        let way = |cell, deployment, ordinal| Way {
            workload: NAME,
            config_map: CONFIG_MAP_NAME,
            secret: SECRET_NAME,
            cell,
            deployment,
            ordinal,
        };
        let ways = [
            way(self.dfw, IN_DFW, 0),
            way(self.dfw, IN_DFW, 1),
            way(self.lhr, IN_LHR, 0),
        ];
        let table = self.journal.read(|seen, since| hops::table(seen, since, &ways));
        self.out.say(&format!("\n{table}"));
        for line in [
            format!("status {NAME}"),
            format!("instances --workload {NAME}"),
            format!("trace {NAME}"),
        ] {
            self.compute(&line, 0).await?;
        }
        Ok(())
    }

    /// Types a line of `kubectl compute`, which ends with this exit code.
    async fn compute(&self, line: &str, code: i32) -> Result<(), SandboxError> {
        self.tenant.compute(line, code, self.out).await
    }

    async fn break_and_fix(&self) -> Result<(), SandboxError> {
        let journal = &self.journal;
        journal.step("2. The tenant deploys an image that nobody can pull; the command says what blocks it");
        let bad = format!("deploy {NAME} --image {BAD_IMAGE} --stall-timeout 3s");
        self.compute(&bad, BLOCKED).await?;
        let (second, only) = (format!("{IN_DFW}-1"), format!("{IN_LHR}-0"));
        let what =
            format!("{second}, {only} and deployment {IN_LHR} say ImageUnavailable in project {PROJECT}");
        journal
            .until(&what, LONG_ENOUGH, |seen| {
                let says = |name| state::instance_says(seen, name, "ImageUnavailable");
                says(&second) && says(&only) && state::deployment_says(seen, IN_LHR, "ImageUnavailable")
            })
            .await?;
        journal.say(&format!(
            "So it stays: {IN_DFW}-0 still serves, and is not replaced."
        ));
        self.compute(&format!("trace {NAME} --stuck-after 3s"), BLOCKED)
            .await?;

        journal.step("3. The tenant goes back to the revision before");
        self.compute(&format!("rollout history {NAME}"), 0).await?;
        self.compute(&format!("rollout undo {NAME} --yes"), 0).await?;
        self.until_it_runs(&[(IN_DFW, 2), (IN_LHR, 1)], |seen| {
            state::all_have(seen, GOOD_IMAGE)
        })
        .await
    }

    async fn scale(&self) -> Result<(), SandboxError> {
        for (chapter, count) in [
            ("4. The tenant scales placement us from 2 to 3", 3),
            ("then to 1", 1),
        ] {
            self.journal.step(chapter);
            self.compute(&format!("scale {NAME} --placement us --min {count}"), 0)
                .await?;
            self.until_it_runs(&[(IN_DFW, count), (IN_LHR, 1)], |seen| {
                state::pods_of(seen, self.dfw, IN_DFW) as u64 == count
            })
            .await?;
        }
        Ok(())
    }

    async fn restart(&self) -> Result<(), SandboxError> {
        self.journal
            .step("5. The tenant restarts it: each Instance is replaced");
        let cells = [self.dfw, self.lhr];
        let before = self.journal.read(|seen, _| state::lives(seen, &cells));
        self.compute(&format!("restart {NAME}"), 0).await?;
        self.until_it_runs(&[(IN_DFW, 1), (IN_LHR, 1)], |seen| {
            state::lives(seen, &cells).is_disjoint(&before)
        })
        .await
    }

    async fn suspend(&self) -> Result<(), SandboxError> {
        let journal = &self.journal;
        journal.step(&format!(
            "6. The tenant suspends {IN_DFW}, by annotation: its Pod goes, its Instance stays"
        ));
        let cells = [self.dfw, self.lhr];
        let before = journal.read(|seen, _| state::lives(seen, &cells));
        self.annotate(json!("true")).await?;
        let (instance, what) = (
            format!("{IN_DFW}-0"),
            format!("{IN_DFW} and its Instance say Suspended, without Pod"),
        );
        journal
            .until(&what, LONG_ENOUGH, |seen| {
                state::instance_says(seen, &instance, "Suspended")
                    && state::deployment_says(seen, IN_DFW, "Suspended")
                    && state::pods_of(seen, self.dfw, IN_DFW) == 0
            })
            .await?;
        journal.step("and resumes it: the same Instance has a new Pod");
        self.annotate(Value::Null).await?;
        self.until_it_runs(&[(IN_DFW, 1), (IN_LHR, 1)], |seen| {
            state::lives(seen, &cells) == before && state::pods_of(seen, self.dfw, IN_DFW) == 1
        })
        .await
    }

    async fn annotate(&self, suspended: Value) -> Result<(), SandboxError> {
        let patch = json!({"metadata": {"annotations": {keys::SUSPENDED: suspended}}});
        self.tenant.merge(&DEPLOYMENT, IN_DFW, patch).await
    }

    /// A deployment that no Workload owns changes its city: one patch on the hub.
    async fn change_the_city_of_a_deployment(&self) -> Result<(), SandboxError> {
        self.journal
            .step("7. The tenant applies examples/kiosk.yaml, a deployment without a Workload, in DFW");
        self.tenant.apply(LONE).await?;
        self.until_alone_at(self.dfw, self.lhr, "DFW").await?;
        self.journal
            .step("and changes its city to LHR: it moves, with one patch on the hub");
        self.tenant
            .merge(&DEPLOYMENT, LONE_NAME, json!({"spec": {"cityCode": "LHR"}}))
            .await?;
        self.until_alone_at(self.lhr, self.dfw, "LHR").await
    }

    /// Waits until the lone deployment runs in that city and has left the other cell.
    async fn until_alone_at(&self, cell: &str, other: &str, city: &str) -> Result<(), SandboxError> {
        let what = format!("{LONE_INSTANCE} is Ready in {city}, and cell {other} has nothing of it");
        self.journal
            .until(&what, LONG_ENOUGH, |seen| {
                let ready = seen
                    .get(PROJECT, &INSTANCE, LONE_INSTANCE)
                    .is_some_and(|instance| {
                        instance["metadata"]["labels"][keys::INSTANCE_CITY_CODE] == city
                            && is_true(instance, "Ready")
                    });
                ready
                    && state::pods_of(seen, cell, LONE_NAME) == 1
                    && seen.get(other, &DEPLOYMENT, LONE_NAME).is_none()
                    && seen.get(other, &INSTANCE, LONE_INSTANCE).is_none()
                    && state::pods_of(seen, other, LONE_NAME) == 0
            })
            .await
    }

    async fn change_the_city_of_a_placement(&self) -> Result<(), SandboxError> {
        self.journal
            .step("8. The tenant moves placement eu from LHR to DFW: a new deployment, and the old one goes");
        self.compute(&format!("deploy {NAME} --placement eu --city DFW --yes"), 0)
            .await?;
        self.until_it_runs(&[(IN_DFW, 1), (MOVED, 1)], |seen| {
            seen.get(self.lhr, &DEPLOYMENT, IN_LHR).is_none() && state::pods_of(seen, self.lhr, IN_LHR) == 0
        })
        .await?;
        self.show(&[&DEPLOYMENT, &INSTANCE]).await
    }

    /// The operator asks the gateway, which answers from memory.
    async fn look_as_operator(&self) -> Result<(), SandboxError> {
        self.journal
            .step("9. The operator looks: fedgate status, and the way of the Workload until it is whole");
        self.ask("status").await?;
        self.ask(&format!("trace {PROJECT} {NAMESPACE_NAME}/{NAME} --watch"))
            .await
    }

    /// Types a line of `fedgate` that asks the gateway, and ends with 0.
    async fn ask(&self, line: &str) -> Result<(), SandboxError> {
        let program = self.sandbox.launcher.holder.with_file_name("fedgate");
        let mut command = Command::new(program);
        command
            .args(line.split_whitespace())
            .args(["--server", self.gateway]);
        let typed = format!("fedgate {line}");
        let answered = typed::answer(&mut command, &typed, 0, self.out);
        let late = || SandboxError::Demo(format!("{typed}: no end within {} s", LONG_ENOUGH.as_secs()));
        tokio::time::timeout(LONG_ENOUGH, answered)
            .await
            .map_err(|_| late())?
    }

    async fn delete(&self, before: &BTreeSet<String>) -> Result<(), SandboxError> {
        let journal = &self.journal;
        journal.step("10. The tenant deletes everything, and the namespace");
        self.compute(&format!("destroy {NAME} --yes"), 0).await?;
        self.tenant.remove(&DEPLOYMENT, LONE_NAME).await?;
        self.tenant.remove(&NAMESPACE, NAMESPACE_NAME).await?;
        let what = "project alpha has no Workload, deployment and Instance";
        journal
            .until(what, LONG_ENOUGH, |seen| seen.as_at_first(PROJECT))
            .await?;
        journal.say(what);
        journal
            .until("no Pod is left", LONG_ENOUGH, |seen| {
                let cells = [self.dfw, self.lhr];
                cells.iter().all(|cell| seen.of(cell, &POD).next().is_none())
            })
            .await?;
        journal.say(
            "no Pod is left (Kubernetes takes five seconds for each end of a namespace, one after the other)",
        );
        let gone = |plane: &'a str| async move {
            let what = format!("plane {plane} holds nothing of the tenant");
            journal
                .until(&what, LONG_ENOUGH, |seen| seen.as_at_first(plane))
                .await?;
            journal.say(&what);
            Ok::<(), SandboxError>(())
        };
        futures::future::try_join3(gone(self.dfw), gone(self.lhr), gone("hub")).await?;

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

    /// Waits until the Workload has exactly these deployments' Instances, all of them ready, counts them, and `also`
    /// holds.
    async fn until_it_runs(
        &self,
        wanted: &[Wanted<'_>],
        also: impl Fn(&Seen) -> bool,
    ) -> Result<(), SandboxError> {
        let names: Vec<String> = state::instances(wanted).into_iter().collect();
        let what = format!(
            "Workload {NAME} has these Instances in project {PROJECT} as asked for, and no others, all ready, and counts \
             them: {}",
            names.join(", ")
        );
        self.journal
            .until(&what, LONG_ENOUGH, |seen| {
                state::runs(seen, NAME, wanted) && also(seen)
            })
            .await?;
        let count = names.len();
        self.journal
            .say(&format!("Workload {NAME} says {count} of {count} ready"));
        Ok(())
    }

    async fn show(&self, kinds: &[&Kind]) -> Result<(), SandboxError> {
        for kind in kinds {
            let text = self.tenant.table(kind).await?;
            self.out.say(&format!("\n{}", text.trim_end()));
        }
        Ok(())
    }
}

async fn follow(sandbox: &Sandbox, hub_namespace: &str, out: &Progress) -> Result<Journal, SandboxError> {
    let mut followed = Vec::new();
    for plane in &sandbox.planes {
        let (namespace, kinds) = match plane.role {
            PlaneRole::Hub => (hub_namespace, OF_HUB),
            PlaneRole::Cell => (hub_namespace, OF_CELL),
            PlaneRole::Project if plane.name == PROJECT => (NAMESPACE_NAME, OF_PROJECT),
            PlaneRole::Project | PlaneRole::Platform | PlaneRole::Activity => continue,
        };
        followed.push(Followed {
            plane: &plane.name,
            role: plane.role,
            client: sandbox.client(&plane.name, User::Admin)?,
            namespace,
            kinds,
        });
    }
    Journal::start(&followed, out.clone(), &journal::path(&sandbox.logs())).await
}

fn cell<'a>(cells: &'a [CellSpec], city: &str) -> Result<&'a str, SandboxError> {
    cells
        .iter()
        .find(|cell| cell.city == city)
        .map(|cell| cell.name.as_str())
        .ok_or_else(|| SandboxError::Demo(format!("the sandbox has no cell in {city}")))
}
