//! The settings of a cell: every flag with its environment variable and meaning.

use super::{ConfigError, ProcessArgs};
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
pub enum ProviderName {
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
    pub cell_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the Karmada hub to which Instances are written back. Without a hub, the cell is standalone: one
    /// API server has all objects.
    #[arg(long, env = "FEDGATE_HUB_KUBECONFIG", value_name = "PATH")]
    pub hub_kubeconfig: Option<PathBuf>,
    /// Name of the cell's Karmada Cluster. Required with a hub or with quota.
    #[arg(long, env = "FEDGATE_CELL_NAME", value_name = "NAME")]
    pub name: Option<String>,
    /// Name of this cell's location, instead of its `ServingLocation`.
    #[arg(long, env = "FEDGATE_LOCATION", value_name = "NAME", requires = "city")]
    pub location: Option<String>,
    /// City code of this cell, instead of its `ServingLocation`'s.
    #[arg(long, env = "FEDGATE_CITY", value_name = "CODE", requires = "location")]
    pub city: Option<String>,
    /// Give Instances a network before they start: `NetworkBindings` and the objects derived from them. Needs the kinds
    /// of networking.datumapis.com/v1alpha at the cell.
    #[arg(long, env = "FEDGATE_NETWORKING", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub networking: bool,
    /// Let Instances wait for the `ConfigMaps` and Secrets that they reference.
    #[arg(long, env = "FEDGATE_REFERENCED_DATA", value_name = "BOOL", default_value = "true", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub referenced_data: bool,
    /// Request quota: kubeconfig of the platform's API server, which serves every project's control plane under a path.
    #[arg(long, env = "FEDGATE_QUOTA_KUBECONFIG", value_name = "PATH", conflicts_with_all = ["quota_directory", "quota_project"])]
    pub quota_kubeconfig: Option<PathBuf>,
    /// Request quota: folder with a kubeconfig of each project's control plane; a file's name without extension is the
    /// project's key.
    #[arg(
        long,
        env = "FEDGATE_QUOTA_DIRECTORY",
        value_name = "DIR",
        conflicts_with = "quota_project"
    )]
    pub quota_directory: Option<PathBuf>,
    /// Request quota in a standalone cell: id of its only project, whose claims are in the cell's own API server.
    #[arg(long, env = "FEDGATE_QUOTA_PROJECT", value_name = "ID", value_parser = project, conflicts_with = "hub_kubeconfig")]
    pub quota_project: Option<ProjectKey>,
    /// Request no more quota, and release existing claims: together with the quota flags that reach the projects, until
    /// `fedgate_release_records` is 0.
    #[arg(long, env = "FEDGATE_QUOTA_RELEASE", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub quota_release: bool,
    /// Program that runs the Instances.
    #[arg(long, env = "FEDGATE_PROVIDER", value_enum, default_value = "pod")]
    pub provider: ProviderName,
    /// Flags for the Pods.
    #[command(flatten)]
    pub pods: PodSettings,
    /// Size of an instance type, as name=cpu:memory, for example acme/large=4:8Gi; may be repeated.
    #[arg(long = "instance-type", env = "FEDGATE_INSTANCE_TYPE", value_name = "NAME=CPU:MEMORY", value_parser = instance_type, value_delimiter = ',')]
    pub instance_types: Vec<(String, InstanceSize)>,
    /// Maximum number of Instances of a deployment, up to 10000. A deployment that requests more gets none, and a
    /// condition reports the limit.
    #[arg(long, env = "FEDGATE_MAX_REPLICAS", value_name = "COUNT", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REPLICAS)))]
    pub max_replicas: u32,
    /// Allow interfaces to name Networks of other namespaces than their deployment's.
    #[arg(long, env = "FEDGATE_CROSS_NAMESPACE_NETWORKS", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub cross_namespace_networks: bool,
    /// The cell's own namespace, with its Lease and the records of claims and objects that must still be released
    /// elsewhere.
    #[arg(
        long,
        env = "FEDGATE_NAMESPACE",
        value_name = "NS",
        default_value = "fedgate-system"
    )]
    pub namespace: String,
    /// Name of the Lease.
    #[arg(
        long,
        env = "FEDGATE_LEASE_NAME",
        value_name = "NAME",
        default_value = "fedgate-cell"
    )]
    pub lease_name: String,
    /// Interval at which each deployment may have one more status write. Three changes in a row are written at once,
    /// and a change of Available does not wait behind others.
    #[arg(long, env = "FEDGATE_STATUS_INTERVAL", value_name = "DURATION", value_parser = duration, default_value = "250ms")]
    pub status_interval: Duration,
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

/// A cell's settings, complete and consistent.
#[derive(Debug, Clone)]
pub struct CellConfig {
    /// Kubeconfig of the cell; `None` is the service account of the Pod.
    pub cell_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the hub, if there is one.
    pub hub_kubeconfig: Option<PathBuf>,
    /// The API server in which quota is claimed.
    pub quota: Quota,
    /// The role's settings.
    pub settings: Settings,
    /// Namespace and name of the Lease; `None` without election.
    pub lease: Option<(String, String)>,
    /// Settings of the process.
    pub process: ProcessArgs,
}

impl Quota {
    /// The source of quota; at most one of the flags is given.
    fn of(below: Option<PathBuf>, directory: Option<PathBuf>, own: Option<ProjectKey>) -> Self {
        match (below, directory, own) {
            (Some(path), _, _) => Self::Below(path),
            (_, Some(path), _) => Self::Directory(path),
            (_, _, Some(project)) => Self::Own(project),
            (None, None, None) => Self::Off,
        }
    }
}

impl CellArgs {
    /// Checks that the flags are consistent.
    pub fn into_config(self) -> Result<CellConfig, ConfigError> {
        // Destructured in full: a flag that is added and not handled here does not compile.
        let Self {
            cell_kubeconfig,
            hub_kubeconfig,
            name,
            location,
            city,
            networking,
            referenced_data,
            quota_kubeconfig,
            quota_directory,
            quota_project,
            quota_release,
            provider,
            pods,
            instance_types,
            max_replicas,
            cross_namespace_networks,
            namespace,
            lease_name,
            status_interval,
            process,
        } = self;
        process.check()?;
        let quota = Quota::of(quota_kubeconfig, quota_directory, quota_project);
        if name.is_none() && (hub_kubeconfig.is_some() || quota != Quota::Off) {
            return Err(ConfigError::Together {
                flag: "--name",
                problem: "is missing, and with a hub or quota others must know whose objects they see",
                next: "give the name of the cell's Karmada Cluster (or FEDGATE_CELL_NAME)",
            });
        }
        if quota_release && quota == Quota::Off {
            return Err(ConfigError::Together {
                flag: "--quota-release",
                problem: "has no way to the projects whose claims it is to release",
                next: "give --quota-kubeconfig, --quota-directory or --quota-project as before",
            });
        }
        let mut sizes = InstanceTypes::default();
        for (name, size) in instance_types {
            sizes.insert(&name, size);
        }
        let project = match &quota {
            Quota::Own(project) => Some(project.clone()),
            _ => None,
        };
        let settings = Settings {
            cell: name.unwrap_or_default().into(),
            place: location.map(Into::into).zip(city.map(Into::into)),
            networking,
            data: referenced_data,
            hub: hub_kubeconfig.is_some(),
            quota: quota != Quota::Off && !quota_release,
            project,
            namespace: (*namespace).into(),
            provider: provider == ProviderName::Pod,
            pods,
            sizes,
            max_replicas,
            cross_namespace_networks,
            status_interval,
        };
        Ok(CellConfig {
            cell_kubeconfig,
            hub_kubeconfig,
            quota,
            settings,
            lease: process.lease(namespace, lease_name),
            process,
        })
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

    fn parse(arguments: &[&str]) -> Result<CellConfig, String> {
        #[derive(Debug, Parser)]
        struct Cell {
            #[command(flatten)]
            args: CellArgs,
        }
        let parsed = Cell::try_parse_from(["fedgate"].iter().chain(arguments)).map_err(|e| e.to_string())?;
        parsed.args.into_config().map_err(|e| e.to_string())
    }

    #[test]
    fn a_cell_that_stands_alone_needs_nothing() {
        let config = parse(&[]).unwrap();
        assert_eq!(config.quota, Quota::Off);
        assert!(config.settings.provider && config.settings.data);
        assert!(!config.settings.hub && !config.settings.networking && !config.settings.quota);
        assert_eq!(
            config.lease,
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
        assert!(!config.settings.quota && config.quota != Quota::Off);
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
        let pods = &config.settings.pods;
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
        assert_eq!(config.settings.sizes.footprint(&spec).unwrap().size, size);
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
