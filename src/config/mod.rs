//! The settings of the roles: every flag with its environment variable and meaning.

mod cell;
mod process;
mod projects;
mod provisioner;
mod returns;

pub use cell::{CellArgs, Quota};
pub use process::ProcessArgs;
pub use projects::{ProjectArgs, ProjectMode};
pub(crate) use provisioner::ProviderArg;
pub use provisioner::ProvisionerArgs;
pub use returns::ReturnsArgs;

use clap::{Args, ValueEnum};
use fedgate_cell::instance_types::InstanceSize;
use fedgate_engine::plane::client::Clients;
use fedgate_gateway::{
    rate_limit::Limits,
    settings::{LARGEST_SPEC, LocationSource, Settings},
};
use fedgate_operator::args::{KindsArgs, duration};
use std::{path::PathBuf, time::Duration};

/// Tokens that the administrative address accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AdminAuth {
    /// The token of the file alone.
    Token,
    /// Tokens of the hub, too.
    Hub,
}

/// Flags of `fedgate gateway`; each has an environment variable `FEDGATE_…`.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct GatewayArgs {
    /// Kubeconfig of the Karmada hub. Read again when the file changes.
    #[arg(long, env = "FEDGATE_HUB_KUBECONFIG", value_name = "PATH")]
    pub(crate) hub_kubeconfig: PathBuf,
    /// Where the projects are.
    #[command(flatten)]
    pub(crate) projects: ProjectArgs,
    /// The kinds beside those that are loaded by default.
    #[command(flatten)]
    pub(crate) kinds: KindsArgs,
    /// Write the kinds' interpreters to the hub, and restore them when they are changed.
    #[arg(long, env = "FEDGATE_MANAGE_INTERPRETERS", value_name = "BOOL", default_value = "true", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) manage_interpreters: bool,
    /// Namespace of the Lease, on the hub.
    #[arg(
        long,
        env = "FEDGATE_LEASE_NAMESPACE",
        value_name = "NS",
        default_value = "fedgate-system"
    )]
    pub(crate) lease_namespace: String,
    /// Name of the Lease.
    #[arg(
        long,
        env = "FEDGATE_LEASE_NAME",
        value_name = "NAME",
        default_value = "fedgate-gateway"
    )]
    pub(crate) lease_name: String,
    /// How long a hub namespace still reaches a city after the last deployment of that city is gone.
    #[arg(long, env = "FEDGATE_CITY_LINGER", value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub(crate) city_linger: Duration,
    /// Time after which a cell that is not ready counts as lost: its deployments move to other cells of the city.
    #[arg(long, env = "FEDGATE_CELL_LOST_AFTER", value_name = "DURATION", value_parser = duration, default_value = "5m")]
    pub(crate) cell_lost_after: Duration,
    /// Maximum number of moves in a city that were planned or begun within the last 30 s.
    #[arg(long, env = "FEDGATE_MOVES_PER_CITY", value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) moves_per_city: u16,
    /// Time within which a deployment that moves to another cell must become ready there. After that time the move is
    /// cancelled if the former cell serves.
    #[arg(long, env = "FEDGATE_MOVE_TIMEOUT", value_name = "DURATION", value_parser = duration, default_value = "10m")]
    pub(crate) move_timeout: Duration,
    /// Maximum number of different city sets that the namespaces of one project may use: each needs a policy for the
    /// whole hub.
    #[arg(long, env = "FEDGATE_CITY_SETS_PER_PROJECT", value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) city_sets_per_project: u32,
    /// Time after which a city set's policy that no namespace uses is deleted.
    #[arg(long, env = "FEDGATE_UNUSED_CITY_SET_AFTER", value_name = "DURATION", value_parser = duration, default_value = "5m")]
    pub(crate) unused_city_set_after: Duration,
    /// How long an empty hub namespace is kept after its project namespace is deleted.
    #[arg(long, env = "FEDGATE_HUB_NAMESPACE_RETENTION", value_name = "DURATION", value_parser = duration, default_value = "10m")]
    pub(crate) hub_namespace_retention: Duration,
    /// How long projections are kept after the hub has lost their write-backs among many, while the cells have written back
    /// fewer Instances than they report.
    #[arg(long, env = "FEDGATE_PROJECTION_RETENTION", value_name = "DURATION", value_parser = duration, default_value = "1h")]
    pub(crate) projection_retention: Duration,
    /// Interval at which objects that may be garbage or stuck are reconciled again, without requests.
    #[arg(long, env = "FEDGATE_SWEEP_INTERVAL", value_name = "DURATION", value_parser = duration, default_value = "5m")]
    pub(crate) sweep_interval: Duration,
    /// How long a hub object must have lacked its origin before it is deleted.
    #[arg(long, env = "FEDGATE_ORPHAN_AFTER", value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub(crate) orphan_after: Duration,
    /// Time after which a deletion no longer waits for cells that do not answer, or never.
    #[arg(long, env = "FEDGATE_RELEASE_AFTER", value_name = "DURATION", value_parser = duration_or_never, default_value = "never")]
    pub(crate) release_after: ReleaseAfter,
    /// Reject write-backs without a controller reference to their copy.
    #[arg(long, env = "FEDGATE_REQUIRE_OWNER", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) require_owner: bool,
    /// Objects of the project that tell its locations: deployments are created only in cities and at locations that one of
    /// them tells and that is not Ready=False, and where `ServiceAvailability` of services.miloapis.com/v1alpha1 is served,
    /// one of service compute must be Available there; existing deployments stay. With none, every place may be used, and
    /// a placement's locationSelector resolves to nothing. Needs permission to list and watch these kinds in every
    /// project: until their lists are complete, a project's Workloads wait. Kinds that a project does not serve are looked
    /// for again, later every ten minutes.
    #[arg(
        long,
        env = "FEDGATE_LOCATION_SOURCE",
        value_name = "SOURCE",
        value_enum,
        default_value = "none"
    )]
    pub(crate) location_source: LocationSource,
    /// Act on a Workload only if the Networks of networking.datumapis.com/v1alpha that its interfaces name exist in the
    /// project; running Instances stay. Needs that kind and permission to list and watch it in every project: until its
    /// list is complete, a project's Workloads wait.
    #[arg(long, env = "FEDGATE_NETWORKING", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) networking: bool,
    /// Maximum size of the spec of a Workload, and of a deployment that is synced to the hub, as JSON; if a spec is larger,
    /// the hub keeps the last one that fitted.
    #[arg(long, env = "FEDGATE_MAX_SPEC_SIZE", value_name = "SIZE", value_parser = size, default_value = "256Ki")]
    pub(crate) max_spec_size: u32,
    /// An instance type that Workloads may name beside the built-in ones, as the cells' flag of this name has it; may be repeated.
    #[arg(long = "instance-type", env = "FEDGATE_INSTANCE_TYPE", value_name = "NAME=CPU:MEMORY", value_parser = cell::instance_type, value_delimiter = ',')]
    pub(crate) instance_types: Vec<(String, InstanceSize)>,
    /// Allow interfaces of Workloads to name Networks of other namespaces, as the cells' flag of this name does.
    #[arg(long, env = "FEDGATE_CROSS_NAMESPACE_NETWORKS", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) cross_namespace_networks: bool,
    /// Interval at which each object may have one more status write. Three changes in a row are written at once, and a
    /// change of Ready or Available does not wait behind others.
    #[arg(long, env = "FEDGATE_STATUS_INTERVAL", value_name = "DURATION", value_parser = duration, default_value = "250ms")]
    pub(crate) status_interval: Duration,
    /// Copies and companions per second that are written to the hub for all projects whose bursts are used up; the
    /// projects share them equally. 0 is no limit. Each write makes Karmada write eight or nine objects.
    #[arg(
        long,
        env = "FEDGATE_HUB_WRITE_RATE",
        value_name = "NUMBER",
        default_value = "5"
    )]
    pub(crate) hub_write_rate: u32,
    /// Number of new copies and companions of one project that are written to the hub at once.
    #[arg(long, env = "FEDGATE_HUB_CREATE_BURST", value_name = "NUMBER", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hub_create_burst: u32,
    /// Number of changed copies and companions of one project that are written to the hub at once.
    #[arg(long, env = "FEDGATE_HUB_UPDATE_BURST", value_name = "NUMBER", default_value = "8", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hub_update_burst: u32,
    /// Shortest time between two changes of one copy or companion; the first change is written at once.
    #[arg(long, env = "FEDGATE_HUB_UPDATE_INTERVAL", value_name = "DURATION", value_parser = duration, default_value = "500ms")]
    pub(crate) hub_update_interval: Duration,
    /// Tokens that the admin address accepts: that of --admin-token-file alone, or those of the hub too, whose users need
    /// get on the resources of operations.fedgate.dev there (role fedgate-operations-viewer).
    #[arg(
        long,
        env = "FEDGATE_ADMIN_AUTH",
        value_name = "MODE",
        value_enum,
        default_value = "token"
    )]
    pub(crate) admin_auth: AdminAuth,
    /// Flags of every role.
    #[command(flatten)]
    pub process: ProcessArgs,
}

/// See [`GatewayArgs::release_after`]; `None` waits forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReleaseAfter(pub Option<Duration>);

impl GatewayArgs {
    /// Checks that the flags are consistent.
    pub fn check(&self) -> anyhow::Result<()> {
        self.projects.check()?;
        self.process.check()
    }

    /// Namespace and name of the Lease; `None` without election.
    pub fn lease(&self) -> Option<(String, String)> {
        self.process.lease(&self.lease_namespace, &self.lease_name)
    }

    /// The controllers' settings.
    pub fn settings(&self) -> Settings {
        Settings {
            city_linger: self.city_linger,
            cell_lost_after: self.cell_lost_after,
            moves_per_city: self.moves_per_city.into(),
            move_timeout: self.move_timeout,
            city_sets_per_project: self.city_sets_per_project as usize,
            unused_city_set_after: self.unused_city_set_after,
            hub_namespace_retention: self.hub_namespace_retention,
            projection_retention: self.projection_retention,
            orphan_after: self.orphan_after,
            sweep_interval: self.sweep_interval,
            release_after: self.release_after.0,
            require_owner: self.require_owner,
            manage_interpreters: self.manage_interpreters,
            max_spec_size: self.max_spec_size,
            // Sizes are the cells' matter.
            instance_types: self.instance_types.iter().map(|(name, _)| name.clone()).collect(),
            cross_namespace_networks: self.cross_namespace_networks,
            status_interval: self.status_interval,
            hub_limits: Limits {
                rate: self.hub_write_rate,
                create_burst: self.hub_create_burst,
                update_burst: self.hub_update_burst,
                update_interval: self.hub_update_interval,
            },
            location_source: self.location_source,
            networking: self.networking,
        }
    }
}

/// The settings of a gateway that has only the flags that it needs; variables of the environment count.
#[cfg(feature = "checks")]
pub fn default_settings() -> anyhow::Result<Settings> {
    #[derive(clap::Parser)]
    struct Gateway {
        #[command(flatten)]
        args: GatewayArgs,
    }
    let given = ["fedgate gateway", "--hub-kubeconfig", "-"];
    let parsed = <Gateway as clap::Parser>::try_parse_from(given)?;
    Ok(parsed.args.settings())
}

/// Parses `4096` or `256Ki` to bytes.
fn size(text: &str) -> Result<u32, String> {
    let units = [("Mi", 1024 * 1024), ("Ki", 1024), ("", 1)];
    let bytes = units.into_iter().find_map(|(unit, of)| {
        let count: u32 = text.strip_suffix(unit)?.parse().ok()?;
        count.checked_mul(of)
    });
    match bytes {
        None => Err(format!("{text:?} is no size; write for example 4096 or 256Ki")),
        Some(0) => Err("a size of nothing carries nothing; write for example 256Ki".to_owned()),
        Some(bytes) if bytes > LARGEST_SPEC => Err(format!(
            "{text:?} is more than 256Ki, the largest spec that comes back from a cell and is projected"
        )),
        Some(bytes) => Ok(bytes),
    }
}

fn duration_or_never(text: &str) -> Result<ReleaseAfter, String> {
    if text == "never" {
        Ok(ReleaseAfter(None))
    } else {
        duration(text).map(|d| ReleaseAfter(Some(d)))
    }
}

/// Clients with the default limits, counted in `metrics`.
pub fn clients(metrics: &fedgate_engine::metrics::Metrics) -> Clients {
    Clients::new(
        fedgate_engine::plane::client::Limits::default(),
        metrics.families.clone(),
    )
}

#[cfg(test)]
mod tests;
