//! The sandbox itself: planes come up, can be stopped and started, and leave nothing behind.

use anyhow::{Context, Result};
use fedgate::sandbox::{HubControllers, Manifest, Options, Progress, Sandbox, User};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::{Api, api::ListParams};
use std::path::Path;

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
    let sandbox = Sandbox::up(options("sandbox")?).await?;
    for plane in ["hub", "alpha", "beta", "dfw-1", "lhr-1"] {
        let namespaces: Api<Namespace> = Api::all(sandbox.client(plane, User::Admin)?);
        namespaces
            .get("kube-system")
            .await
            .with_context(|| plane.to_owned())?;
    }
    let gateway = sandbox.client("hub", User::Gateway)?;
    Api::<ConfigMap>::all(gateway.clone()).list(&ListParams::default()).await?;
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

    let audit = std::fs::read_to_string(sandbox.audit_log("hub")?)?;
    assert!(
        audit.contains(r#""username":"fedgate-gateway""#),
        "the refused request is in the audit log"
    );
    sandbox.down().await?;
    Ok(())
}
