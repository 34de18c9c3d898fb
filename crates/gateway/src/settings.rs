//! The gateway's settings, from flags.

use super::rate_limit::Limits;
use std::time::Duration;

/// Maximum size of a spec that is synced, in bytes, unless `--max-spec-size` is lower.
pub const LARGEST_SPEC: u32 = 256 * 1024;

/// Which objects of a project tell its locations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LocationSource {
    /// None: each city and each named location may be used, and a selector resolves to nothing.
    #[default]
    None,
    /// The first of all these kinds that the project serves; none if it serves none.
    Auto,
    /// Location of locations.miloapis.com/v1alpha1.
    Locations,
    /// The source of networking.datumapis.com/v1alpha: `LocationBinding`, or Location where that is not served.
    NetworkServices,
}

/// Settings of the gateway.
// Each flag is an independent switch.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long the Namespace keeps a city that no deployment uses.
    pub city_linger: Duration,
    /// Time after which a cell that is not ready counts as lost.
    pub cell_lost_after: Duration,
    /// Maximum number of moves from cell to cell that begin at once in a city.
    pub moves_per_city: usize,
    /// Time within which a deployment that moves must become healthy at the new cell.
    pub move_timeout: Duration,
    /// Maximum number of city sets that the namespaces of one project may use.
    pub city_sets_per_project: usize,
    /// Time after which a city set's policy without users is deleted.
    pub unused_city_set_after: Duration,
    /// How long a hub Namespace is kept after its project namespace is deleted.
    pub hub_namespace_retention: Duration,
    /// How long projections are kept after the hub has lost their write-backs among many.
    pub projection_retention: Duration,
    /// How long an object must have been an orphan before it is deleted.
    pub orphan_after: Duration,
    /// Interval at which suspected objects are reconciled again, without requests.
    pub sweep_interval: Duration,
    /// Time after which a deletion no longer waits for cells; `None` waits forever.
    pub release_after: Option<Duration>,
    /// True if write-backs without a controller are rejected.
    pub require_owner: bool,
    /// True if the gateway writes interpreters to the hub.
    pub manage_interpreters: bool,
    /// Maximum size of a spec that is synced to the hub, in bytes.
    pub max_spec_size: u32,
    /// Instance types that Workloads may name beside the built-in ones.
    pub instance_types: Vec<String>,
    /// True if interfaces of Workloads may name Networks of other namespaces.
    pub cross_namespace_networks: bool,
    /// Interval at which each object may have one more status write.
    pub status_interval: Duration,
    /// Rate limits of writes to the hub.
    pub hub_limits: Limits,
    /// Objects that cities and locations must have in the project.
    pub location_source: LocationSource,
    /// True if the interfaces' Networks must exist in the project.
    pub networking: bool,
}
