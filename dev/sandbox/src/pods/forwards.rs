//! Ports of Pods that lead to ports of this machine, and files that are their logs: KWOK plays the kubelet.

use crate::{certs::write, layout::Layout, ports::free_port};
use std::{collections::BTreeMap, fmt::Write, path::PathBuf};

/// A cell's forwards.
#[derive(Debug, Clone)]
pub(crate) struct Forwards {
    /// The port at which KWOK answers the API server.
    pub(super) kubelet: u16,
    /// A port of this machine for each Pod; every port of the Pod leads there.
    pub(crate) targets: BTreeMap<String, u16>,
}

impl Forwards {
    /// Forwards for Pods of these names, in any namespace; `None` without any.
    pub(crate) fn new(pods: &[String]) -> anyhow::Result<Option<Self>> {
        if pods.is_empty() {
            return Ok(None);
        }
        let targets = pods.iter().map(|pod| Ok((pod.clone(), free_port()?)));
        Ok(Some(Self {
            kubelet: free_port()?,
            targets: targets.collect::<anyhow::Result<_>>()?,
        }))
    }

    /// Writes KWOK's configuration of a cell's forwards, and returns its flags.
    pub(super) fn flags(&self, cell: &str, layout: &Layout) -> anyhow::Result<[String; 3]> {
        let path = path(cell, layout);
        let mut text = String::new();
        for (pod, port) in &self.targets {
            let log = log(cell, pod, layout);
            let log = log.display();
            let _ = write!(
                text,
                "---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterPortForward\nmetadata: {{name: {pod}}}\n\
                 spec:\n  selector: {{matchNames: [{pod}]}}\n  forwards:\n  - target: {{address: 127.0.0.1, port: {port}}}\n\
                 ---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterLogs\nmetadata: {{name: {pod}}}\n\
                 spec:\n  selector: {{matchNames: [{pod}]}}\n  logs:\n  - {{logsFile: {log:?}, previousLogsFile: {log:?}}}\n"
            );
        }
        write(&path, &text)?;
        Ok([
            format!("--config={}", path.display()),
            format!("--server-address=127.0.0.1:{}", self.kubelet),
            format!("--node-port={}", self.kubelet),
        ])
    }
}

/// The file that is the log of a Pod's containers, of this start and the one before.
pub(crate) fn log(cell: &str, pod: &str, layout: &Layout) -> PathBuf {
    layout.logs().join(format!("{cell}-{pod}.container.log"))
}

fn path(cell: &str, layout: &Layout) -> PathBuf {
    layout.pki().join(format!("kwok-forwards-{cell}.yaml"))
}
