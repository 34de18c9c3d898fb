//! The sandbox itself: planes come up, can be stopped and started, and leave nothing behind.

mod proxy;

use anyhow::{Context, Result};
use fedgate_sandbox::{HubControllers, Manifest, Options, Progress, Sandbox, User};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use kube_runtime::wait::await_condition;
use serde_json::{Value, json};
use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    sync::Mutex,
    time::timeout,
};

/// One sandbox at a time: each takes two cores and two gigabytes.
static ALONE: Mutex<()> = Mutex::const_new(());

fn dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn options(name: &str) -> Result<Options> {
    Ok(Options {
        manifests: Manifest::builtin()?,
        hub_controllers: HubControllers::Nobody,
        progress: Progress::new(|line| eprintln!("sandbox: {line}")),
        ..Options::new(dir(name), env!("CARGO_BIN_EXE_fedgate-sandbox"))
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "verify: planes of its own"]
async fn planes_come_up_stop_start_and_go() -> Result<()> {
    let _alone = ALONE.lock().await;
    let sandbox = Sandbox::up(options("sandbox")?).await?;
    for plane in ["hub", "alpha", "beta", "dfw-1", "lhr-1"] {
        let namespaces: Api<Namespace> = Api::all(sandbox.client(plane, User::Admin)?);
        namespaces
            .get("kube-system")
            .await
            .with_context(|| plane.to_owned())?;
    }
    let gateway = sandbox.client("hub", User::Gateway)?;
    Api::<ConfigMap>::all(gateway.clone())
        .list(&ListParams::default())
        .await?;
    let refused = Api::<Pod>::all(gateway).list(&ListParams::default()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.is_forbidden()));

    let namespaces: Api<Namespace> = Api::all(sandbox.client("alpha", User::Admin)?);
    let uid = namespaces.get("kube-system").await?.metadata.uid;
    let dump = sandbox.dump().await;
    for expected in [
        "Cluster /dfw-1",
        "Namespace /fedgate-system",
        "hub-kube-apiserver.log",
    ] {
        assert!(dump.contains(expected), "{expected} is missing in {dump}");
    }
    sandbox.stop_plane("alpha").await?;
    namespaces.get("kube-system").await.unwrap_err();
    sandbox.start_plane("alpha").await?;
    assert_eq!(namespaces.get("kube-system").await?.metadata.uid, uid);

    let audit = std::fs::read_to_string(sandbox.audit_log("hub"))?;
    assert!(
        audit.contains(r#""username":"fedgate-gateway""#),
        "the refused request is in the audit log"
    );
    sandbox.down().await?;
    Ok(())
}

fn fedgate(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate-sandbox"));
    command.args(args).arg("--dir").arg(dir);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

async fn kill(pid: &serde_json::Value) -> Result<()> {
    let status = Command::new("kill")
        .arg("-9")
        .arg(pid.to_string())
        .status()
        .await?;
    anyhow::ensure!(status.success(), "kill -9 {pid}: {status}");
    Ok(())
}

fn nothing_runs(dir: &Path) -> Result<bool> {
    Ok(File::options()
        .read(true)
        .write(true)
        .open(dir.join("processes.lock"))?
        .try_lock()
        .is_ok())
}

const SMALL: [&str; 4] = [
    "up",
    "--no-hub-controllers",
    "--project=alpha",
    "--cell=dfw-1=DFW",
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "verify: planes of its own"]
async fn nothing_is_left_whoever_is_killed_and_down_always_works() -> Result<()> {
    let _alone = ALONE.lock().await;
    let dir = dir("crash");

    let up = fedgate(&dir, &SMALL).output().await?;
    assert!(up.status.success(), "{}", text(&up));
    let again = fedgate(&dir, &SMALL).output().await?;
    assert!(
        !again.status.success() && text(&again).contains("is in use"),
        "{}",
        text(&again)
    );
    let env = fedgate(&dir, &["env"]).output().await?;
    assert!(text(&env).contains("export KUBECONFIG="), "{}", text(&env));
    let status = fedgate(&dir, &["status"]).output().await?;
    assert!(
        text(&status).contains("dfw-1 kube-apiserver"),
        "{}",
        text(&status)
    );

    // etcd loses its holder, then all lose their owner.
    let state: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.join("state.json"))?)?;
    assert_eq!(state["processes"][0]["name"], "etcd");
    kill(&state["processes"][0]["pid"]).await?;
    kill(&state["owner"]).await?;
    for _ in 0..2 {
        let down = fedgate(&dir, &["down"]).output().await?;
        assert!(down.status.success(), "{}", text(&down));
        assert!(nothing_runs(&dir)?);
    }
    assert!(!dir.join("kubeconfig").exists(), "credentials are removed");

    // Down while it is starting.
    let mut up = fedgate(&dir, &SMALL).spawn()?;
    let progress = up.stderr.take().context("stderr")?;
    let first = BufReader::new(progress).lines().next_line().await?;
    assert!(first.is_some_and(|line| line.contains("etcd is ready")));
    let down = fedgate(&dir, &["down"]).output().await?;
    assert!(down.status.success(), "{}", text(&down));
    assert!(!up.wait().await?.success());
    assert!(nothing_runs(&dir)?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_fails_is_named_with_its_log() -> Result<()> {
    let _alone = ALONE.lock().await;
    let options = Options {
        hub_controllers: HubControllers::Karmada {
            bin_dir: Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
            manifests_dir: "nowhere".into(),
        },
        ..options("wrong")?
    };
    let error = Sandbox::up(options)
        .await
        .err()
        .context("a folder without executables")?
        .to_string();
    assert!(
        error.contains("KARMADA_BIN_DIR") && error.contains("controller-manager"),
        "{error}"
    );

    let with_milo = Options {
        platform: true,
        milo: Some("/bin/false".into()),
        ..Options::new(dir("wrong"), env!("CARGO_BIN_EXE_fedgate-sandbox"))
    };
    let error = Sandbox::up(with_milo)
        .await
        .err()
        .context("a Milo that fails")?
        .to_string();
    assert!(
        error.contains("milo apiserver ended while starting") && error.contains("milo-apiserver.log"),
        "{error}"
    );

    let options = Options {
        holder: "/bin/false".into(),
        ..Options::new(dir("wrong"), "/bin/false")
    };
    let error = Sandbox::up(options)
        .await
        .err()
        .context("a holder that fails")?
        .to_string();
    assert!(
        error.contains("etcd ended while starting") && error.contains("etcd.log"),
        "{error}"
    );
    Ok(())
}

/// One object, made in `default` or, without a namespace, in the whole plane.
struct Played {
    api: Api<DynamicObject>,
    resource: ApiResource,
    name: String,
}

impl Played {
    fn of(client: &Client, group: &str, version: &str, kind: &str, name: &str) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Self {
            api: Api::namespaced_with(client.clone(), "default", &resource),
            resource,
            name: name.to_owned(),
        }
    }

    async fn create(self, rest: Value) -> Result<Self> {
        let mut object = rest;
        object["metadata"]["name"] = json!(self.name);
        object["apiVersion"] = json!(self.resource.api_version);
        object["kind"] = json!(self.resource.kind);
        let object = serde_json::from_value(object)?;
        self.api
            .create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("create {}", self.name))?;
        Ok(self)
    }

    /// Waits until the object is as wanted.
    async fn becomes(&self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let is = |object: Option<&DynamicObject>| object.is_some_and(|object| wanted(&object.data));
        let wait = await_condition(self.api.clone(), &self.name, is);
        if let Ok(found) = timeout(Duration::from_secs(30), wait).await {
            return Ok(found?.context("it is gone")?.data);
        }
        let last = self.api.get(&self.name).await?.data;
        anyhow::bail!("{} stays as it is: {last}", self.name)
    }

    async fn says(&self, type_: &str, status: &str, reason: &str) -> Result<Value> {
        self.becomes(|object| {
            let conditions = object["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                condition["type"] == type_ && condition["status"] == status && condition["reason"] == reason
            })
        })
        .await
    }
}

async fn pod(client: &Client, name: &str, image: &str) -> Result<Played> {
    Played::of(client, "", "v1", "Pod", name)
        .create(json!({
            "metadata": {"annotations": {"sandbox.fedgate.dev/stop-after": "1"}},
            "spec": {"containers": [{"name": "web", "image": image}]},
        }))
        .await
}

async fn pod_runs(client: &Client, name: &str) -> Result<()> {
    let running = pod(client, name, "shop/web:1").await?;
    let running = running
        .becomes(|pod| {
            pod["status"]["conditions"]
                .as_array()
                .is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
        })
        .await?;
    assert_eq!(running["status"]["phase"], "Running");
    assert!(running["status"]["podIP"].is_string(), "{running}");
    Ok(())
}

async fn pods_do_what_their_images_say(client: &Client) -> Result<()> {
    pod_runs(client, "web").await?;
    let broken = pod(client, "broken", "shop/broken:1").await?;
    let crashing = pod(client, "crashing", "shop/crashing:1").await?;
    let exits = pod(client, "exits", "shop/exits:1").await?;
    let waits = |reason: &'static str| {
        move |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
    };
    let seen = broken.becomes(waits("ImagePullBackOff")).await?;
    assert_eq!(seen["status"]["phase"], "Pending");
    let seen = crashing.becomes(waits("CrashLoopBackOff")).await?;
    assert_eq!(seen["status"]["phase"], "Running");
    let last = &seen["status"]["containerStatuses"][0]["lastState"];
    assert_eq!(last["terminated"]["exitCode"], 1);
    let seen = exits.becomes(|pod| pod["status"]["phase"] == "Succeeded").await?;
    let state = &seen["status"]["containerStatuses"][0]["state"];
    assert_eq!(state["terminated"]["exitCode"], 0);

    // A stopping Pod is there until its time is over.
    let begun = std::time::Instant::now();
    broken.api.delete("broken", &DeleteParams::default()).await?;
    let gone = await_condition(broken.api.clone(), "broken", |pod: Option<&DynamicObject>| {
        pod.is_none()
    });
    timeout(Duration::from_secs(30), gone).await??;
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    Ok(())
}

const NETWORKING: &str = "networking.datumapis.com";

async fn networking_answers(client: &Client) -> Result<()> {
    let of = |kind: &str, name: &str| Played::of(client, NETWORKING, "v1alpha", kind, name);
    let spec = |network: &str| json!({"spec": {"network": {"name": network}, "location": {"name": "dfw-1"}}});
    let binding = of("NetworkBinding", "web-net-0").create(spec("default")).await?;
    let bound = binding.says("Ready", "True", "NetworkContextReady").await?;
    assert_eq!(
        bound["status"]["networkContextRef"],
        json!({"namespace": "default", "name": "default-dfw-1"})
    );
    let claim = of("SubnetClaim", "default-dfw-1-0")
        .create(json!({"spec": {
            "subnetClass": "private", "ipFamily": "IPv4",
            "networkContext": {"name": "default-dfw-1"}, "location": {"name": "dfw-1"},
        }}))
        .await?;
    let claimed = claim.says("Ready", "True", "SubnetReady").await?;
    assert_eq!(claimed["status"]["subnetRef"]["name"], "default-dfw-1-0");
    let missing = of("NetworkBinding", "missing-net-0")
        .create(spec("missing"))
        .await?;
    missing.says("Ready", "False", "NetworkNotFound").await?;
    let another = json!({"spec": {"network": {"name": "another"}}});
    let changed = binding
        .api
        .patch("web-net-0", &PatchParams::default(), &Patch::Merge(another))
        .await;
    assert!(matches!(changed, Err(kube::Error::Api(status)) if status.message.contains("immutable")));

    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(NETWORKING, "v1alpha", "ServingLocation"));
    let locations: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let tell = async |word: Value| {
        let patch = json!({"metadata": {"annotations": {"sandbox.fedgate.dev/network": word}}});
        locations
            .patch("dfw-1", &PatchParams::default(), &Patch::Merge(patch))
            .await
    };
    let told = tell(json!("stall")).await?;
    assert_eq!(
        told.data["spec"]["topology"]["topology.datum.net/city-code"],
        "DFW"
    );
    let other = of("NetworkBinding", "other-net-0").create(spec("other")).await?;
    other.says("Ready", "Unknown", "Pending").await?;
    tell(json!("fail")).await?;
    other.says("Ready", "False", "NetworkFailedToCreate").await?;
    tell(Value::Null).await?;
    other.says("Ready", "True", "NetworkContextReady").await?;
    Ok(())
}

async fn claims_are_granted_within_budgets(client: &Client) -> Result<()> {
    let claim = |name: &str| {
        Played::of(client, "quota.miloapis.com", "v1alpha1", "ResourceClaim", name).create(json!({"spec": {
            "resourceRef": {"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": "alpha"},
            "requests": [
                {"resourceType": "compute.datumapis.com/instances", "amount": 1},
                {"resourceType": "compute.datumapis.com/vcpus", "amount": 1000},
            ],
        }}))
    };
    let budgets = Played::of(client, "", "v1", "ConfigMap", "sandbox-budgets")
        .create(json!({"data": {"vcpus": "none"}}))
        .await?;
    let first = claim("instance-web-0").await?;
    first.says("Granted", "False", "PendingEvaluation").await?;
    let patch = json!({"data": {"vcpus": "1500"}});
    budgets
        .api
        .patch(&budgets.name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    first.says("Granted", "True", "QuotaAvailable").await?;
    let second = claim("instance-web-1").await?;
    let denied = second.says("Granted", "False", "QuotaExceeded").await?;
    assert_eq!(denied["status"]["conditions"][0]["message"], "vcpus over limit");
    let of_types: Vec<&Value> = denied["status"]["allocations"]
        .as_array()
        .context("allocations")?
        .iter()
        .map(|allocation| &allocation["status"])
        .collect();
    assert_eq!(of_types, ["Granted", "Denied"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "verify: planes of its own"]
async fn cells_run_pods_and_networking_and_quota_answer() -> Result<()> {
    let _alone = ALONE.lock().await;
    let mut options = Options {
        pods: true,
        backends: true,
        ..options("played")?
    };
    options.projects.truncate(1);
    options.cells.truncate(1);
    let sandbox = Sandbox::up(options).await?;
    let (cell, project) = (
        sandbox.client("dfw-1", User::Admin)?,
        sandbox.client("alpha", User::Admin)?,
    );
    let checks = async {
        pods_do_what_their_images_say(&cell).await?;
        networking_answers(&cell).await?;
        claims_are_granted_within_budgets(&project).await?;
        // All of them find their plane again.
        sandbox.stop_plane("dfw-1").await?;
        sandbox.start_plane("dfw-1").await?;
        pod_runs(&cell, "later").await
    };
    if let Err(error) = checks.await {
        anyhow::bail!("{error:#}\n{}", sandbox.dump().await);
    }

    // The user of a cell's claims is known to the project, whatever it may do there.
    let claims = sandbox.client("alpha", User::Quota("dfw-1"))?;
    let refused = Api::<Pod>::all(claims).list(&ListParams::default()).await;
    assert!(
        matches!(refused, Err(kube::Error::Api(status)) if status.is_forbidden() && status.message.contains("fedgate-quota:dfw-1"))
    );
    assert!(sandbox.quota_kubeconfigs("dfw-1").join("alpha.yaml").is_file());
    sandbox.down().await?;
    Ok(())
}
