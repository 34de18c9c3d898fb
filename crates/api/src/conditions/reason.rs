//! The reasons of conditions, with their meanings and priorities (contract: api.md §8, clusters.md §4). `conditions.yaml` says which
//! condition has which reason. A new reason stands in both files; `make docs` writes both into docs/reference/conditions.md.

use crate::yaml;
use std::{fmt, sync::LazyLock};

/// How a reason takes part in the choice of the worst condition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// Reasons of True conditions only do not compete.
    OfTrue,
    /// Reasons that only further federated kinds have do not compete.
    OfFurtherKinds,
    /// Place in the priority table.
    Priority(u8),
}
use Rank::{OfFurtherKinds, OfTrue, Priority};

macro_rules! reasons {
    ($($rank:expr => $($reason:ident = $meaning:literal,)*;)*) => {
        /// Every reason that we write into a condition. The wire form is the variant's name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[doc = $meaning] $reason,)*)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$($(Self::$reason,)*)*];

            /// The wire form.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$reason => stringify!($reason),)*)*
                }
            }

            /// A sentence for people.
            pub fn meaning(self) -> &'static str {
                match self {
                    $($(Self::$reason => $meaning,)*)*
                }
            }

            fn rank(self) -> Rank {
                match self {
                    $($(Self::$reason => $rank,)*)*
                }
            }
        }
    };
}

reasons! {
    OfTrue =>
        AvailablePlacementFound = "At least one placement is available.",
        AvailableDeploymentFound = "At least one deployment of the placement is available.",
        StableInstanceFound = "At least one Instance is ready; the message counts them.",
        ReplicasAvailable = "All wanted Instances are ready.",
        Ready = "The referenced ConfigMaps and Secrets are there.",
        Delivered = "The cells of the city have the deployment.",
        Moving = "The deployment moves to another cell of its city; it runs at the former cell until the other one serves.",
        MoveStalled = "The deployment did not become ready at another cell, so it stays at its cell; the gateway retries the move.",
        RolloutComplete = "All Instances are on the latest template and available.",
        RolloutProgressing = "Instances are being made or replaced; the message counts them and names what the next step waits for.",
        SurgeWithoutQuota = "Quota is not granted for the surge; each Instance is deleted before its replacement is created.",
        Programmed = "The provider has configured the Instance.",
        Available = "The Instance can serve.",
        Initialized = "The Instance was given its conditions.",
        QuotaAvailable = "The quota was granted.",
        QuotaDisabled = "The cell asks for no quota.",
    ;
    OfFurtherKinds =>
        MemberApiMissing = "No cell of the city serves the kind of the object.",
        NamespaceFull = "The hub's record of the members of this namespace's objects is full.",
        NoMemberFits = "Karmada finds no member for the object; the message is Karmada's.",
        TooManyMembers = "Karmada has chosen several members for an object that lives at one.",
        Strayed = "The member of the object has left the hub, is not the one that Karmada names, or is not known.",
        Scheduling = "Karmada has not chosen a member yet.",
        PlacementImmutable = "The object cannot move; set the place back, or create the object under another name.",
        HubIdentityRefused = "The hub knows the gateway by a service account, in whose name no member can be asked.",
        CompanionShared = "The named companion goes with another object at its member.",
        CompanionRefused = "The member refuses a companion; the message is the member's.",
        CompanionsPending = "The member has not applied the named companions yet.",
        Applying = "The member has not applied the object yet.",
        DispatchSuspended = "The object is suspended; an object at the member stays as it is.",
        EndedByMember = "A controller of the member has deleted the object; the message says what to do.",
        MemberReplaced = "Another cluster has the name of the member; an operator says whether it is the same member.",
        WorkStuck = "A Work of the object does not end; an operator of the hub removes its finalizers.",
        MemberNotReady = "The member is not ready; the status is the last one that it reported.",
        NotReported = "The member has not reported a status yet.",
        StatusTooLarge = "The member's status is too large; the last one stays.",
        StatusRefused = "The project refuses the member's status; the last one stays.",
        ReturnRejected = "The status names a Secret that the kind does not let come back.",
        DeletionHeld = "A guard holds the deletion; the message is the guard's.",
        Deleting = "The object is being deleted; the status is the last one that returned.",
        WaitingForMember = "A deletion waits until the member confirms it.",
        Pinned = "The hub has recorded the member of the object; the message names it.",
        Applied = "The member has applied the object.",
        Current = "The status is the one that the member reports.",
    ;
    Priority(0) =>
        Pending = "Work on it has not begun.",
        PendingProgramming = "The provider has not begun to configure the Instance.",
        SchedulingGatesPresent = "Gates (network, quota, referenced data) keep the Instance from starting; the message names them.",
        AwaitingAutoscaler = "The Workload has metrics, and fedgate has no autoscaler: minReplicas is what runs.",
        NoAvailablePlacements = "No placement is available.",
        NoAvailableDeployments = "No deployment of the placement is available.",
        RolloutPaused = "The rollout is paused: no Instance is replaced.",
    ;
    Priority(1) =>
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
    Priority(2) =>
        NetworkProvisioning = "The network of the Instances is not ready.",
    ;
    Priority(3) =>
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
    Priority(4) =>
        ReferencedDataNotReady = "ConfigMaps or Secrets are not at the cell yet.",
        AwaitingPropagation = "The named ConfigMaps or Secrets are on their way to the cell.",
        Resolving = "The referenced ConfigMaps and Secrets are being looked up.",
    ;
    Priority(5) =>
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
    Priority(6) =>
        NetworkNotFound = "A network that the template names does not exist in the project.",
        NoMatchingLocations = "No location serves a city of the placement.",
        NoMatchingLocation = "The cell has no location for the city of the deployment.",
        NoCellForCity = "No cell of the hub serves the city.",
        CellLost = "The cell of the deployment is lost, and no other cell of its city can run the deployment.",
        ProgressDeadlineExceeded = "The rollout made no progress within its deadline; the message names what it waits for.",
        RolloutUndone = "The rollout exceeded its progress deadline and was undone: the last template whose rollout completed runs.",
        NoCellForLocation = "No cell of the hub serves the location, or the hub cannot deliver to it alone.",
        InvalidCityCode = "The city code is no valid label value.",
        InvalidLocation = "The name of the location is no valid label value.",
        PlaceConflict = "The deployment names another city than that of its location.",
        InvalidName = "The name is too long or invalid for the hub.",
        SpecTooLarge = "The spec is over `--max-spec-size`.",
    ;
    Priority(7) =>
        NetworkFailedToCreate = "The network of the Instance cannot be made; the message says why.",
        ApplyFailed = "A cell or the project refuses the deployment or an object of it; the message says which and why.",
        HubRefused = "The hub refuses the copy; the message says why.",
        HubNameTaken = "An object that is not ours has the name of the copy on the hub.",
        HubNamespaceClaimed = "The namespace on the hub belongs to another project.",
        TooManyCitySets = "The project would need more sets of cities than it may use.",
    ;
    Priority(8) =>
        InvalidTemplate = "The template is invalid; the message names the field.",
        UnsupportedManagementPolicy = "The management policy of the Instances is unknown.",
        CityCodeMismatch = "The deployment has come to a cell of another city.",
        LocationMismatch = "The deployment has come to a cell of another location.",
        AmbiguousServingLocation = "The cell has several locations, so its city is unknown.",
        DeploymentNameConflict = "A deployment of the name exists that is not of this Workload.",
        InstanceNameConflict = "An Instance of the name exists that is not of this deployment.",
    ;
    Priority(9) =>
        Suspended = "The deployment is suspended: its Instances do not run.",
    ;
}

impl Reason {
    /// Reads the wire form; `None` for a reason that is not ours.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|r| r.as_str() == text)
    }

    /// Place in the priority table; `None` for a reason of True conditions only, and for one of further kinds.
    pub fn priority(self) -> Option<u8> {
        match self.rank() {
            Priority(priority) => Some(priority),
            OfTrue | OfFurtherKinds => None,
        }
    }

    /// True if only objects of further federated kinds have the reason (docs/kinds.md), and no object of the compute API has.
    pub fn is_of_further_kinds(self) -> bool {
        self.rank() == OfFurtherKinds
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
    fn every_reason_is_enumerated_and_is_the_reason_of_a_condition() {
        let words = |columns: &[usize], is_wanted: fn(&str) -> bool| -> BTreeSet<&str> {
            let rows = CONDITIONS.iter().filter(|row| is_wanted(&row[0]));
            rows.flat_map(|row| columns.iter().flat_map(|at| row[*at].split_whitespace()))
                .collect()
        };
        let reasons = |is_wanted: fn(Reason) -> bool| -> BTreeSet<&str> {
            let all = Reason::ALL.iter().filter(|reason| is_wanted(**reason));
            all.map(|reason| reason.as_str()).collect()
        };
        // `Stalled` and `Moving` are True for reasons of False conditions.
        for reason in words(&[1], |of| of == "Workload Stalled") {
            assert!(
                matches!(priority(reason), 6 | 8),
                "{reason} does not need an edit"
            );
        }
        let next = "a reason stands in reason.rs and in conditions.yaml; then make docs";
        let bad = words(&[2], |of| !is_of_further_kinds(of));
        assert_eq!(bad, reasons(|reason| reason.priority().is_some()), "{next}");
        let good = words(&[1], |of| {
            !["Workload Stalled", "Workload Moving"].contains(&of) && !is_of_further_kinds(of)
        });
        let unranked = reasons(|reason| reason.priority().is_none() && !reason.is_of_further_kinds());
        assert_eq!(good, unranked, "{next}");
        let all = words(&[1, 2], |_| true);
        assert_eq!(all, reasons(|_| true), "{next}");
        let others = words(&[1, 2], |of| !is_of_further_kinds(of));
        let of_one = reasons(Reason::is_of_further_kinds);
        assert!(others.is_disjoint(&of_one), "{others:?} {of_one:?}");
    }

    fn is_of_further_kinds(condition: &str) -> bool {
        condition.ends_with("of a further kind")
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
