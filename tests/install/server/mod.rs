//! The chart, the overlays and the documents meet real API servers: one sandbox for all of it.

mod by_hand;
mod documents;
mod dry_run;
mod release;

use crate::{
    objects::Objects,
    tools::{HELM, KUBECTL, built, run_with},
};
use anyhow::Result;
use fedgate_sandbox::{HubControllers, Options, Progress, Sandbox};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Hub, a project, a cell and the cluster of the gateway's Pods, each a context of kubectl by its name.
pub(crate) struct Planes {
    kubeconfig: PathBuf,
    folder: PathBuf,
}

impl Planes {
    fn run(&self, program: &Path, arguments: &[&str], input: &str) -> Result<String, String> {
        let home = self.folder.join("helm");
        let variables = [
            ("KUBECONFIG", self.kubeconfig.as_path()),
            ("HELM_CACHE_HOME", &home),
            ("HELM_CONFIG_HOME", &home),
            ("HELM_DATA_HOME", &home),
        ];
        run_with(program, arguments, &variables, input)
    }

    /// kubectl in a context.
    pub(crate) fn try_kubectl(
        &self,
        context: &str,
        arguments: &[&str],
        input: &str,
    ) -> Result<String, String> {
        let all = [&["--context", context], arguments].concat();
        self.run(&KUBECTL, &all, input)
    }

    pub(crate) fn kubectl(&self, context: &str, arguments: &[&str], input: &str) -> String {
        self.try_kubectl(context, arguments, input)
            .unwrap_or_else(|said| panic!("kubectl --context {context} {arguments:?}: {said}"))
    }

    /// `kubectl set image` of `container=image` in a Deployment of ours, which takes the field from its owner.
    pub(crate) fn set_image(&self, context: &str, deployment: &str, image: &str) {
        let set = ["-n", "fedgate-system", "set", "image", deployment, image];
        self.kubectl(context, &set, "");
    }

    /// Helm in a context, with the release's record where the documents have it.
    pub(crate) fn try_helm(&self, context: &str, arguments: &[&str]) -> Result<String, String> {
        let all = [
            arguments,
            &["--kube-context", context, "--namespace", "kube-system"],
        ]
        .concat();
        self.run(&HELM, &all, "")
    }

    pub(crate) fn helm(&self, context: &str, arguments: &[&str]) -> String {
        self.try_helm(context, arguments)
            .unwrap_or_else(|said| panic!("helm {arguments:?} in {context}: {said}"))
    }

    /// A file of this run.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The objects as they are on the server.
    pub(crate) fn get(&self, context: &str, objects: &Objects) -> Vec<Value> {
        let list = Value::from_iter([
            ("apiVersion", "v1".into()),
            ("kind", "List".into()),
            ("items", objects.values().cloned().collect::<Value>()),
        ]);
        let found = self.kubectl(context, &["get", "-f", "-", "-o", "json"], &list.to_string());
        let found: Value = serde_json::from_str(&found).unwrap();
        let items = found["items"].as_array().cloned().unwrap_or_else(|| vec![found]);
        assert_eq!(items.len(), objects.len());
        items
    }

    /// The versions of the objects on the server.
    pub(crate) fn versions(&self, context: &str, objects: &Objects) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let found = self.get(context, objects).into_iter();
        found
            .map(|object| {
                let metadata = &object["metadata"];
                let name = format!("{} {}", text(&object["kind"]), text(&metadata["name"]));
                (name, text(&metadata["resourceVersion"]))
            })
            .collect()
    }

    /// Definitions of prometheus-operator on a plane.
    fn define_monitoring(&self, context: &str) {
        let folder = built("prometheus-operator-definitions");
        let mut arguments = vec!["apply", "--server-side"];
        let files = ["servicemonitors", "podmonitors", "prometheusrules"]
            .map(|kind| folder.join(format!("monitoring.coreos.com_{kind}.yaml")));
        for file in &files {
            arguments.extend(["-f", file.to_str().unwrap()]);
        }
        self.kubectl(context, &arguments, "");
        let kind = "customresourcedefinitions/servicemonitors.monitoring.coreos.com";
        self.kubectl(
            context,
            &["wait", "--for=condition=Established", "--timeout=60s", kind],
            "",
        );
    }
}

/// Numbers 54, 55, 56 and 58.
#[test]
#[ignore = "verify: Helm and kubectl install"]
fn real_api_servers_take_what_is_installed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("install");
    let options = Options {
        projects: ["alpha", "dfw-1", "host"].map(str::to_owned).into(),
        cells: Vec::new(),
        hub_controllers: HubControllers::Nobody,
        progress: Progress::new(|line| eprintln!("sandbox: {line}")),
        ..Options::new(folder.join("sandbox"), env!("CARGO_BIN_EXE_fedgate-sandbox"))
    };
    let sandbox: Sandbox = runtime.block_on(Sandbox::up(options)).unwrap();
    let planes = Planes {
        kubeconfig: sandbox.merged_kubeconfig(),
        folder,
    };
    for context in ["hub", "host"] {
        planes.define_monitoring(context);
    }
    dry_run::every_object_is_accepted(&planes);
    documents::each_way_is_as_install_md_says(&planes);
    planes.kubectl("host", &["delete", "namespace", "fedgate-system"], "");
    release::comes_changes_goes_back_and_leaves(&planes);
    release::gives_a_field_back_that_another_command_took(&planes);
    by_hand::an_overlay_gives_a_field_back_that_another_command_took(&planes);
    runtime.block_on(sandbox.down()).unwrap();
}
