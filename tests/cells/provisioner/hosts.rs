//! Cells of provider `hosts`: machines become a cluster by kubeadm over SSH.

use super::{
    Provisioner, SECRETS,
    machine::{Machine, PACKAGED, VERSION, has_sshd, private_key},
    one_says, says, start_program,
};
use crate::support::{
    Case, Wish,
    audit::AuditLog,
    condition,
    kinds::{CELL, CLUSTER, CONFIG_MAP, EVENT, NODE, SECRET},
    lone_trials, message, seconds,
    suite::{NEW, NewCell},
    with_cleanup,
};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

lone_trials![
    p15_three_machines_become_a_cell_run_grow_and_go,
    p14_a_machine_that_cannot_be_used_is_named_and_left_alone,
    p17_a_job_that_failed_is_repeated_or_kept_for_its_operator,
    p16_three_control_planes_join_one_by_one_behind_haproxy,
];

/// The Secret with the key, and the ConfigMap with the network plugin.
const KEY: &str = "iad-1-ssh";
const NETWORK: &str = "network";

/// The provisioner with machines, of which the first one leads.
pub(super) struct World {
    pub(super) case: Case,
    pub(super) new: NewCell,
    pub(super) provisioner: Provisioner,
    pub(super) machines: Vec<Machine>,
}

impl World {
    pub(super) async fn new(case: &Case, names: &[&str]) -> Self {
        let new = case.suite.new_cell().await;
        let runtime = case.suite.dir.join("runtime");
        let runtime = runtime.to_str().expect("it is text");
        let flags = ["--providers", "existing,hosts", "--runtime-directory", runtime];
        let provisioner = Provisioner::with(case, &new, &flags).await;
        private_key(&case.suite, KEY);
        let mut machines = Vec::new();
        for (name, number) in names.iter().zip(1..) {
            machines.push(Machine::start(&case.suite, name, number, KEY).await);
        }
        Self {
            case: case.clone(),
            new,
            provisioner,
            machines,
        }
    }

    pub(super) async fn create_secret(&self, cells: &str) {
        let key = private_key(&self.case.suite, KEY);
        let secret = json!({"metadata": {"name": KEY, "annotations": {"fedgate.dev/cells": cells}},
            "data": {"ssh-privatekey": ByteString(key.into_bytes())}});
        self.provisioner.home.create(&SECRET, SECRETS, secret).await;
    }

    async fn create_network(&self) {
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NETWORK, "namespace": "kube-system"}});
        let network = json!({"metadata": {"name": NETWORK, "annotations": {"fedgate.dev/cells": NEW.0}},
            "data": {"manifest.yaml": manifest.to_string()}});
        self.provisioner.home.create(&CONFIG_MAP, SECRETS, network).await;
    }

    /// A Cell of these machines without agent.image. The first `control_planes` machines are control planes.
    pub(super) fn cell(&self, name: &str, machines: &[Machine], control_planes: usize) -> Value {
        let text = std::fs::read_to_string(&self.new.cell).expect("read a kubeconfig");
        let kubeconfig: Value = serde_saphyr::from_str(&text).expect("it is YAML");
        let entries: Vec<Value> = machines
            .iter()
            .enumerate()
            .map(|(at, machine)| {
                machine.entry(if at < control_planes {
                    "controlPlane"
                } else {
                    "worker"
                })
            })
            .collect();
        json!({"metadata": {"name": name}, "spec": {
            "city": NEW.1,
            "register": {"apiEndpoint": kubeconfig["clusters"][0]["cluster"]["server"]},
            "provider": {"hosts": {"sshKeySecret": KEY, "machines": entries}},
            "kubernetes": {"version": VERSION},
        }})
    }

    pub(super) async fn says(&self, of: &str, status: &str, reason: &str) -> Value {
        says(&self.case.hub, of, status, reason).await
    }

    /// Lets the steps run at once.
    pub(super) async fn retry(&self, word: &str) {
        let patch = json!({"metadata": {"annotations": {"fedgate.dev/retry": word}}});
        self.case.hub.merge(&CELL, "", NEW.0, patch).await;
    }

    /// Deletes the Cell. Nothing is left at its machines.
    pub(super) async fn end(&self) {
        let hub = &self.case.hub;
        hub.delete(&CELL, "", NEW.0).await;
        hub.gone(&CELL, "", NEW.0, seconds(120)).await;
        assert!(hub.get(&CLUSTER, "", NEW.0).await.is_none());
        for machine in &self.machines {
            assert_eq!(machine.files(), [PACKAGED], "{}", machine.name);
        }
        self.delete_nodes().await;
    }

    /// kubeadm does not delete Nodes.
    async fn delete_nodes(&self) {
        let plane = &self.new.role.plane;
        for machine in &self.machines {
            if plane.get(&NODE, "", &machine.name).await.is_some() {
                plane.delete(&NODE, "", &machine.name).await;
            }
        }
    }

    pub(super) async fn clean_up(&self) {
        self.new.role.stop().await;
        self.provisioner.role.stop().await;
        let home = &self.provisioner.home;
        for (kind, name) in [(&SECRET, KEY), (&CONFIG_MAP, NETWORK)] {
            if home.get(kind, SECRETS, name).await.is_some() {
                home.delete(kind, SECRETS, name).await;
            }
        }
    }

    /// The number of connections that the machines have accepted.
    pub(super) fn connections(&self) -> usize {
        let logs = self.machines.iter().map(|machine| machine.read("sshd.log"));
        logs.map(|log| log.matches("Accepted publickey").count()).sum()
    }

    /// The names of tokens by which machines may join.
    pub(super) async fn tokens(&self) -> Vec<String> {
        let secrets = self
            .new
            .role
            .plane
            .list(&SECRET, "kube-system", "fedgate.dev/made-by")
            .await;
        let name = |secret: &Value| secret["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        secrets.iter().map(name).collect()
    }
}

/// Runs a test with machines of these names, if there is an SSH server.
pub(super) async fn with_machines(case: Case, test: &str, names: &[&str], body: impl AsyncFnOnce(&World)) {
    if !has_sshd(test) {
        return;
    }
    let world = World::new(&case, names).await;
    with_cleanup(body(&world), world.clean_up()).await;
}

async fn p15_three_machines_become_a_cell_run_grow_and_go(case: Case) {
    with_machines(case, "p15", &["cp1", "w1", "w2", "w3"], async |world| {
        let (hub, machines) = (&world.case.hub, &world.machines);
        let begun = world.case.suite.hub_log.mark();
        world.provisioner.start().await;
        let mut cell = world.cell(NEW.0, &machines[..3], 1);
        cell["spec"]["agent"] = json!({"image": "registry.example.com/fedgate:1"});
        cell["spec"]["kubernetes"]["cniManifest"] = json!(NETWORK);
        hub.create(&CELL, "", cell).await;
        world.says("Validated", "False", "SecretMissing").await;
        world.create_secret(NEW.0).await;
        world
            .says("ControlPlaneInitialized", "False", "CniManifestMissing")
            .await;
        world.create_network().await;
        world.says("AgentReady", "False", "AgentNotAvailable").await;
        start_program(&world.new).await;
        let cell = world.says("Ready", "True", "Ready").await;
        assert_eq!(cell["status"]["phase"], "Provisioned");
        assert_eq!(cell["status"]["provider"], "hosts");
        each_did_its_part(world).await;

        let wish = Wish {
            places: vec![("us".to_owned(), NEW.1.to_owned(), 1)],
            ..Wish::new("web", 1)
        };
        world.case.run(&wish).await;
        at_rest(world).await;
        a_worker_joins(world).await;
        a_machine_away_changes_one_condition(world).await;
        world.case.delete(&wish).await;
        hub.merge(&CELL, "", NEW.0, json!({"spec": {"state": "Drained"}}))
            .await;
        world.says("Drained", "True", "Drained").await;
        world.new.role.stop().await;
        world.end().await;
        for machine in machines {
            assert_eq!(machine.count("kubeadm reset"), 1);
        }
        keeps_secrets(world, begun).await;
    })
    .await;
}

/// Each machine was prepared once, and joined once.
async fn each_did_its_part(world: &World) {
    let [leader, w1, w2, w3] = &world.machines[..] else {
        panic!("four machines");
    };
    for machine in [leader, w1, w2] {
        assert_eq!(machine.calls("swapoff"), ["swapoff -a"]);
        assert_eq!(
            machine.calls("modprobe"),
            ["modprobe overlay", "modprobe br_netfilter"]
        );
        assert!(
            machine
                .read("root/etc/sysctl.d/fedgate.conf")
                .contains("net.ipv4.ip_forward = 1")
        );
        assert_eq!(machine.mode("root/etc/fedgate/claim.json"), 0o600);
    }
    assert_eq!(
        (
            leader.count("kubeadm init --config"),
            leader.count("kubeadm join")
        ),
        (1, 0)
    );
    assert_eq!(leader.mode("root/etc/fedgate/init.yaml"), 0o600);
    for worker in [w1, w2] {
        assert_eq!(
            (worker.count("kubeadm init"), worker.count("kubeadm join")),
            (0, 1)
        );
        assert_eq!(worker.mode("root/etc/fedgate/join.yaml"), 0o600);
    }
    assert_eq!(w3.read("calls"), "");
    let plane = &world.new.role.plane;
    assert!(plane.get(&CONFIG_MAP, "kube-system", NETWORK).await.is_some());
    assert_eq!(world.tokens().await, [""; 0]);
}

/// A role that starts again sends no command to the machines of a Cell that is Ready.
async fn at_rest(world: &World) {
    world.provisioner.role.stop().await;
    let logs = [&world.case.suite.hub_log, &world.new.role.log];
    let (before, marks) = (world.connections(), logs.map(AuditLog::mark));
    world.provisioner.start().await;
    // A change of another Cell shows that the role has looked at this one.
    let hub = &world.case.hub;
    let mut other = world.cell("another", &world.machines[..3], 1);
    other["spec"]["provider"]["hosts"]["sshKeySecret"] = json!("none");
    hub.create(&CELL, "", other).await;
    one_says(hub, "another", ["Validated", "False", "SecretMissing"]).await;
    hub.delete(&CELL, "", "another").await;
    hub.gone(&CELL, "", "another", seconds(60)).await;
    assert_eq!(world.connections(), before);
    assert_eq!(logs[1].since(marks[1], "\"admin\"").len(), 0);
    let written = super::written(&world.provisioner, logs[0], marks[0]);
    assert_eq!(written, [""; 0]);
}

async fn a_worker_joins(world: &World) {
    let hub = &world.case.hub;
    let cell = world.cell(NEW.0, &world.machines, 1);
    let machines = json!({"spec": {"provider": cell["spec"]["provider"]}});
    let changed = hub.merge(&CELL, "", NEW.0, machines).await;
    let generation = &changed["metadata"]["generation"];
    let test = |cell: &Value| {
        let joined = condition(cell, "WorkersJoined").expect("it has been told");
        cell["status"]["observedGeneration"] == *generation && joined["status"] == "True"
    };
    let cell = hub
        .sees(&CELL, "", NEW.0, "has all workers", seconds(90), test)
        .await;
    assert_eq!(cell["status"]["phase"], "Provisioned");
    assert_eq!(
        world
            .machines
            .iter()
            .map(|machine| machine.count("kubeadm join"))
            .collect::<Vec<_>>(),
        [0, 1, 1, 1]
    );
}

/// A machine that does not answer makes one condition False. Machines whose Nodes are Ready are not connected to.
async fn a_machine_away_changes_one_condition(world: &World) {
    for worker in &world.machines[1..] {
        worker.stop_sshd();
    }
    world.retry("workers").await;
    let test = |cell: &Value| cell["status"]["observedGeneration"] == cell["metadata"]["generation"];
    world
        .case
        .hub
        .sees(&CELL, "", NEW.0, "is observed", seconds(60), test)
        .await;
    world.machines[0].stop_sshd();
    world.retry("leader").await;
    // The run before may have lost its connection.
    let test = |cell: &Value| message(cell, "Bootstrapped").starts_with("machine cp1: ssh: connect to host");
    let cell = world
        .case
        .hub
        .sees(&CELL, "", NEW.0, "names the machine", seconds(60), test)
        .await;
    let not_true = cell["status"]["conditions"]
        .as_array()
        .expect("it has conditions");
    assert_eq!(
        not_true
            .iter()
            .filter(|condition| condition["status"] != "True")
            .count(),
        1,
        "{cell:#}"
    );
    assert_eq!(cell["status"]["phase"], "Provisioned");
    for machine in &world.machines {
        machine.start_sshd();
    }
    world.retry("back").await;
    world.says("Bootstrapped", "True", "Bootstrapped").await;
}

/// Nothing that the role writes has a secret.
async fn keeps_secrets(world: &World, begun: u64) {
    let key = private_key(&world.case.suite, KEY);
    let key = key.lines().nth(1).expect("it has lines");
    let log = world.provisioner.role.log_tail(usize::MAX);
    assert!(!log.contains(key), "the log has the key");
    assert!(
        !log.contains("bootstrap-token-") || !log.contains("token-secret"),
        "the log has a token"
    );
    let events = world.case.hub.list(&EVENT, "default", "").await;
    assert!(!events.iter().any(|event| event.to_string().contains(key)));
    let left: Vec<_> = std::fs::read_dir(world.case.suite.dir.join("runtime/ssh"))
        .expect("it is there")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let denied = world.case.suite.hub_log.since(begun, &world.provisioner.user);
    assert!(denied.iter().all(|entry| entry.response_status.code != 403));
}

async fn p14_a_machine_that_cannot_be_used_is_named_and_left_alone(case: Case) {
    with_machines(case, "p14", &["cp1", "w1", "w2"], async |world| {
        let (hub, [leader, w1, w2]) = (&world.case.hub, &world.machines[..]) else {
            panic!("three machines");
        };
        world.provisioner.start().await;
        world.create_secret("*").await;
        let right = world.cell(NEW.0, &world.machines, 1);
        let mut wrong = right.clone();
        let key = leader.entry("worker")["hostKey"].clone();
        wrong["spec"]["provider"]["hosts"]["machines"][1]["hostKey"] = key;
        w2.write("root/etc/kubernetes/kubelet.conf", "another's");
        hub.create(&CELL, "", wrong).await;
        let cell = world.says("Bootstrapped", "False", "HostKeyMismatch").await;
        assert_eq!(cell["status"]["phase"], "Failed");
        let said = message(&cell, "Bootstrapped");
        assert!(
            said.starts_with("1 of 3 machines are prepared; machine w1: "),
            "{said}"
        );
        assert!(said.contains("machine w2: it has files of a cluster"), "{said}");
        let log = w1.read("sshd.log");
        assert!(!log.contains("publickey") && !log.contains("userauth"), "{log}");
        assert_eq!(
            (w1.files(), w2.files()),
            (
                vec![PACKAGED.to_owned()],
                vec!["etc/kubernetes/kubelet.conf".to_owned(), PACKAGED.to_owned()]
            )
        );

        // A change of the Cell lets the steps run at once.
        w2.delete("root/etc/kubernetes/kubelet.conf");
        w2.write("version", "v1.35.0");
        let allowed = w1.read("authorized_keys");
        w1.write("authorized_keys", "");
        hub.merge(&CELL, "", NEW.0, json!({"spec": right["spec"]})).await;
        let cell = world.says("Bootstrapped", "False", "AuthenticationFailed").await;
        let said = message(&cell, "Bootstrapped");
        assert!(said.contains("machine w2: it has kubeadm v1.35.0"), "{said}");
        w1.write("authorized_keys", &allowed);
        w2.write("version", VERSION);
        world.retry("corrected").await;
        world.says("Ready", "True", "Ready").await;

        // A second Cell with the same machines gets none of them, and its deletion changes none of them.
        let before: Vec<_> = world.machines.iter().map(Machine::files).collect();
        let copy = world.cell("copy", &world.machines, 1);
        hub.create(&CELL, "", copy).await;
        let cell = one_says(hub, "copy", ["Bootstrapped", "False", "HostClaimed"]).await;
        let said = message(&cell, "Bootstrapped");
        assert!(
            said.starts_with("0 of 3 machines are prepared; machine cp1: it belongs to Cell iad-1"),
            "{said}"
        );
        hub.delete(&CELL, "", "copy").await;
        hub.gone(&CELL, "", "copy", seconds(60)).await;
        assert_eq!(
            world.machines.iter().map(Machine::files).collect::<Vec<_>>(),
            before
        );
        world.end().await;
    })
    .await;
}

async fn p17_a_job_that_failed_is_repeated_or_kept_for_its_operator(case: Case) {
    with_machines(case, "p17", &["cp1", "w1", "w2", "w3"], async |world| {
        let (hub, leader, worker) = (&world.case.hub, &world.machines[0], &world.machines[3]);
        world.provisioner.start().await;
        world.create_secret(NEW.0).await;
        // A job that runs is ended with the Cell.
        leader.write("hold-init", "");
        hub.create(&CELL, "", world.cell(NEW.0, &world.machines, 1)).await;
        world.says("ControlPlaneInitialized", "False", "Waiting").await;
        let pid = leader.read("root/etc/fedgate/jobs/init-1/pid");
        let process = format!("/proc/{}", pid.split(' ').next().expect("it has a number"));
        assert!(std::path::Path::new(&process).exists());
        world.end().await;
        assert!(!std::path::Path::new(&process).exists());
        leader.delete("hold-init");

        // A kubeadm init that failed after it wrote manifests is not started again until the Cell is deleted.
        leader.write("fail-init", "halfway");
        hub.create(&CELL, "", world.cell(NEW.0, &world.machines, 1)).await;
        let cell = world.says("ControlPlaneInitialized", "False", "NeedsReset").await;
        assert!(
            message(&cell, "ControlPlaneInitialized").contains("etcd does not start"),
            "{cell:#}"
        );
        assert!(leader.has("root/etc/kubernetes/manifests/etcd.yaml"));
        world.retry("again").await;
        let test = |cell: &Value| cell["metadata"]["annotations"]["fedgate.dev/retry"] == "again";
        hub.sees(&CELL, "", NEW.0, "is to be tried again", seconds(30), test)
            .await;
        world.says("ControlPlaneInitialized", "False", "NeedsReset").await;
        world.end().await;
        assert_eq!(leader.count("kubeadm init --config"), 2);

        // A kubeadm init that failed before it wrote anything is started again.
        leader.write("fail-init", "early");
        worker.write("fail-join", "early");
        hub.create(&CELL, "", world.cell(NEW.0, &world.machines, 1)).await;
        let cell = world
            .says("ControlPlaneInitialized", "False", "InitControlPlaneFailed")
            .await;
        assert!(
            message(&cell, "ControlPlaneInitialized").contains("the disk is full"),
            "{cell:#}"
        );
        leader.delete("fail-init");
        let cell = world.says("WorkersJoined", "False", "JoinWorkerFailed").await;
        assert_eq!(leader.count("kubeadm init --config"), 4);
        let said = message(&cell, "WorkersJoined");
        assert!(
            said.starts_with("2 of 3 machines joined; machine w3: job join-1 ended with exit status 1"),
            "{said}"
        );
        assert!(said.contains("cannot join with ***"), "{said}");
        // The next attempt ends after its Node is Ready, and the one after it joins nevertheless.
        worker.write("fail-join", "late");
        let test =
            |cell: &Value| message(cell, "WorkersJoined").contains("job join-2 ended with exit status 1");
        hub.sees(&CELL, "", NEW.0, "has failed to join again", seconds(90), test)
            .await;
        worker.delete("fail-join");
        world.says("Ready", "True", "Ready").await;
        assert_eq!(
            world
                .machines
                .iter()
                .map(|machine| machine.count("kubeadm join"))
                .collect::<Vec<_>>(),
            [0, 1, 1, 3]
        );
        world.end().await;
    })
    .await;
}

async fn p16_three_control_planes_join_one_by_one_behind_haproxy(case: Case) {
    with_machines(case, "p16", &["cp1", "cp2", "cp3", "w1"], async |world| {
        let (hub, leader) = (&world.case.hub, &world.machines[0]);
        world.provisioner.start().await;
        world.create_secret(NEW.0).await;
        leader.write("refuse-haproxy", "");
        let mut cell = world.cell(NEW.0, &world.machines, 3);
        cell["spec"]["kubernetes"]["endpoint"] = json!({"type": "HAProxy"});
        hub.create(&CELL, "", cell).await;
        let cell = world
            .says("ControlPlaneInitialized", "False", "SetupHaproxyFailed")
            .await;
        assert!(
            message(&cell, "ControlPlaneInitialized").contains("the configuration is refused"),
            "{cell:#}"
        );
        assert!(
            !leader
                .calls("systemctl")
                .iter()
                .any(|call| call.contains("haproxy"))
        );
        leader.delete("refuse-haproxy");
        world.says("Ready", "True", "Ready").await;
        assert!(
            leader
                .calls("systemctl")
                .contains(&"systemctl restart fedgate-haproxy.service".to_owned())
        );
        let balancer = leader.read("root/etc/fedgate/haproxy.cfg");
        for number in 1..=3 {
            assert!(
                balancer.contains(&format!("server cp{number} 10.0.0.{number}:6443")),
                "{balancer}"
            );
        }
        let init = leader.read("root/etc/fedgate/init.yaml");
        assert!(
            init.contains("\"controlPlaneEndpoint\":\"10.0.0.1:9998\""),
            "{init}"
        );
        // Each join uses a new key, with which the certificates were uploaded just before.
        let keys = [1, 2].map(|at| world.machines[at].read("keys"));
        assert_ne!(keys[0], keys[1]);
        assert_eq!(leader.read("keys"), keys.concat());
        assert_eq!(world.tokens().await, [""; 0]);
        world.end().await;
    })
    .await;
}
