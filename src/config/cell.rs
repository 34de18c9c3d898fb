//! The settings of a cell: every flag with its environment variable and meaning.

use super::ProcessArgs;
use anyhow::ensure;
use clap::{Args, ValueEnum};
use fedgate_api::{Quantity, names::ProjectKey};
use fedgate_cell::{
    instance_types::{InstanceSize, InstanceTypes},
    settings::{MAX_REPLICAS, PodSettings, Settings},
};
use fedgate_operator::args::duration;
use std::{path::PathBuf, time::Duration};

/// The program that runs the Instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProviderName {
    /// Pods of this cell.
    Pod,
    /// Another program.
    None,
}

/// Flags of `fedgate cell`; each has an environment variable `FEDGATE_…`.
#[derive(Debug, Clone, Args)]
// Each flag is an independent switch.
#[allow(clippy::struct_excessive_bools)]
pub struct CellArgs {
    /// Kubeconfig of the cell's own API server. Default: the service account of the Pod.
    #[arg(long, env = "FEDGATE_CELL_KUBECONFIG", value_name = "PATH")]
    pub(crate) cell_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the Karmada hub to which Instances are written back. Without a hub, the cell is standalone: one
    /// API server has all objects.
    #[arg(long, env = "FEDGATE_HUB_KUBECONFIG", value_name = "PATH")]
    pub(crate) hub_kubeconfig: Option<PathBuf>,
    /// Name of the cell's Karmada Cluster. Required with a hub or with quota.
    #[arg(long, env = "FEDGATE_CELL_NAME", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Name of this cell's location, instead of its `ServingLocation`.
    #[arg(long, env = "FEDGATE_LOCATION", value_name = "NAME", requires = "city")]
    pub(crate) location: Option<String>,
    /// City code of this cell, instead of its `ServingLocation`'s.
    #[arg(long, env = "FEDGATE_CITY", value_name = "CODE", requires = "location")]
    pub(crate) city: Option<String>,
    /// Give Instances a network before they start: `NetworkBindings` and the objects derived from them. Needs the kinds
    /// of networking.datumapis.com/v1alpha at the cell.
    #[arg(long, env = "FEDGATE_NETWORKING", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) networking: bool,
    /// Let Instances wait for the `ConfigMaps` and Secrets that they reference.
    #[arg(long, env = "FEDGATE_REFERENCED_DATA", value_name = "BOOL", default_value = "true", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) referenced_data: bool,
    /// Request quota: kubeconfig of the platform's API server, which serves every project's control plane under a path.
    #[arg(long, env = "FEDGATE_QUOTA_KUBECONFIG", value_name = "PATH", conflicts_with_all = ["quota_directory", "quota_project"])]
    pub(crate) quota_kubeconfig: Option<PathBuf>,
    /// Request quota: folder with a kubeconfig of each project's control plane; a file's name without extension is the
    /// project's key.
    #[arg(
        long,
        env = "FEDGATE_QUOTA_DIRECTORY",
        value_name = "DIR",
        conflicts_with = "quota_project"
    )]
    pub(crate) quota_directory: Option<PathBuf>,
    /// Request quota in a standalone cell: id of its only project, whose claims are in the cell's own API server.
    #[arg(long, env = "FEDGATE_QUOTA_PROJECT", value_name = "ID", value_parser = project, conflicts_with = "hub_kubeconfig")]
    pub(crate) quota_project: Option<ProjectKey>,
    /// Request no more quota, and release existing claims: together with the quota flags that reach the projects, until
    /// `fedgate_release_records` is 0.
    #[arg(long, env = "FEDGATE_QUOTA_RELEASE", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) quota_release: bool,
    /// Program that runs the Instances.
    #[arg(long, env = "FEDGATE_PROVIDER", value_enum, default_value = "pod")]
    pub(crate) provider: ProviderName,
    /// Flags for the Pods.
    #[command(flatten)]
    pub(crate) pods: PodSettings,
    /// Size of an instance type, as name=cpu:memory, for example acme/large=4:8Gi; may be repeated.
    #[arg(long = "instance-type", env = "FEDGATE_INSTANCE_TYPE", value_name = "NAME=CPU:MEMORY", value_parser = instance_type, value_delimiter = ',')]
    pub(crate) instance_types: Vec<(String, InstanceSize)>,
    /// Maximum number of Instances of a deployment, up to 10000. A deployment that requests more gets none, and a
    /// condition reports the limit.
    #[arg(long, env = "FEDGATE_MAX_REPLICAS", value_name = "COUNT", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REPLICAS)))]
    pub(crate) max_replicas: u32,
    /// Allow interfaces to name Networks of other namespaces than their deployment's.
    #[arg(long, env = "FEDGATE_CROSS_NAMESPACE_NETWORKS", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) cross_namespace_networks: bool,
    /// The cell's own namespace, with its Lease and the records of claims and objects that must still be released
    /// elsewhere.
    #[arg(
        long,
        env = "FEDGATE_NAMESPACE",
        value_name = "NS",
        default_value = "fedgate-system"
    )]
    pub(crate) namespace: String,
    /// Name of the Lease.
    #[arg(
        long,
        env = "FEDGATE_LEASE_NAME",
        value_name = "NAME",
        default_value = "fedgate-cell"
    )]
    pub(crate) lease_name: String,
    /// Interval at which each deployment may have one more status write. Three changes in a row are written at once,
    /// and a change of Available does not wait behind others.
    #[arg(long, env = "FEDGATE_STATUS_INTERVAL", value_name = "DURATION", value_parser = duration, default_value = "250ms")]
    pub(crate) status_interval: Duration,
    /// Flags of every role.
    #[command(flatten)]
    pub process: ProcessArgs,
}

/// The API server in which quota is claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quota {
    /// No quota.
    Off,
    /// Projects that one API server serves, each under a path.
    Below(PathBuf),
    /// Projects with one kubeconfig each.
    Directory(PathBuf),
    /// The cell's own API server.
    Own(ProjectKey),
}

impl CellArgs {
    /// Checks that the flags are consistent.
    pub fn check(&self) -> anyhow::Result<()> {
        self.process.check()?;
        let has_quota = self.quota() != Quota::Off;
        ensure!(
            self.name.is_some() || self.hub_kubeconfig.is_none() && !has_quota,
            "--name: is missing, and with a hub or quota others must know whose objects they see; give the name of the cell's Karmada Cluster (or FEDGATE_CELL_NAME)"
        );
        ensure!(
            has_quota || !self.quota_release,
            "--quota-release: has no way to the projects whose claims it is to release; give --quota-kubeconfig, --quota-directory or --quota-project as before"
        );
        Ok(())
    }

    /// The API server in which quota is claimed; at most one of the flags is given.
    pub fn quota(&self) -> Quota {
        match (&self.quota_kubeconfig, &self.quota_directory, &self.quota_project) {
            (Some(path), _, _) => Quota::Below(path.clone()),
            (_, Some(path), _) => Quota::Directory(path.clone()),
            (_, _, Some(project)) => Quota::Own(project.clone()),
            (None, None, None) => Quota::Off,
        }
    }

    /// Namespace and name of the Lease; `None` without election.
    pub fn lease(&self) -> Option<(String, String)> {
        self.process.lease(&self.namespace, &self.lease_name)
    }

    fn sizes(&self) -> InstanceTypes {
        let mut sizes = InstanceTypes::default();
        for (name, size) in &self.instance_types {
            sizes.insert(name, *size);
        }
        sizes
    }

    /// The settings of the index and the controllers.
    pub fn settings(&self) -> Settings {
        let text = |text: &Option<String>| text.as_deref().map(Into::into);
        Settings {
            cell: self.name.as_deref().unwrap_or_default().into(),
            place: text(&self.location).zip(text(&self.city)),
            networking: self.networking,
            data: self.referenced_data,
            hub: self.hub_kubeconfig.is_some(),
            quota: self.quota() != Quota::Off && !self.quota_release,
            project: match self.quota() {
                Quota::Own(project) => Some(project),
                _ => None,
            },
            namespace: (*self.namespace).into(),
            provider: self.provider == ProviderName::Pod,
            pods: self.pods.clone(),
            sizes: self.sizes(),
            max_replicas: self.max_replicas,
            cross_namespace_networks: self.cross_namespace_networks,
            status_interval: self.status_interval,
        }
    }
}

fn project(text: &str) -> Result<ProjectKey, String> {
    ProjectKey::parse(text).map_err(|e| e.to_string())
}

pub(super) fn instance_type(text: &str) -> Result<(String, InstanceSize), String> {
    let form = || format!("{text:?} is no size; write name=cpu:memory, for example acme/large=4:8Gi");
    let (name, size) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(form)?;
    let (cpu, memory) = size.split_once(':').ok_or_else(form)?;
    let quantity = |text: &str| Quantity::Text(text.to_owned());
    let size = InstanceSize::of(&quantity(cpu), &quantity(memory)).ok_or_else(form)?;
    Ok((name.to_owned(), size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use fedgate_cell::settings::Security;
    use serde_json::json;

    fn parse(arguments: &[&str]) -> Result<CellArgs, String> {
        #[derive(Debug, Parser)]
        struct Cell {
            #[command(flatten)]
            args: CellArgs,
        }
        let parsed = Cell::try_parse_from(["fedgate"].iter().chain(arguments)).map_err(|e| e.to_string())?;
        parsed.args.check().map_err(|e| e.to_string())?;
        Ok(parsed.args)
    }

    #[test]
    fn a_cell_that_stands_alone_needs_nothing() {
        let config = parse(&[]).unwrap();
        assert_eq!(config.quota(), Quota::Off);
        let settings = config.settings();
        assert!(settings.provider && settings.data);
        assert!(!settings.hub && !settings.networking && !settings.quota);
        assert_eq!(
            config.lease(),
            Some(("fedgate-system".to_owned(), "fedgate-cell".to_owned()))
        );
    }

    #[test]
    fn with_a_hub_or_quota_it_has_a_name() {
        for flags in [["--hub-kubeconfig", "/hub"], ["--quota-project", "shop"]] {
            let error = parse(&flags).unwrap_err();
            assert!(
                error.contains("--name") && error.contains("FEDGATE_CELL_NAME"),
                "{error}"
            );
            assert!(parse(&[flags[0], flags[1], "--name", "cell-1"]).is_ok());
        }
    }

    #[test]
    fn quota_is_switched_off_with_the_way_to_what_was_claimed() {
        let error = parse(&["--quota-release"]).unwrap_err();
        assert!(error.contains("--quota-directory"), "{error}");
        let config = parse(&["--quota-release", "--quota-directory=/p", "--name=a"]).unwrap();
        assert!(!config.settings().quota && config.quota() != Quota::Off);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for flags in [
            &["--location", "dfw-1"][..],
            &["--quota-project=shop", "--hub-kubeconfig=/hub", "--name=a"],
            &["--quota-project=shop", "--quota-directory=/p", "--name=a"],
        ] {
            assert!(parse(flags).is_err(), "{flags:?}");
        }
    }

    #[test]
    fn pods_are_set_up_as_it_is_written() {
        let config = parse(&[
            "--pod-node-selector=type=virtual",
            "--pod-toleration=virtual=yes:NoSchedule,gpu:NoExecute",
            "--instance-type=acme/large=4:8Gi",
            "--service-single-port-443",
        ])
        .unwrap();
        let pods = config.settings().pods;
        assert_eq!(pods.pod_security, Security::Restricted);
        assert!(pods.service_single_port_443);
        assert_eq!(pods.node_selector, [("type".to_owned(), "virtual".to_owned())]);
        assert_eq!(
            pods.tolerations,
            [
                json!({"key": "virtual", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}),
                json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}),
            ]
        );
        let spec = json!({"runtime": {"resources": {"instanceType": "acme/large"}}});
        let size = InstanceSize {
            millicores: 4000,
            mebibytes: 8192,
        };
        assert_eq!(config.settings().sizes.footprint(&spec).unwrap().size, size);
        for bad in [
            "--pod-toleration=a=b:Sometimes",
            "--pod-node-selector=a",
            "--instance-type=a=4",
            "--max-replicas=0",
            "--max-replicas=10001",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }
}
