//! The reasons of conditions, with their meanings and priorities (contract: api.md §8).

use crate::yaml;
use std::{fmt, sync::LazyLock};

macro_rules! reasons {
    (true: $($true_reason:ident = $true_meaning:literal,)*; $($level:literal: $($reason:ident = $meaning:literal,)*;)*) => {
        /// Every reason that we write into a condition. The wire form is the variant's name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $(#[doc = $true_meaning] $true_reason,)*
            $($(#[doc = $meaning] $reason,)*)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$true_reason,)* $($(Self::$reason,)*)*];

            /// The wire form.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$true_reason => stringify!($true_reason),)*
                    $($(Self::$reason => stringify!($reason),)*)*
                }
            }

            /// A sentence for people.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$true_reason => $true_meaning,)*
                    $($(Self::$reason => $meaning,)*)*
                }
            }

            /// Place in the priority table; `None` for a reason of True conditions only, which do not compete.
            pub fn priority(self) -> Option<u8> {
                match self {
                    $(Self::$true_reason => None,)*
                    $($(Self::$reason => Some($level),)*)*
                }
            }
        }
    };
}

reasons! {
    true:
        AvailablePlacementFound = "At least one placement is available.",
        AvailableDeploymentFound = "At least one deployment of the placement is available.",
        StableInstanceFound = "At least one Instance is ready; the message counts them.",
        ReplicasAvailable = "All wanted Instances are ready.",
        Ready = "The referenced ConfigMaps and Secrets are there.",
        Delivered = "The cells of the city have the deployment.",
        Programmed = "The provider has configured the Instance.",
        Available = "The Instance can serve.",
        Initialized = "The Instance was given its conditions.",
        QuotaAvailable = "The quota was granted.",
        QuotaDisabled = "The cell asks for no quota.",
    ;
    0:
        Pending = "Work on it has not begun.",
        PendingProgramming = "The provider has not begun to configure the Instance.",
        SchedulingGatesPresent = "Gates (network, quota, referenced data) keep the Instance from starting; the message names them.",
        AwaitingAutoscaler = "The Workload has metrics, and fedgate has no autoscaler: minReplicas is what runs.",
        NoAvailablePlacements = "No placement is available.",
        NoAvailableDeployments = "No deployment of the placement is available.",
    ;
    1:
        NoCellReporting = "No cell has reported the deployment yet.",
        InstancesProvisioning = "Some Instances are not ready; the message counts them and names the first.",
        InstancesUpdating = "Some Instances are not on the latest template yet; the message counts them.",
        SurplusInstances = "Instances or deployments that the Workload no longer wants are still there; the message names them.",
        Provisioning = "The provider makes the Instance.",
        ProgrammingInProgress = "The provider configures the Instance.",
        Starting = "The Instance starts.",
        Stopping = "The Instance ends.",
        Stopped = "The Instance has ended.",
        Unknown = "The provider does not know the state of the Instance.",
        Propagating = "No cell has it yet; the message says what it waits for.",
        EarlierLifeDraining = "A former project or object of this name is still on the hub; this one waits until it is gone.",
        HubNamespaceTerminating = "The namespace on the hub is being deleted; it is made again afterwards.",
        WaitingForCells = "A deletion waits until the named cells confirm it.",
        HubUnreachable = "The hub does not answer; the object is kept and is carried when it answers.",
        MissingRights = "The gateway lacks a right, which its operator has to grant; the message names it.",
        Retrying = "Carrying the object fails and is tried again; the message says what fails and since when.",
    ;
    2:
        NetworkProvisioning = "The network of the Instances is not ready.",
    ;
    3:
        PendingQuota = "The Instance waits for quota.",
        PendingEvaluation = "The quota claim is not decided yet.",
        ValidationFailed = "The quota system refuses the claim; the message says why.",
        QuotaNotGranted = "Instances of the deployment wait for quota.",
        QuotaExceeded = "The quota is used up; the claim is made again from time to time.",
        QuotaNoBudget = "The claim is undecided for more than a minute: the project has probably no budget for it.",
        QuotaBackendUnavailable = "The project, where quota is claimed, does not answer.",
        QuotaProjectNotFound = "The project, where quota is claimed, does not exist.",
        QuotaNamespaceNotFound = "The project has no namespace of this name, where the claim belongs.",
        QuotaMisconfigured = "The cell may not claim quota in the project, or its claim is invalid there.",
        QuotaProjectIDUnresolvable = "The namespace at the cell does not say whose project it is.",
    ;
    4:
        ReferencedDataNotReady = "ConfigMaps or Secrets are not at the cell yet.",
        AwaitingPropagation = "The named ConfigMaps or Secrets are on their way to the cell.",
        Resolving = "The referenced ConfigMaps and Secrets are being looked up.",
    ;
    5:
        ImageUnavailable = "The image cannot be pulled; the message says why.",
        InstanceCrashing = "A container ends again and again.",
        ConfigurationError = "The provider cannot run the Instance as it is specified; the message names the field.",
        Failed = "The Instance has failed; the message is that of its Pod.",
        NodeLost = "The node of the Instance does not answer.",
        SourceNotFound = "A referenced ConfigMap or Secret does not exist in the project.",
        SourceTooLarge = "Referenced data is over its limit of 1 MiB.",
        SourceNameTooLong = "The name of a referenced object is too long to be carried.",
        SourceNameReserved = "Every namespace of a cell has an object of its own of this name; rename the referenced one.",
        SourceUnauthorized = "The gateway may not read a referenced object of the project.",
    ;
    6:
        NetworkNotFound = "A network that the template names does not exist in the project.",
        NoMatchingLocations = "No location serves a city of the placement.",
        NoMatchingLocation = "The cell has no location for the city of the deployment.",
        NoCellForCity = "No cell of the hub serves the city.",
        NoCellForLocation = "No cell of the hub serves the location, or the hub cannot deliver to it alone.",
        InvalidCityCode = "The city code is no valid label value.",
        InvalidLocation = "The name of the location is no valid label value.",
        PlaceConflict = "The deployment names another city than that of its location.",
        InvalidName = "The name is too long or invalid for the hub.",
        SpecTooLarge = "The spec is over `--max-spec-size`.",
    ;
    7:
        NetworkFailedToCreate = "The network of the Instance cannot be made; the message says why.",
        ApplyFailed = "A cell or the project refuses the deployment or an object of it; the message says which and why.",
        HubRefused = "The hub refuses the copy; the message says why.",
        HubNameTaken = "An object that is not ours has the name of the copy on the hub.",
        HubNamespaceClaimed = "The namespace on the hub belongs to another project.",
        TooManyCitySets = "The project would need more sets of cities than it may use.",
    ;
    8:
        InvalidTemplate = "The template is invalid; the message names the field.",
        UnsupportedManagementPolicy = "The management policy of the Instances is unknown.",
        CityCodeMismatch = "The deployment has come to a cell of another city.",
        LocationMismatch = "The deployment has come to a cell of another location.",
        AmbiguousServingLocation = "The cell has several locations, so its city is unknown.",
        DeploymentNameConflict = "A deployment of the name exists that is not of this Workload.",
        InstanceNameConflict = "An Instance of the name exists that is not of this deployment.",
    ;
    9:
        Suspended = "The deployment is suspended: its Instances do not run.",
    ;
}

impl Reason {
    /// Reads the wire form; `None` for a reason that is not ours.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|r| r.as_str() == text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The condition types of our objects (contract: api.md §8): object and type, the reasons of True, and those of False and
/// Unknown.
pub static CONDITIONS: LazyLock<Vec<[String; 3]>> =
    LazyLock::new(|| yaml::read(include_str!("conditions.yaml")).unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::priority;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_of_the_contract_is_enumerated_and_no_other() {
        let words = |column: usize, is_wanted: fn(&str) -> bool| -> BTreeSet<&str> {
            let rows = CONDITIONS.iter().filter(|row| is_wanted(&row[0]));
            rows.flat_map(|row| row[column].split_whitespace()).collect()
        };
        // `Stalled` is True for reasons of False conditions.
        for reason in words(1, |of| of == "Workload Stalled") {
            assert!(matches!(priority(reason), 6 | 8), "{reason} mends itself");
        }
        let good = words(1, |of| of != "Workload Stalled");
        let bad = words(2, |_| true);
        let all = Reason::ALL.iter();
        let ranked: BTreeSet<_> = all
            .clone()
            .filter(|r| r.priority().is_some())
            .map(|r| r.as_str())
            .collect();
        let unranked: BTreeSet<_> = all
            .filter(|r| r.priority().is_none())
            .map(|r| r.as_str())
            .collect();
        assert_eq!(bad, ranked);
        assert_eq!(good, unranked);
    }

    #[test]
    fn a_reason_reads_back_and_a_foreign_one_has_no_priority() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
        }
        assert_eq!(priority("SomethingOfAProvider"), 0);
        assert_eq!(priority("Suspended"), 9);
    }
}
