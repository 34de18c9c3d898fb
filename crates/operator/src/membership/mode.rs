//! The mode of a cell: the side that opens the connection between hub and member. Pure.

use super::{cluster::Cluster, registration::Found};
use clap::ValueEnum;
use fedgate_terminal::error::Error;

/// The side that opens the connection between hub and member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SyncMode {
    /// Karmada writes to the member, with a token of the member's that the hub holds.
    #[default]
    Push,
    /// karmada-agent at the member reads from the hub, which holds no credential of the member.
    Pull,
}

const STAYS: &str =
    "the mode of a cell cannot change: for a while neither side or both would write to the member";

impl SyncMode {
    /// The value of a Cluster's `spec.syncMode`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Push => "Push",
            Self::Pull => "Pull",
        }
    }

    /// The mode of a Cluster.
    pub fn of(cluster: Cluster<'_>) -> Self {
        if cluster.0["spec"]["syncMode"] == Self::Pull.as_str() {
            Self::Pull
        } else {
            Self::Push
        }
    }
}

/// Fails if a Cluster that is there has another mode than the one that is asked for, or an agent of another program.
pub fn same_mode(found: Found<'_>, mode: SyncMode) -> Result<(), Error> {
    let cluster = match found {
        // Without a word about the mode an adopted Cluster keeps its own.
        Found::Nothing => return Ok(()),
        Found::Adopted(_) if mode == SyncMode::Push => return Ok(()),
        Found::Adopted(cluster) => return Err(keeps_its_own(cluster)),
        Found::Ours(cluster) => cluster,
    };
    let (name, present) = (cluster.name(), SyncMode::of(cluster));
    if present == mode {
        return Ok(());
    }
    let [flag, asked] = [present, mode].map(|mode| mode.as_str().to_lowercase());
    let next = format!(
        "give --mode {flag}, or: fedgate cells drain {name} and fedgate cells leave {name}, then join again"
    );
    let what = format!("Cluster {name} has mode {flag}, not {asked}");
    Err(Error::refused(what).because(STAYS).next(next))
}

/// The refusal to give an adopted Cluster an agent.
fn keeps_its_own(cluster: Cluster<'_>) -> Error {
    let name = cluster.name();
    let (what, cause) = match SyncMode::of(cluster) {
        SyncMode::Push => ("mode push, not pull", STAYS),
        SyncMode::Pull => (
            "a karmada-agent of another program",
            "an adopted Cluster keeps its agent, with the image, the rights and the certificate that it has",
        ),
    };
    let error = Error::refused(format!("Cluster {name} has {what}")).because(cause);
    error.next(format!(
        "leave out --mode and --agent-image to use it as it is; for an agent of fedgate: take Cluster and agent away with \
         that program (karmadactl unregister {name}), then join without --adopt"
    ))
}

#[cfg(test)]
mod tests {
    use super::{super::cluster::tests::cluster, *};
    use fedgate_terminal::error::Kind;
    use serde_json::json;

    #[test]
    fn the_mode_of_a_cell_stays() {
        let push = cluster("dfw-2", "id-2", Some("DFW"));
        let mut pull = push.clone();
        pull["spec"]["syncMode"] = json!("Pull");
        let (push, pull) = (Cluster(&push), Cluster(&pull));
        assert_eq!(same_mode(Found::Nothing, SyncMode::Pull), Ok(()));
        assert_eq!(same_mode(Found::Ours(push), SyncMode::Push), Ok(()));
        assert_eq!(same_mode(Found::Ours(pull), SyncMode::Pull), Ok(()));
        let refused = |found, mode| {
            let error = same_mode(found, mode).unwrap_err();
            assert_eq!(error.kind, Kind::Refused);
            error.to_string()
        };
        assert!(
            refused(Found::Ours(push), SyncMode::Pull).contains("--mode push, or: fedgate cells drain dfw-2")
        );
        assert!(refused(Found::Ours(pull), SyncMode::Push).contains("give --mode pull"));
        // Another program has made it, in its own mode.
        assert_eq!(same_mode(Found::Adopted(pull), SyncMode::Push), Ok(()));
        assert!(refused(Found::Adopted(push), SyncMode::Pull).contains("leave out --mode"));
        let agent = refused(Found::Adopted(pull), SyncMode::Pull);
        assert!(
            agent.contains("karmada-agent of another program") && agent.contains("leave out --mode"),
            "{agent}"
        );
    }
}
