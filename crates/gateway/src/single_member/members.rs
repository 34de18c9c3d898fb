//! The members that an object may go to: the Clusters of its city, and whether one of them serves its kind. Kinds with
//! `requireMemberAPI` need them, too.

use super::Fault;
use crate::index::{GatewayIndex, rows::Cell};
use fedgate_api::{Reason, names::CityCode};
use fedgate_engine::store::table::Row;
use fedgate_kinds::{FederatedKind, KindId};
use std::sync::Arc;

/// A member: a Karmada Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name of the Cluster.
    pub name: Arc<str>,
    /// UID of the Cluster.
    pub uid: Arc<str>,
    /// True if the member serves the kind, or if it is not known yet what it serves.
    pub serves: bool,
    /// True if Karmada reaches the member.
    pub is_ready: bool,
    /// Time of the last change of `is_ready`, in seconds since the epoch.
    pub since: i64,
}

impl Member {
    /// Reads a Cluster for a kind.
    pub fn read(name: &Arc<str>, row: &Row<Cell>, kind: &FederatedKind) -> Self {
        let cell = &row.digest;
        Self {
            name: name.clone(),
            uid: row.uid.clone(),
            serves: !kind.placement.require_member_api || !cell.is_surveyed || cell.serves(kind),
            is_ready: cell.is_ready(),
            since: cell.ready.as_ref().map_or(0, |ready| ready.since),
        }
    }
}

/// Whether a member of the city serves the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberApi {
    /// A member serves the kind, the kind does not require it, or the city has no Cluster.
    Fit,
    /// No member serves the kind.
    Missing,
    /// The Clusters are not listed yet.
    Unknown,
}

/// The Clusters of a deployment's city.
#[derive(Debug, Clone)]
pub struct CityMembers {
    /// Sorted by name; none for a kind to which they do not matter.
    pub candidates: Vec<Member>,
    /// Whether one of them serves the kind.
    pub api: MemberApi,
}

impl CityMembers {
    /// Reads the Clusters of this city from the index.
    pub fn observe(index: &GatewayIndex, kind: KindId, city: Option<&CityCode>) -> Self {
        let candidates = candidates(index, kind, city);
        Self {
            api: api(index, kind, &candidates),
            candidates,
        }
    }

    /// The fault of an object whose kind no member of its city serves.
    pub fn missing_api(&self, kind: &FederatedKind) -> Option<Fault> {
        (self.api == MemberApi::Missing).then(|| {
            let names: Vec<&str> = self.candidates.iter().map(|member| &*member.name).collect();
            let (version, kind) = (&kind.resource.api_version, &kind.resource.kind);
            let names = names.join(", ");
            (
                Reason::MemberApiMissing,
                format!("no cell of the city serves {version} {kind}: {names}"),
            )
        })
    }
}

fn candidates(index: &GatewayIndex, kind: KindId, city: Option<&CityCode>) -> Vec<Member> {
    let profile = &index.kinds[kind];
    let Some(city) = city.filter(|_| profile.looks_at_members()) else {
        return Vec::new();
    };
    let of_city = |row: &Row<Cell>| row.digest.city.as_ref() == Some(city) && !row.deleting;
    let clusters = index.hub.clusters.iter().filter(|(_, row)| of_city(row));
    clusters
        .map(|((_, name), row)| Member::read(name, row, profile))
        .collect()
}

fn api(index: &GatewayIndex, kind: KindId, candidates: &[Member]) -> MemberApi {
    if !index.kinds[kind].placement.require_member_api || candidates.iter().any(|member| member.serves) {
        MemberApi::Fit
    } else if !index.hub.clusters.synced() {
        MemberApi::Unknown
    } else if candidates.is_empty() {
        MemberApi::Fit
    } else {
        MemberApi::Missing
    }
}
