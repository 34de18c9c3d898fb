//! States that planes bring about which are slow or lose what they had, tenants who write without a pause, and little
//! memory.

use super::{desk::Desk, memory::Group, planted::COPY, shows::State, slow::Slow, usage};
use crate::support::{
    Wish,
    kinds::{DEPLOYMENT, INSTANCE, WORKLOAD},
    seconds, wait_for,
};
use fedgate_api::keys;
use futures::StreamExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;
use tokio::{sync::Mutex, task::JoinHandle};

/// Deployments that wait for a worker: more than the alert's 1,000, and those that a slow machine reconciles while it creates them
/// and runs the commands.
const WAITING: u64 = 1_600;
/// More write-backs than a hub may lose at once.
const LOST: u64 = 12;
/// The label of the deployments that wait.
const HEAP: (&str, &str) = ("fedgate.dev/runbooks", "heap");
/// The field manager of a client that writes what concerns nobody.
const BEAT: &str = "beat";
/// A pause of a client that writes all the time.
const PAUSE: Duration = Duration::from_millis(25);

/// Burdens that last until they are taken back.
#[derive(Default)]
pub(super) struct Load {
    slow: Mutex<Option<Slow>>,
    tenant: Mutex<Option<JoinHandle<()>>>,
    memory: Mutex<Option<Group>>,
}

impl Desk {
    /// Brings about one of these states.
    pub(super) async fn burden(&self, state: State) {
        match state {
            State::SlowHub => {
                self.slow_hub(seconds(4), "2.048").await;
                self.says("stuck?for=2s", COPY).await;
            }
            State::SlowerHub => {
                self.slow_hub(seconds(9), "8.192").await;
                self.says("stuck?for=10s", COPY).await;
            }
            State::Backlog => self.backlog().await,
            State::Idle => self.beat().await,
            State::LittleMemory => self.limit_memory().await,
            State::WriteBacksLost => self.lose_write_backs().await,
            other => panic!("{other:?} is no load"),
        }
    }

    /// Takes it back; one that was not brought about stays as it is.
    pub(super) async fn relieve(&self, state: State) {
        match state {
            State::SlowHub | State::SlowerHub => {
                if self.hurry().await {
                    self.edit(self.wished()).await;
                }
            }
            State::Backlog => {
                let heap = ListParams::default().labels(&format!("{}={}", HEAP.0, HEAP.1));
                let api = self.case.project.api(&DEPLOYMENT, &self.case.ns);
                let deleted = api.delete_collection(&DeleteParams::background(), &heap).await;
                deleted.expect("delete the deployments that wait");
                self.hurry().await;
            }
            State::Idle => {
                self.hurry().await;
            }
            State::LittleMemory => drop(self.load.memory.lock().await.take()),
            State::WriteBacksLost => {
                let cell = self.case.dfw();
                self.line.restore();
                if !cell.is_running().await {
                    cell.start().await;
                    self.brake_ends().await;
                }
            }
            other => panic!("{other:?} is no load"),
        }
    }

    /// Ends what slows planes down and who writes all the time; whether there was anything of it.
    async fn hurry(&self) -> bool {
        let (tenant, slow) = (
            self.load.tenant.lock().await.take(),
            self.load.slow.lock().await.take(),
        );
        let any = tenant.is_some() || slow.is_some();
        if let Some(tenant) = tenant {
            tenant.abort();
        }
        if let Some(slow) = slow {
            slow.end().await;
        }
        any
    }

    /// A tenant edits all the time, and each write of the copy takes so long, so that edits take longer than the bound of a
    /// bucket. The alerts compare the 99th percentile of five minutes, in which there are not 100 other edits.
    async fn slow_hub(&self, delay: Duration, bound: &str) {
        let (name, stage) = ("fedgate_federation_seconds", "stage=\"project_to_hub\"");
        let bucket = format!("le=\"{bound}\"");
        let late = async || {
            let all = self.metric(&format!("{name}_count"), &[stage]).await;
            all - self.metric(&format!("{name}_bucket"), &[stage, &bucket]).await
        };
        let before = late().await;
        let slow = Slow::before(&self.case.hub, &DEPLOYMENT, &self.case.hub_ns, delay).await;
        *self.load.slow.lock().await = Some(slow);
        let (case, wish) = (self.case.clone(), Wish::new("web", self.wished()));
        let tenant = tokio::spawn(async move {
            for percent in [50, 51].into_iter().cycle() {
                // Carried, without an effect at the cell.
                let mut spec = wish.workload()["spec"].take();
                let scale = &mut spec["placements"][0]["scaleSettings"];
                scale["maxReplicas"] = json!(50);
                scale["metrics"] =
                    json!([{"resource": {"name": "cpu", "target": {"averageUtilization": percent}}}]);
                let edit = json!({"spec": spec});
                case.project.merge(&WORKLOAD, &case.ns, "web", edit).await;
                tokio::time::sleep(seconds(1)).await;
            }
        });
        *self.load.tenant.lock().await = Some(tenant);
        wait_for("a change was late", seconds(120), || async {
            (late().await > before).then_some(())
        })
        .await;
    }

    /// The project is slow, and has more deployments to be reconciled than the gateway may reconcile there at a time.
    async fn backlog(&self) {
        let (project, ns) = (&self.case.project, &self.case.ns);
        let slow = Slow::before(project, &DEPLOYMENT, ns, seconds(5)).await;
        *self.load.slow.lock().await = Some(slow);
        let numbers = futures::stream::iter(0..WAITING);
        numbers
            .for_each_concurrent(16, async |number| {
                let mut wish = Wish::new(&format!("heap-{number}"), 1);
                "NOWHERE".clone_into(&mut wish.places[0].1);
                let mut deployment = wish.deployment("00000000-0000-4000-8000-000000000000");
                deployment["metadata"]["labels"] = json!({HEAP.0: HEAP.1});
                project.create(&DEPLOYMENT, ns, deployment).await;
            })
            .await;
        wait_for("more than 1,000 keys wait", seconds(120), || async {
            (self.metric("workqueue_depth", &[]).await > 1_000.0).then_some(())
        })
        .await;
        // The first of the writes that the queue waits for has been answered.
        self.says("journal", "heap-").await;
    }

    /// A client edits the Workload all the time: each edit changes an annotation that the gateway reads, and nothing follows from it.
    async fn beat(&self) {
        let done = async || {
            let all = self.metric("controller_runtime_reconcile_total", &[]).await;
            (all, self.metric("fedgate_noop_reconciles_total", &[]).await)
        };
        let before = done().await;
        let workloads = self.case.project.api(&WORKLOAD, &self.case.ns);
        let tenant = tokio::spawn(async move {
            let params = PatchParams {
                field_manager: Some(BEAT.to_owned()),
                ..PatchParams::default()
            };
            for number in 0_u64.. {
                let value = (number % 2 == 0).then_some("true");
                let edit = json!({"metadata": {
                    "labels": {"fedgate.dev/beat": number.to_string()},
                    "annotations": {keys::ALLOW_GAP: value},
                }});
                let written = workloads.patch("web", &params, &Patch::Merge(&edit)).await;
                written.expect("edit the Workload");
                tokio::time::sleep(PAUSE).await;
            }
        });
        *self.load.tenant.lock().await = Some(tenant);
        wait_for(
            "19 of 20 reconciles have nothing to write",
            seconds(120),
            || async {
                let now = done().await;
                let (all, noops) = (now.0 - before.0, now.1 - before.1);
                (all > 100.0 && noops / all > 0.95).then_some(())
            },
        )
        .await;
    }

    /// Where no control group can be made, the commands run without the limit.
    async fn limit_memory(&self) {
        let pid = self.gateway.pid().await.expect("the gateway runs");
        let limit = usage::resident(&pid) * 100 / 95;
        match Group::around(&pid, limit) {
            Ok(group) => *self.load.memory.lock().await = Some(group),
            Err(error) => return eprintln!("the gateway's memory stays without a limit: {error}"),
        }
        wait_for("nine tenths of the memory are used", seconds(120), || async {
            let used = self.metric("process_resident_memory_bytes", &[]).await;
            let limit = self.metric("fedgate_memory_limit_bytes", &[]).await;
            (used / limit > 0.9).then_some(())
        })
        .await;
    }

    /// Write-backs vanish while the gateway cannot see it, and no cell writes them back.
    async fn lose_write_backs(&self) {
        let (hub, hub_ns) = (&self.case.hub, &self.case.hub_ns);
        self.edit(LOST).await;
        self.case.runs(&Wish::new("web", LOST)).await;
        self.case.dfw().stop().await;
        self.line.cut();
        for number in 0..LOST {
            hub.delete(&INSTANCE, hub_ns, &format!("{COPY}-{number}")).await;
        }
        // An API server that has just started does not know what was deleted before: the gateway lists anew.
        self.case.suite.stop_plane("hub").await;
        self.case.suite.start_plane("hub").await;
        let mark = self.gateway.log_mark();
        self.line.restore();
        self.logs(mark, "the hub lost many write-backs at once").await;
        self.says("stuck?class=brake", "projections").await;
        let braked = self.metric("fedgate_garbage_brake", &[]).await;
        assert!(braked > 0.0, "the alert's metric says it, too");
    }

    async fn brake_ends(&self) {
        wait_for("the brake ends", seconds(120), || async {
            (self.metric("fedgate_garbage_brake", &[]).await < 1.0).then_some(())
        })
        .await;
    }
}
