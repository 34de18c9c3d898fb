//! The Deployment of `join` against Karmada's own program and its own manifest: flags, their defaults, and how it is started.

use super::agent::executable;
use serde_json::Value;
use std::path::PathBuf;
use tokio::process::Command;

/// The flags that the Deployment gives or whose defaults it counts on, as `karmada-agent --help` says them: the unit tests
/// of `crates/operator/src/membership/pull.rs` compare the Deployment with them.
const FLAGS: &str = include_str!("flags.txt");

/// A line with single spaces.
fn normal(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Karmada's program knows the flags and has their defaults, and its image and manifest start it the same way. Nothing is
/// checked with the stand-in.
pub(super) async fn fits(deployment: &Value) {
    let Some(program) = executable() else {
        return;
    };
    let help = Command::new(program).arg("--help").output().await;
    let help = help.expect("karmada-agent says its flags");
    let help = [help.stdout, help.stderr].concat();
    let said: Vec<String> = String::from_utf8_lossy(&help).lines().map(normal).collect();
    for flag in FLAGS.lines() {
        assert!(
            said.iter().any(|line| line == flag),
            "{flag:?} is not in {said:#?}"
        );
    }

    let dir = std::env::var_os("KARMADA_MANIFESTS_DIR").expect("Karmada's tree is given with its programs");
    let read = |path: &str| {
        let path = PathBuf::from(&dir).join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    // The placeholders of its installation are no YAML.
    let manifest = read("artifacts/agent/karmada-agent.yaml")
        .replace("{{", "")
        .replace("}}", "");
    let theirs: Value = serde_saphyr::from_str(&manifest).expect("the agent's manifest is YAML");
    let [ours, theirs] = [deployment, &theirs].map(|deployment| &deployment["spec"]["template"]["spec"]);
    assert_eq!(ours["serviceAccountName"], theirs["serviceAccountName"]);
    let [ours, theirs] = [ours, theirs].map(|pod| &pod["containers"][0]);
    assert_eq!(ours["command"][0], theirs["command"][0]);
    let [probe, their_probe] = [ours, theirs].map(|container| &container["livenessProbe"]["httpGet"]);
    assert_eq!(probe["path"], their_probe["path"]);
    let ports = ours["ports"].as_array().expect("it has ports");
    let named = ports.iter().find(|port| port["name"] == probe["port"]);
    assert_eq!(
        named.expect("the probe's port is there")["containerPort"],
        their_probe["port"]
    );
    let image = read("cluster/images/Dockerfile");
    assert!(image.contains("COPY ${BINARY} /bin/${BINARY}"), "{image}");
}
