//! The commands that ask a running gateway or cell: status, stuck, trace, journal and console (contract: operations.md §3).

use clap::{Args, ValueEnum};
use fedgate_manifests::{NAMESPACE, PROVISIONER};
use fedgate_operations::Class;
use fedgate_terminal::{style::ColorChoice, time::duration};
use std::{path::PathBuf, time::Duration};

/// How the replicas are reached.
#[derive(Debug, Args)]
pub struct WayArgs {
    /// URL of an administrative address; without it the Pods of the cluster that the kubeconfig names are asked.
    #[arg(long, value_name = "URL")]
    pub server: Option<http::Uri>,
    /// File with the token of the administrative address; without it the Secret `fedgate-admin` is read.
    #[arg(long, value_name = "PATH")]
    pub token_file: Option<PathBuf>,
    /// Kubeconfig of the cluster that runs the Pods; without it kubectl's rules apply.
    #[arg(long, value_name = "PATH", conflicts_with = "server")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without it the current one.
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    pub context: Option<String>,
    /// Ask the Pods of the provisioner, in Namespace fedgate-provisioner unless --namespace says another.
    #[arg(long, conflicts_with = "server")]
    pub provisioner: bool,
    /// Namespace of the Pods.
    #[arg(long, short, value_name = "NAME", default_value = NAMESPACE, default_value_if("provisioner", "true", PROVISIONER))]
    pub namespace: String,
    /// The credential for the administrative address: its token, or the kubeconfig's own token.
    #[arg(
        long,
        value_enum,
        value_name = "WAY",
        default_value = "token",
        conflicts_with = "server"
    )]
    pub admin_auth: AdminAuth,
    /// Time for one request, e.g. 10s or 1m.
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "10s")]
    pub timeout: Duration,
}

impl WayArgs {
    /// The Pods of the cluster of a kubeconfig, as they are installed.
    pub fn of_host(kubeconfig: PathBuf) -> Self {
        Self {
            server: None,
            token_file: None,
            kubeconfig: Some(kubeconfig),
            context: None,
            provisioner: false,
            namespace: NAMESPACE.to_owned(),
            admin_auth: AdminAuth::Token,
            timeout: Duration::from_secs(10),
        }
    }
}

/// How the replicas are reached, and how results are printed.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// How the replicas are reached.
    #[command(flatten)]
    pub way: WayArgs,
    /// Print no line of column names.
    #[arg(long)]
    pub no_headers: bool,
    /// When colours are used.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
}

/// The credential for the administrative address of a Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AdminAuth {
    /// The token of the Secret `fedgate-admin`.
    Token,
    /// The kubeconfig's own token, for gateways with `--admin-auth=hub`.
    Hub,
}

/// Format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// Columns.
    Table,
    /// More columns, or more rows.
    Wide,
    /// The answer of the operations API.
    Json,
    /// A name a line.
    Name,
}

/// Format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// A line for each city.
    Tree,
    /// A row for each hop.
    Table,
    /// A table with more columns.
    Wide,
    /// The answer of the operations API.
    Json,
    /// The object's name.
    Name,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Ask the Pods of the cell program, in its own cluster.
    #[arg(long)]
    pub cell: bool,
    /// Show it again at each change, until Ctrl-C.
    #[arg(long, short)]
    pub watch: bool,
    /// Format of the result.
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "table")]
    pub output: ListFormat,
    /// How the replicas are reached.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Arguments of `stuck`.
#[derive(Debug, Args)]
pub struct StuckArgs {
    /// Only this class; `unavailable` is shown only if it is named.
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub class: Option<Class>,
    /// Only this project.
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,
    /// Only this cell; without a name, ask the Pods of the cell program, in its own cluster.
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    #[allow(
        clippy::option_option,
        reason = "clap's form of a flag with an optional value"
    )]
    pub cell: Option<Option<String>>,
    /// How long an object does not go on before it is stuck; 60 s unless set.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub stuck_for: Option<Duration>,
    /// Show it again at each change, until Ctrl-C.
    #[arg(long, short)]
    pub watch: bool,
    /// Format of the result.
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "table")]
    pub output: ListFormat,
    /// How the replicas are reached.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// The project.
    #[arg(value_name = "PROJECT")]
    pub project: String,
    /// Namespace and name in the project.
    #[arg(value_name = "NAMESPACE/NAME", value_parser = ObjectName::parse)]
    pub object: ObjectName,
    /// Resource of the object, e.g. `workloads`; without it Workloads, deployments, then Instances are looked at.
    #[arg(long, value_name = "RESOURCE")]
    pub kind: Option<String>,
    /// Show it again at each change, until it is whole or Ctrl-C.
    #[arg(long, short)]
    pub watch: bool,
    /// Format of the result.
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "tree")]
    pub output: TraceFormat,
    /// How the replicas are reached.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Arguments of `journal`.
#[derive(Debug, Args)]
pub struct JournalArgs {
    /// Only writes of this project.
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,
    /// Only writes of this object.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = ObjectName::parse)]
    pub object: Option<ObjectName>,
    /// Ask the Pods of the cell program, in its own cluster.
    #[arg(long)]
    pub cell: bool,
    /// Print new writes as they happen, until Ctrl-C.
    #[arg(long, short)]
    pub follow: bool,
    /// Format of the result.
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value = "table")]
    pub output: ListFormat,
    /// How the replicas are reached.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Arguments of `console`.
#[derive(Debug, Args)]
pub struct ConsoleArgs {
    /// Port of 127.0.0.1 to listen on; 0 is any free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Print the address, and open no browser.
    #[arg(long)]
    pub no_open: bool,
    /// How the replicas are reached.
    #[command(flatten)]
    pub way: WayArgs,
}

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectName {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("it must be NAMESPACE/NAME".to_owned()),
        }
    }
}

fn class(text: &str) -> Result<Class, String> {
    Class::parse(text).ok_or_else(|| {
        let classes = Class::WORDS.join(", ");
        format!("the classes are {classes}")
    })
}
