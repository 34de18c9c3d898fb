//! Cells of the hub, which `fedgate provisioner` makes and takes away.

pub(crate) mod cluster_api;
pub(crate) mod hosts;
pub(crate) mod interrupted;
mod machine;
pub(crate) mod pull;

use crate::{
    membership::fedgate,
    support::{
        Case, Wish,
        audit::{AuditLog, Entry},
        cell::through_a_line,
        credentials::{Twin, with_token},
        kinds::{
            CELL, CLUSTER, CLUSTER_ROLE, DEFINITION, DEPLOYMENT, EVENT, INSTANCE, NAMESPACE, SECRET,
            SERVICE_ACCOUNT,
        },
        line::Line,
        lone_trials,
        plane::Plane,
        role::Role,
        seconds,
        suite::{ALPHA, LAB, NEW, NewCell},
        wait_for, with_cleanup,
    },
};
use fedgate_kinds::Kinds;
use fedgate_manifests::{KindManifests, NAMESPACE as SYSTEM, PROVISIONER};
use fedgate_operator::membership::plane::kind;
use fedgate_sandbox::User;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    core::DynamicObject,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

lone_trials![
    p05_a_cell_is_made_by_one_apply_runs_drains_and_goes,
    p07_what_another_has_is_neither_taken_nor_taken_away,
    p36_a_cell_whose_cluster_is_gone_waits_until_it_is_abandoned,
];

/// Namespace of the Secrets.
const SECRETS: &str = "fedgate-provisioner";
const ADMIN: &str = "iad-1-admin";

/// `fedgate provisioner` as the accounts to which its manifests give rights, and the plane with its Secrets.
struct Provisioner {
    role: Role,
    home: Plane,
    arguments: Vec<std::ffi::OsString>,
    user: String,
}

/// Applies the files of this folder of the manifests.
async fn apply(plane: &Plane, folder: &str) {
    let kinds = Kinds::load(&[], None).expect("the kinds");
    let files = fedgate_manifests::all(&KindManifests::all(&kinds, false)).expect("the manifests");
    let files = files.into_iter().filter(|file| file.path.starts_with(folder));
    for object in files.flat_map(|file| file.objects) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = kind(&text(&object["apiVersion"]), &text(&object["kind"]));
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(plane.client(), &namespace, &kind),
            None => Api::all_with(plane.client(), &kind),
        };
        let params = PatchParams::apply("test").force();
        let applied = api
            .patch(&object.name_any(), &params, &Patch::Apply(&object))
            .await;
        applied.unwrap_or_else(|error| panic!("apply {} {}: {error}", kind.kind, object.name_any()));
    }
}

impl Provisioner {
    async fn new(case: &Case, new: &NewCell) -> Self {
        Self::with(case, new, &[]).await
    }

    /// With these flags.
    async fn with(case: &Case, new: &NewCell, flags: &[&str]) -> Self {
        let suite = &case.suite;
        let home = suite.lab.plane.clone();
        apply(&suite.hub, "provisioner/hub/").await;
        apply(&home, "provisioner/home/").await;
        let at_home: PathBuf = suite
            .with_sandbox(async |sandbox| sandbox.kubeconfig(LAB.0, User::Admin))
            .await;
        let written = async |plane: &Plane, namespace: &str, like: &PathBuf, name: &str| {
            let account = Twin::of(plane, namespace, PROVISIONER);
            let path = suite.dir.join(name);
            std::fs::write(&path, with_token(like, &account.token().await)).expect("write a kubeconfig");
            path
        };
        if suite
            .hub
            .get(&SERVICE_ACCOUNT, SYSTEM, PROVISIONER)
            .await
            .is_none()
        {
            Twin::without_rights(&suite.hub, SYSTEM, PROVISIONER).await;
        }
        let hub = written(&suite.hub, SYSTEM, &new.hub, "provisioner-hub.yaml").await;
        let home_file = written(&home, SECRETS, &at_home, "provisioner-home.yaml").await;
        Self {
            role: Role::new("provisioner", suite.dir.join("provisioner.log")),
            home,
            arguments: [
                "provisioner".into(),
                "--hub-kubeconfig".into(),
                hub.into(),
                "--home-kubeconfig".into(),
                home_file.into(),
            ]
            .into_iter()
            .chain(flags.iter().map(std::ffi::OsString::from))
            .collect(),
            user: Twin::of(&suite.hub, SYSTEM, PROVISIONER).user(),
        }
    }

    /// Leads the role's way to the hub through a line, which a test may cut.
    async fn lead_through_a_line(&mut self, folder: &Path) -> Line {
        let (own, by_line) = (
            PathBuf::from(&self.arguments[2]),
            folder.join("provisioner-line.yaml"),
        );
        let line = through_a_line(&own, &by_line).await.expect("open a line");
        self.arguments[2] = by_line.into();
        line
    }

    async fn start(&self) {
        self.role.spawn(&self.arguments).await;
        self.role.ready().await;
    }

    /// Requests of the role that the hub has refused for want of a right.
    fn denied(&self, log: &AuditLog, mark: u64) -> Vec<String> {
        let all = log.since(mark, &self.user);
        let denied = all.iter().filter(|entry| entry.response_status.code == 403);
        denied
            .map(|entry| format!("{} {}", entry.action(), entry.request_uri))
            .collect()
    }

    /// Requests of the role on the hub, but for watches, Leases and Events.
    fn requests(&self, log: &AuditLog, mark: u64) -> Vec<String> {
        let counts = |entry: &Entry| {
            entry.user.username == self.user
                && entry.verb != "watch"
                && !["leases", "events"].contains(&&*entry.object_ref.resource)
        };
        let of_role = log.since(mark, &self.user).into_iter().filter(counts);
        of_role
            .map(|entry| format!("{} {}", entry.action(), entry.object_ref.name))
            .collect()
    }
}

fn cell(name: &str, secret: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"city": NEW.1, "agent": {"image": "registry.example.com/fedgate:1"},
        "provider": {"existing": {"kubeconfigSecret": secret}}}})
}

/// A Cell whose program an operator runs.
fn of_operator(name: &str) -> Value {
    let mut cell = cell(name, ADMIN);
    cell["spec"]["agent"] = json!({});
    cell
}

/// A Secret with the kubeconfig of a cluster's administrator, for the Cells of these names.
fn secret(name: &str, kubeconfig: &Path, cells: Option<&str>) -> Value {
    let text = std::fs::read(kubeconfig).expect("read the administrator's kubeconfig");
    let annotations = cells.map(|cells| json!({"fedgate.dev/cells": cells}));
    json!({"metadata": {"name": name, "annotations": annotations}, "data": {"kubeconfig": k8s_openapi::ByteString(text)}})
}

/// Waits until a condition of a Cell has this status and reason.
async fn one_says(hub: &Plane, cell: &str, said: [&str; 3]) -> Value {
    let [of, status, reason] = said;
    let what = format!("says {of}={status} {reason}");
    let test = |cell: &Value| crate::support::says(cell, said);
    hub.sees(&CELL, "", cell, &what, seconds(90), test).await
}

async fn says(hub: &Plane, of: &str, status: &str, reason: &str) -> Value {
    one_says(hub, NEW.0, [of, status, reason]).await
}

/// Runs a test with a cluster and the provisioner, and stops the programs of both.
async fn with_provisioner(case: &Case, body: impl AsyncFnOnce(&NewCell, &Provisioner)) {
    let new = case.suite.new_cell().await;
    let provisioner = Provisioner::new(case, &new).await;
    let ended = async {
        new.role.stop().await;
        provisioner.role.stop().await;
    };
    with_cleanup(body(&new, &provisioner), ended).await;
}

async fn p05_a_cell_is_made_by_one_apply_runs_drains_and_goes(case: Case) {
    with_provisioner(&case, async |new, provisioner| {
        life(&case, new, provisioner).await;
    })
    .await;
}

async fn life(case: &Case, new: &NewCell, provisioner: &Provisioner) {
    let (name, city) = NEW;
    let (hub, home) = (&case.hub, &provisioner.home);
    let begun = case.suite.hub_log.mark();
    provisioner.start().await;
    hub.create(&CELL, "", cell(name, ADMIN)).await;
    says(hub, "Validated", "False", "SecretMissing").await;

    // The steps go on by event, and only with a Secret that lists the Cell.
    home.create(&SECRET, SECRETS, secret(ADMIN, &new.cell, None))
        .await;
    let cell = says(hub, "Validated", "False", "NotForThisCell").await;
    assert_eq!(cell["status"]["phase"], "Failed");
    assert!(cell["metadata"]["finalizers"].is_null(), "{cell:#}");
    assert!(hub.get(&CLUSTER, "", name).await.is_none());
    let named = json!({"metadata": {"annotations": {"fedgate.dev/cells": format!("other, {name}")}}});
    home.merge(&SECRET, SECRETS, ADMIN, named).await;
    // The cell is opened only when its program runs, with the credential that the role has put there.
    let cell = says(hub, "AgentReady", "False", "AgentNotAvailable").await;
    assert_eq!(cell["status"]["phase"], "Provisioning");
    let cluster = hub.get(&CLUSTER, "", name).await.expect("the Cluster is there");
    assert!(cluster["metadata"]["labels"]["topology.datum.net/city-code"].is_null());
    start_program(new).await;
    let cell = says(hub, "Ready", "True", "Ready").await;
    assert_eq!(cell["status"]["phase"], "Provisioned");
    let cluster = hub.get(&CLUSTER, "", name).await.expect("the Cluster is there");
    assert_eq!(
        cluster["metadata"]["labels"]["fedgate.dev/made-by"],
        "provisioner"
    );
    assert_eq!(
        cluster["metadata"]["labels"]["topology.datum.net/city-code"],
        city
    );
    assert_eq!(cell["status"]["cluster"]["id"], cluster["spec"]["id"]);

    refused_to_commands(new).await;
    let wish = Wish {
        places: vec![("us".to_owned(), city.to_owned(), 1)],
        ..Wish::new("web", 1)
    };
    case.run(&wish).await;

    at_rest(case, new, provisioner).await;
    label_restored(hub).await;
    drained(case, &wish).await;
    new.role.stop().await;
    gone(case, new, provisioner).await;
    assert_eq!(provisioner.denied(&case.suite.hub_log, begun), [""; 0]);
    let log = provisioner.role.log_tail(usize::MAX);
    let kubeconfig = std::fs::read_to_string(&new.cell).expect("read it");
    let kubeconfig: Value = serde_saphyr::from_str(&kubeconfig).expect("it is YAML");
    let key = kubeconfig["users"][0]["user"]["client-key-data"].as_str();
    let key = key.expect("the administrator has a key");
    assert!(key.len() > 100 && !log.contains(key));
}

/// Starts the program of the cell, with the credential that the provisioner has put there.
async fn start_program(new: &NewCell) {
    let credential = new.role.plane.get(&SECRET, SYSTEM, "fedgate-hub").await;
    let credential = credential.expect("the program has a credential")["data"]["kubeconfig"].clone();
    let credential: k8s_openapi::ByteString = serde_json::from_value(credential).expect("base64");
    std::fs::write(&new.credential, credential.0).expect("write it");
    new.role.start().await;
}

/// A command undoes nothing that the role does.
async fn refused_to_commands(new: &NewCell) {
    let (name, city) = NEW;
    let both = [
        ("--hub-kubeconfig", new.hub.as_path()),
        ("--cell-kubeconfig", new.cell.as_path()),
    ];
    for command in [
        &["join", name, "--city", city][..],
        &["drain", name],
        &["leave", name],
    ] {
        let words = [&["cells"], command].concat();
        fedgate(&words, &both)
            .await
            .exits(4, "kubectl edit cells.fedgate.dev iad-1");
    }
    fedgate(&["cells", "uncordon", name], &both[..1])
        .await
        .exits(4, "Cell iad-1");
    let listed = fedgate(&["cells", "list"], &both[..1]).await.exits(0, name);
    let row = listed
        .stdout
        .lines()
        .find(|line| line.starts_with(name))
        .expect("it is listed");
    assert!(row.contains("provisioner"), "{row}");
}

/// A role that starts again proves an open cell by its status: it asks nothing of the cell, and writes nothing.
async fn at_rest(case: &Case, new: &NewCell, provisioner: &Provisioner) {
    provisioner.role.stop().await;
    let logs = [&case.suite.hub_log, &new.role.log];
    let marks = logs.map(AuditLog::mark);
    provisioner.start().await;
    // A change of another Cell shows that the role has looked at this one.
    case.hub.create(&CELL, "", cell("another", "none")).await;
    let test = |cell: &Value| cell["status"]["phase"] == "Failed";
    case.hub
        .sees(&CELL, "", "another", "is Failed", seconds(60), test)
        .await;
    case.hub.delete(&CELL, "", "another").await;
    let on_hub = provisioner.requests(logs[0], marks[0]);
    let on_hub: Vec<&String> = on_hub
        .iter()
        .filter(|request| !request.starts_with("list "))
        .collect();
    assert_eq!(on_hub, ["patch cells/status another"]);
    let at_member = logs[1].since(marks[1], "\"admin\"");
    let at_member: Vec<&str> = at_member.iter().map(|entry| entry.request_uri.as_str()).collect();
    assert_eq!(at_member, [""; 0]);
}

/// A label that somebody takes off comes back by event.
async fn label_restored(hub: &Plane) {
    let (name, city) = NEW;
    let label = |city: Value| json!({"metadata": {"labels": {"topology.datum.net/city-code": city}}});
    hub.merge(&CLUSTER, "", name, label(Value::Null)).await;
    let test = |cluster: &Value| cluster["metadata"]["labels"]["topology.datum.net/city-code"] == city;
    hub.sees(&CLUSTER, "", name, "has its city again", seconds(60), test)
        .await;
}

/// The only cell of a used city is not drained; it takes deployments again when it is Active again.
async fn drained(case: &Case, wish: &Wish) {
    let hub = &case.hub;
    let state = |state: &str| json!({"spec": {"state": state}});
    hub.merge(&CELL, "", NEW.0, state("Cordoned")).await;
    let cell = says(hub, "Ready", "False", "Cordoned").await;
    assert_eq!(cell["status"]["phase"], "Cordoned");
    hub.merge(&CELL, "", NEW.0, state("Drained")).await;
    let cell = says(hub, "Drained", "False", "LastCellOfCity").await;
    assert_eq!(cell["status"]["phase"], "Draining");
    case.runs(wish).await;
    hub.merge(&CELL, "", NEW.0, state("Active")).await;
    says(hub, "Ready", "True", "Ready").await;
    let cluster = hub.get(&CLUSTER, "", NEW.0).await.expect("the Cluster is there");
    assert!(
        !cluster["spec"].to_string().contains("fedgate.dev/"),
        "{cluster:#}"
    );
    // With the operator's word the deployments go.
    let outage = json!({"metadata": {"annotations": {"fedgate.dev/allow-outage": NEW.0}}});
    hub.merge(&CELL, "", NEW.0, outage).await;
    hub.merge(&CELL, "", NEW.0, state("Drained")).await;
    let cell = says(hub, "Drained", "True", "Drained").await;
    assert_eq!(cell["status"]["phase"], "Drained");
    case.delete(wish).await;
}

/// Nothing is left of a deleted Cell.
async fn gone(case: &Case, new: &NewCell, provisioner: &Provisioner) {
    let (hub, name) = (&case.hub, NEW.0);
    hub.delete(&CELL, "", name).await;
    hub.gone(&CELL, "", name, seconds(120)).await;
    assert!(hub.get(&CLUSTER, "", name).await.is_none());
    assert!(hub.get(&SECRET, "karmada-cluster", name).await.is_none());
    assert!(hub.get(&SERVICE_ACCOUNT, "fedgate-cells", name).await.is_none());
    let plane = &new.role.plane;
    for kind in [&SECRET, &CLUSTER_ROLE, &DEFINITION] {
        // The cluster itself ends the definitions.
        let none = async || {
            let left = plane.list(kind, "", "fedgate.dev/made-by").await;
            left.is_empty().then_some(())
        };
        wait_for(&format!("no marked {kind:?} is left"), seconds(60), none).await;
    }
    for namespace in ["karmada-cluster", SYSTEM] {
        plane.gone(&NAMESPACE, "", namespace, seconds(60)).await;
    }
    // The administrator's Secret is none of ours.
    assert!(provisioner.home.get(&SECRET, SECRETS, ADMIN).await.is_some());
    provisioner.home.delete(&SECRET, SECRETS, ADMIN).await;
    let told = wait_for("the Events are there", seconds(30), async || {
        let all = hub.list(&EVENT, "default", "").await;
        let mut of_cell = all.iter().filter(|event| event["regarding"]["kind"] == "Cell");
        of_cell.any(|event| event["reason"] == "Ready").then_some(())
    });
    told.await;
}

/// The Cluster of another program, the cell of a command, and the cluster of another Cell, whose objects there have the same mark.
async fn p07_what_another_has_is_neither_taken_nor_taken_away(case: Case) {
    let new = case.suite.new_cell().await;
    let provisioner = Provisioner::new(&case, &new).await;
    let test = async {
        provisioner.start().await;
        let home = &provisioner.home;
        home.create(&SECRET, SECRETS, secret(ADMIN, &new.cell, Some("*")))
            .await;

        home.create(&SECRET, SECRETS, secret(ALPHA, &new.project, Some("*")))
            .await;
        not_of_a_command(&case, &new, &provisioner).await;
        case.hub.create(&CELL, "", of_operator(NEW.0)).await;
        says(&case.hub, "Ready", "True", "Ready").await;
        not_of_another_cell(&case, &new, &provisioner).await;
        gone(&case, &new, &provisioner).await;
    };
    with_cleanup(test, provisioner.role.stop()).await;
}

/// The number of marked objects at the cluster.
async fn marked(new: &NewCell) -> usize {
    let mut count = 0;
    for kind in [&SECRET, &CLUSTER_ROLE, &DEFINITION] {
        count += new.role.plane.list(kind, "", "fedgate.dev/made-by").await.len();
    }
    count
}

/// A Cell with the kubeconfig of another cluster, or with another city, does nothing to the cell that a command has made, neither
/// drained nor deleted. The right one takes it over.
async fn not_of_a_command(case: &Case, new: &NewCell, provisioner: &Provisioner) {
    let (hub, (name, city)) = (&case.hub, NEW);
    let both = [
        ("--hub-kubeconfig", new.hub.as_path()),
        ("--cell-kubeconfig", new.cell.as_path()),
    ];
    fedgate(&["cells", "join", name, "--city", city], &both)
        .await
        .exits(0, "cell iad-1 serves IAD");
    let made = marked(new).await;
    let logs = [&case.suite.hub_log, &new.role.log, &case.suite.alpha_log];
    let marks = logs.map(AuditLog::mark);
    let mut mistaken = [of_operator(name), of_operator(name), of_operator(name)];
    mistaken[0]["spec"]["city"] = json!("LHR");
    mistaken[1]["spec"]["provider"]["existing"]["kubeconfigSecret"] = json!(ALPHA);
    mistaken[2]["spec"] = mistaken[1]["spec"].clone();
    mistaken[2]["spec"]["state"] = json!("Drained");
    let reasons = ["InvalidSpec", "MemberReplaced", "MemberReplaced"];
    for (cell, reason) in mistaken.into_iter().zip(reasons) {
        hub.create(&CELL, "", cell).await;
        let refused = says(hub, "Registered", "False", reason).await;
        let ready = crate::support::condition(&refused, "Ready").expect("it says whether it is ready");
        assert_eq!(ready["status"], "False", "{refused:#}");
        if refused["spec"]["state"] == "Drained" {
            // Nothing was written for the Cell, so that it goes without its Secret.
            provisioner.home.delete(&SECRET, SECRETS, ALPHA).await;
            says(hub, "Validated", "False", "SecretMissing").await;
        }
        hub.delete(&CELL, "", name).await;
        hub.gone(&CELL, "", name, seconds(60)).await;
    }
    assert_eq!(written(provisioner, logs[0], marks[0]), [""; 0]);
    assert_eq!(crate::membership::writes(&logs[1..], &marks[1..]), [""; 0]);
    assert_eq!(marked(new).await, made);
}

/// Writes of the role on the hub, but those of Cells.
fn written(provisioner: &Provisioner, log: &AuditLog, mark: u64) -> Vec<String> {
    let mut on_hub = provisioner.requests(log, mark);
    let is_read = |request: &String| {
        ["get ", "list ", "patch cells"]
            .iter()
            .any(|verb| request.starts_with(verb))
    };
    on_hub.retain(|request| !is_read(request));
    on_hub
}

async fn not_of_another_cell(case: &Case, new: &NewCell, provisioner: &Provisioner) {
    let (hub, dfw) = (&case.hub, case.dfw().name.as_str());
    let (made, logs) = (marked(new).await, [&case.suite.hub_log, &new.role.log]);
    let marks = logs.map(AuditLog::mark);
    for other in [dfw, "copy"] {
        hub.create(&CELL, "", of_operator(other)).await;
    }
    let taken = one_says(hub, dfw, ["Validated", "False", "NameTaken"]).await;
    assert!(taken["metadata"]["finalizers"].is_null(), "{taken:#}");
    let copy = one_says(hub, "copy", ["Registered", "False", "DuplicateMember"]).await;
    assert_eq!(copy["status"]["phase"], "Failed");
    for other in [dfw, "copy"] {
        hub.delete(&CELL, "", other).await;
        hub.gone(&CELL, "", other, seconds(60)).await;
    }
    assert_eq!(written(provisioner, logs[0], marks[0]), [""; 0]);
    assert_eq!(crate::membership::writes(&logs[1..], &marks[1..]), [""; 0]);
    assert!(hub.get(&CLUSTER, "", dfw).await.is_some());
    assert_eq!(marked(new).await, made);
}

/// The objects at a cluster that does not answer are left only by an operator's word, and an Event says so.
async fn p36_a_cell_whose_cluster_is_gone_waits_until_it_is_abandoned(case: Case) {
    with_provisioner(&case, async |new, provisioner| {
        abandoned(&case, new, provisioner).await;
    })
    .await;
}

async fn abandoned(case: &Case, new: &NewCell, provisioner: &Provisioner) {
    let (hub, home, name) = (&case.hub, &provisioner.home, NEW.0);
    let kubeconfig = case.suite.dir.join("iad-1-by-a-line.yaml");
    let line = through_a_line(&new.cell, &kubeconfig).await.expect("open a line");
    provisioner.start().await;
    home.create(&SECRET, SECRETS, secret(ADMIN, &kubeconfig, Some(name)))
        .await;
    hub.create(&CELL, "", cell(name, ADMIN)).await;
    says(hub, "AgentReady", "False", "AgentNotAvailable").await;
    start_program(new).await;
    says(hub, "Ready", "True", "Ready").await;
    let wish = Wish {
        places: vec![("us".to_owned(), NEW.1.to_owned(), 1)],
        ..Wish::new("web", 1)
    };
    case.run(&wish).await;
    new.role.stop().await;
    line.cut();
    // The cell is drained, though its cluster does not answer and nobody takes its Instance back.
    let drained = json!({"spec": {"state": "Drained"}, "metadata": {"annotations": {"fedgate.dev/allow-outage": name}}});
    hub.merge(&CELL, "", name, drained).await;
    says(hub, "Drained", "False", "Emptying").await;
    hub.delete(&CELL, "", name).await;
    let waits = says(hub, "Drained", "False", "MemberUnreachable").await;
    assert_eq!(waits["status"]["phase"], "Deleting");
    assert!(hub.get(&CLUSTER, "", name).await.is_some());
    let abandoned = json!({"metadata": {"annotations": {"fedgate.dev/abandon": name}}});
    hub.merge(&CELL, "", name, abandoned).await;
    hub.gone(&CELL, "", name, seconds(90)).await;
    assert!(hub.get(&CLUSTER, "", name).await.is_none());
    assert!(hub.get(&SECRET, "karmada-cluster", name).await.is_none());
    let told = async || {
        let all = hub.list(&EVENT, "default", "").await;
        all.iter()
            .any(|event| event["reason"] == "Abandoned")
            .then_some(())
    };
    wait_for("an Event says what is left", seconds(30), told).await;
    line.restore();
    home.delete(&SECRET, SECRETS, ADMIN).await;
    case.delete(&wish).await;
    // An operator clears what ran there, because the program of the cell has lost its credential.
    let plane = &new.role.plane;
    for kind in [&INSTANCE, &DEPLOYMENT] {
        for object in plane.list(kind, &case.hub_ns, "").await {
            let own = object["metadata"]["name"].as_str().expect("it has a name");
            let bare = json!({"metadata": {"finalizers": null}});
            plane.merge(kind, &case.hub_ns, own, bare).await;
        }
    }
    plane.delete(&NAMESPACE, "", &case.hub_ns).await;
    plane.gone(&NAMESPACE, "", &case.hub_ns, seconds(60)).await;
    // A command takes away what was left.
    let both = [
        ("--hub-kubeconfig", new.hub.as_path()),
        ("--cell-kubeconfig", new.cell.as_path()),
    ];
    fedgate(&["cells", "leave", name], &both)
        .await
        .exits(0, "cell iad-1 has left");
    for namespace in ["karmada-cluster", SYSTEM] {
        new.role.plane.gone(&NAMESPACE, "", namespace, seconds(60)).await;
    }
}
