//! Cells of provider `hosts` that are interrupted: the role is killed or stopped, the hub is away, the Cell is deleted while a step runs.

use super::{
    hosts::{World, with_machines},
    machine::{VERSION, has_sshd},
    marked,
};
use crate::support::{
    Case,
    kinds::{CELL, LEASE, SECRET},
    lone_trials,
    role::Role,
    seconds,
    suite::NEW,
    wait_for, with_cleanup,
};
use fedgate_manifests::{NAMESPACE as SYSTEM, PROVISIONER};
use serde_json::{Value, json};

lone_trials![
    p20_jobs_run_once_though_the_role_is_killed_at_each_command,
    p32_a_job_goes_on_without_the_hub_and_is_not_started_again,
    p33_a_leader_that_was_stopped_does_nothing_after_its_successor,
    p34_a_cell_is_deleted_in_each_of_its_steps,
];

/// The role is killed at the first command, after its next start at the second one, and so on.
async fn p20_jobs_run_once_though_the_role_is_killed_at_each_command(case: Case) {
    with_machines(case, "p20", &["cp1", "cp2", "cp3", "w1"], async |world| {
        let (hub, machines) = (&world.case.hub, &world.machines);
        world.create_secret(NEW.0).await;
        let mut cell = world.cell(NEW.0, machines, 3);
        cell["spec"]["kubernetes"]["endpoint"] = json!({"type": "HAProxy"});
        // A first control plane takes minutes.
        machines[0].write("hold-init", "");
        hub.create(&CELL, "", cell).await;
        let mut commands = 1;
        loop {
            let before = world.connections();
            world.provisioner.start().await;
            let next = async || {
                let cell = hub.get(&CELL, "", NEW.0).await?;
                let is_ready = crate::support::says(&cell, ["Ready", "True", "Ready"]);
                (is_ready || world.connections() >= before + commands).then_some(is_ready)
            };
            if wait_for("the machines accept commands", seconds(90), next).await {
                break;
            }
            world.provisioner.role.kill().await;
            // A process that was killed does not release its Lease, so the test deletes the Lease.
            hub.delete(&LEASE, SYSTEM, PROVISIONER).await;
            commands += 1;
            if commands == 6 {
                machines[0].delete("hold-init");
            }
        }
        assert!(commands > 6, "{commands}");
        for (machine, word) in machines.iter().zip(["init --config", "join", "join", "join"]) {
            let count = machine.count(&format!("kubeadm {word}"));
            assert_eq!(count, 1, "{}: {}", machine.name, machine.read("calls"));
            assert_eq!(machine.calls("swapoff").len(), 1);
        }
        world.says("Ready", "True", "Ready").await;
        world.end().await;
    })
    .await;
}

/// Without the hub the role has no Lease: it sends no command until the hub is back, and then finds the job.
async fn p32_a_job_goes_on_without_the_hub_and_is_not_started_again(case: Case) {
    if !has_sshd("p32") {
        return;
    }
    let mut world = World::new(&case, &["cp1", "w1"]).await;
    let line = world.provisioner.lead_through_a_line(&case.suite.dir).await;
    let test = async {
        let (hub, leader) = (&world.case.hub, &world.machines[0]);
        world.provisioner.start().await;
        world.create_secret(NEW.0).await;
        leader.write("hold-init", "");
        hub.create(&CELL, "", world.cell(NEW.0, &world.machines, 1)).await;
        world.says("ControlPlaneInitialized", "False", "Waiting").await;
        line.cut();
        let ended = async || {
            let log = world.provisioner.role.log_tail(usize::MAX);
            log.contains("\"leads\":false").then_some(())
        };
        wait_for("the role leads no more", seconds(60), ended).await;
        let before = world.connections();
        leader.delete("hold-init");
        let done = async || leader.has("root/etc/fedgate/jobs/init-1/rc").then_some(());
        wait_for("the job ends by itself", seconds(60), done).await;
        assert_eq!(world.connections(), before, "a command without the Lease");
        line.restore();
        world.says("Ready", "True", "Ready").await;
        assert_eq!(leader.count("kubeadm init --config"), 1);
        world.end().await;
    };
    with_cleanup(test, world.clean_up()).await;
}

/// Sends a signal to the process of a role.
async fn signal(role: &Role, name: &str) {
    let pid = role.pid().await.expect("the role runs");
    let sent = std::process::Command::new("kill").args([name, &pid]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill {name} {pid}");
}

async fn says_in_log(role: &Role, what: &str) {
    let said = async || role.log_tail(usize::MAX).contains(what).then_some(());
    wait_for(&format!("the log says {what}"), seconds(90), said).await;
}

/// The leader is suspended during kubeadm init, as with its virtual machine, and wakes up when another one has made the cell.
async fn p33_a_leader_that_was_stopped_does_nothing_after_its_successor(case: Case) {
    with_machines(case, "p33", &["cp1", "w1"], async |world| {
        Box::pin(suspended(world)).await;
    })
    .await;
}

async fn suspended(world: &World) {
    let (hub, leader) = (&world.case.hub, &world.machines[0]);
    let (first, log) = (&world.provisioner, &world.case.suite.hub_log);
    first.start().await;
    world.create_secret(NEW.0).await;
    leader.write("hold-init", "");
    hub.create(&CELL, "", world.cell(NEW.0, &world.machines, 1)).await;
    world.says("ControlPlaneInitialized", "False", "Waiting").await;
    signal(&first.role, "-STOP").await;

    let second = Role::new("provisioner", world.case.suite.dir.join("provisioner-2.log"));
    let dir = &world.case.suite.dir;
    let [own, other] = ["runtime", "runtime-2"].map(|name| dir.join(name).into_os_string());
    let mut arguments = first.arguments.clone();
    for argument in arguments.iter_mut().filter(|argument| **argument == own) {
        argument.clone_from(&other);
    }
    let test = async {
        second.spawn(&arguments).await;
        says_in_log(&second, "\"leads\":true").await;
        let begun = log.mark();
        leader.delete("hold-init");
        world.says("Ready", "True", "Ready").await;
        let told = second.log_tail(usize::MAX).matches("\"cell_status\"").count();
        let is_status = |request: &&String| request.starts_with("patch cells/status");
        let in_audit = async || {
            let requests = first.requests(log, begun);
            (requests.iter().filter(is_status).count() >= told).then_some(())
        };
        wait_for("the audit log has each status", seconds(30), in_audit).await;
        let (mark, connections) = (log.mark(), world.connections());
        signal(&first.role, "-CONT").await;
        says_in_log(&first.role, "\"leads\":false").await;
        let requests = first.requests(log, mark);
        let is_read = |request: &String| request.starts_with("get ") || request.starts_with("list ");
        assert!(requests.iter().all(is_read), "{requests:?}");
        assert_eq!(world.connections(), connections);
        assert_eq!(leader.count("kubeadm init --config"), 1);
        world.end().await;
    };
    with_cleanup(test, second.stop()).await;
}

/// A change of a world or of the Cell, by which the Cell stays in a step.
type Obstacle = fn(&World, &mut Value);

/// Each step that can last, with the reason for which it does.
const STEPS: [(&str, &str, Obstacle); 7] = [
    ("Bootstrapped", "VersionMismatch", |world, _| {
        world.machines[1].write("version", "v1.31.0");
    }),
    ("Bootstrapped", "SetupBootstrapFailed", |world, _| {
        world.machines[0].write("refuse-modprobe", "");
    }),
    ("ControlPlaneInitialized", "InitControlPlaneFailed", |world, _| {
        world.machines[0].write("fail-init", "early");
    }),
    ("ControlPlaneInitialized", "CniManifestMissing", |_, cell| {
        cell["spec"]["kubernetes"]["cniManifest"] = json!("missing");
    }),
    ("WorkersJoined", "JoinWorkerFailed", |world, _| {
        world.machines[1].write("fail-join", "early");
    }),
    ("ControlPlaneInitialized", "MemberUnreachable", |_, cell| {
        cell["spec"]["register"]["apiEndpoint"] = json!("https://127.0.0.1:1");
    }),
    ("AgentReady", "AgentNotAvailable", |_, cell| {
        cell["spec"]["agent"] = json!({"image": "registry.example.com/fedgate:1"});
    }),
];

/// Nothing of a Cell is left that is deleted before it is Ready, at its machines, in its cluster and on the hub.
async fn p34_a_cell_is_deleted_in_each_of_its_steps(case: Case) {
    with_machines(case, "p34", &["cp1", "w1"], async |world| {
        world.provisioner.start().await;
        world.create_secret(NEW.0).await;
        for (step, reason, obstacle) in STEPS {
            let mut cell = world.cell(NEW.0, &world.machines, 1);
            obstacle(world, &mut cell);
            world.case.hub.create(&CELL, "", cell).await;
            world.says(step, "False", reason).await;
            world.machines[1].write("version", VERSION);
            for machine in &world.machines {
                for name in ["refuse-modprobe", "fail-init", "fail-join"] {
                    if machine.has(name) {
                        machine.delete(name);
                    }
                }
            }
            world.end().await;
            // The reset of a real machine takes its tokens away with etcd. The API server of this test outlives it.
            for token in world.tokens().await {
                world.new.role.plane.delete(&SECRET, "kube-system", &token).await;
            }
            let none = async || (marked(&world.new).await == 0).then_some(());
            wait_for(&format!("nothing is left after {reason}"), seconds(60), none).await;
        }
    })
    .await;
}
