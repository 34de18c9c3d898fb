//! The sandbox itself: planes come up, can be stopped and started, and leave nothing behind.

use anyhow::{Context, Result};
use fedgate::sandbox::{HubControllers, Manifest, Options, Progress, Sandbox, User};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::{Api, api::ListParams};
use std::{
    fs::File,
    path::Path,
    process::{Output, Stdio},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    sync::Mutex,
};

/// One sandbox at a time: each takes two cores and two gigabytes.
static ALONE: Mutex<()> = Mutex::const_new(());

fn options(name: &str) -> Result<Options> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    Ok(Options {
        manifests: Manifest::builtin()?,
        hub_controllers: HubControllers::Nobody,
        progress: Progress::new(|line| eprintln!("sandbox: {line}")),
        ..Options::new(dir, env!("CARGO_BIN_EXE_fedgate"))
    })
}

#[tokio::test(flavor = "multi_thread")]
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate"));
    command.arg("sandbox").args(args).arg("--dir").arg(dir);
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
async fn nothing_is_left_whoever_is_killed_and_down_always_works() -> Result<()> {
    let _alone = ALONE.lock().await;
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crash");

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

    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong");
    let options = Options {
        holder: "/bin/false".into(),
        ..Options::new(dir, "/bin/false")
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
