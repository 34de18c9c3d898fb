//! Why a step of a Cell is not reached, and why the role writes.

use fedgate_engine::message::clean;
use fedgate_terminal::error::{Error, Kind};

fedgate_engine::labels! {
    /// Why the role writes a Cell: the label `reason` of `fedgate_writes_total`.
    pub enum WriteReason: fedgate_engine::plan::ReasonLabel {
        /// The finalizer is missing, without which nothing is written for a Cell.
        AddFinalizer = "cell_add_finalizer",
        /// The conditions have changed.
        Status = "cell_status",
        /// The Cluster of Cluster API differs from the topology in the Cell, or the Cell is deleted.
        ClusterApi = "cell_cluster_api",
        /// Nothing is left of a deleted Cell.
        RemoveFinalizer = "cell_remove_finalizer",
    }
}

/// The time of the next run after a step that is not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The step is under way, or waits for another program: the role looks again every few seconds.
    Waiting,
    /// A request failed: the role tries again, more and more slowly.
    Retry,
    /// Another has what the Cell wants, or a machine lacks what it needs. No event reports a change: the role looks again every five
    /// minutes.
    Conflict,
    /// An operator has to change the Cell, its Secret, or annotation `fedgate.dev/retry`.
    Terminal,
}

macro_rules! reasons {
    ($($reason:ident $class:ident $meaning:literal $next:literal)*) => {
        /// The reason of a condition that is not True.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = $meaning] $reason,)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$reason),*];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$reason => stringify!($reason),)*
                }
            }

            /// Reads the wire form; `None` for another word.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.as_str() == text)
            }

            /// True if the Cell's spec asks for it: nothing is wrong.
            pub const fn is_asked_for(self) -> bool {
                matches!(self, Self::Cordoned | Self::Drained)
            }

            /// The time of the next run.
            pub const fn class(self) -> Class {
                match self {
                    $(Self::$reason => Class::$class,)*
                }
            }

            /// The next step of an operator; empty if there is none.
            pub const fn next(self) -> &'static str {
                match self {
                    $(Self::$reason => $next,)*
                }
            }
        }
    };
}

reasons! {
    ProviderOff Terminal "--providers lacks the provider of the Cell, or --cluster-api-namespaces the Namespace of its Cluster of Cluster API."
        "add the value to the flag of fedgate provisioner"
    SecretMissing Terminal "The Secret that the Cell names is not there."
        "create it, with key kubeconfig, or ssh-privatekey for provider hosts, and annotation fedgate.dev/cells"
    NotForThisCell Terminal "The Secret does not name the Cell."
        "annotate the Secret with fedgate.dev/cells=<names of Cells>"
    BadKubeconfig Terminal "The kubeconfig is refused: certificates and keys must be inline, and plugins and plain http are not allowed."
        "correct the Secret"
    NameTaken Conflict "A Karmada Cluster, or a Cluster of Cluster API, has the name of the Cell and does not belong to the Cell."
        "create the Cell with another name; or annotate the Karmada Cluster with fedgate.dev/adopt=<its name>, and the Cluster of Cluster API as the message says"
    DuplicateMember Conflict "The cluster is a Cluster of the hub already."
        "delete one of the two Cells, or give the kubeconfig of another cluster"
    ClusterMissing Conflict "The Cluster of Cluster API, or its Secret, does not exist, the Cluster is being deleted, or it does not list the Cell."
        "create the Cluster that spec.provider.clusterAPI.cluster names, with annotation fedgate.dev/cells=<name of the Cell>; if the Cluster is gone for good, delete the Cell with fedgate.dev/abandon=<its name>"
    ClusterRefused Conflict "The API server with the Cluster of Cluster API, or a webhook there, refuses a write of it."
        "correct spec.provider.clusterAPI of the Cell, at the fields that the message names"
    ClusterApiNotReady Retry "A condition of the Cluster of Cluster API is not True although the Cell was Ready, or the Secret of the Cluster cannot be used."
        "kubectl describe clusters.cluster.x-k8s.io, in the cluster of --home-kubeconfig"
    BadSshKey Terminal "The Secret has no private key for SSH."
        "put it into key ssh-privatekey of the Secret"
    RuntimeDirectory Retry "The provisioner cannot write its runtime directory."
        "mount a volume in memory there, or give another --runtime-directory"
    CommandFailed Retry "A command at a machine failed."
        "check the disk of the machine and /etc/fedgate there"
    HostUnreachable Retry "A machine does not answer."
        "check its address, its SSH server and the network"
    HostKeyMismatch Conflict "A machine shows another host key than the Cell says. Nothing was sent to it."
        "find out why; then correct hostKey of the machine"
    AuthenticationFailed Conflict "A machine refuses the key of the Secret."
        "let user of the machine log in with the key; or correct the Secret"
    NeedsRoot Conflict "The user of a machine cannot become root."
        "let user run everything with sudo and without a password"
    HostClaimed Conflict "A machine belongs to another Cell."
        "delete that Cell, or name another machine in this Cell"
    HostInUse Conflict "A machine has files of a cluster, and no claim of a Cell."
        "run kubeadm reset at the machine, or name another machine in the Cell"
    VersionMismatch Conflict "A machine lacks a program, or has kubeadm or kubelet of another version than spec.kubernetes.version."
        "install the program that the message names"
    SetupBootstrapFailed Retry "A machine cannot be prepared."
        "read /etc/fedgate/jobs at the machine"
    SetupHaproxyFailed Retry "HAProxy cannot be set up on the first control plane."
        "install haproxy there, and read /etc/fedgate/jobs"
    InitControlPlaneFailed Retry "kubeadm init failed before it had begun a control plane."
        "read /etc/fedgate/jobs at the machine"
    NeedsReset Terminal "kubeadm init, or kubeadm join of a control plane, failed after it wrote files of a control plane."
        "read /etc/fedgate/jobs at the machine; then delete the Cell, which resets its machines, and create it again"
    CniManifestMissing Waiting "The ConfigMap with the network plugin is not there, or does not name the Cell."
        "create it, with key manifest.yaml and annotation fedgate.dev/cells"
    SetupNetworkCniFailed Retry "The objects of the network plugin are refused."
        "read /etc/fedgate/jobs at the machine; correct the ConfigMap"
    JoinControlPlaneFailed Retry "A control plane cannot join."
        "read /etc/fedgate/jobs at the machine"
    JoinWorkerFailed Retry "A worker cannot join."
        "read /etc/fedgate/jobs at the machine"
    NodesNotReady Retry "A machine is no Node of the cluster that is Ready."
        "read the log of its kubelet; a Node without a network plugin needs spec.kubernetes.cniManifest, or an operator who installs one"
    ResetFailed Retry "kubeadm reset failed."
        "read /etc/fedgate/jobs at the machine"
    MemberReplaced Conflict "The kubeconfig, or the first machine, belongs to another cluster than that of the Cell."
        "correct the Secret, or the first machine; or delete the Cell with fedgate.dev/abandon=<its name>, and make it anew"
    AnotherHub Conflict "The cluster belongs to another hub."
        "let it leave that hub; if this hub takes its place, take annotation fedgate.dev/hub off the account or Secret at the cluster"
    InvalidSpec Terminal "A field of the Cell contradicts an object that exists; the message says which."
        "correct the Cell"
    FieldConflict Conflict "Another program owns a field of an object of the cell."
        "let it give the field up"
    NarrowUnsupported Terminal "The cluster has no admission policies, which limit Karmada's account."
        "upgrade the cluster, or set spec.register.rights to Full"
    MemberUnreachable Retry "The cluster does not answer."
        "check the address that the message names, the network and the cluster itself"
    MemberForbidden Retry "The cluster refuses the credential, or its user has too few rights."
        "renew the Secret, with a kubeconfig of an administrator"
    Forbidden Retry "A plane refuses a credential or a right; the message names it."
        "renew the credential, or grant the right; rights on the hub: manifests/provisioner/hub, for mode Pull also manifests/provisioner/hub-pull"
    Unreachable Retry "A request to the hub or the cluster fails; the message says which."
        "check the address, the network and the server itself"
    TokenPending Waiting "The cluster has not made the token of Karmada's account yet."
        "look whether serviceaccount-token-controller runs in the cluster's kube-controller-manager"
    CertificatePending Waiting "The hub has not signed the certificate of karmada-agent yet."
        "kubectl certificate approve, as the message says"
    AgentNotAvailable Waiting "The program of the cell does not renew its Lease."
        "read its Pod's log in Namespace fedgate-system of the cluster"
    KindsMissing Waiting "Karmada does not find all federated kinds at the cluster yet."
        "kubectl describe clusters.cluster.karmada.io, with the kubeconfig of the hub: status.apiEnablements"
    ClusterNotReady Waiting "Karmada does not call the Cluster Ready yet."
        "kubectl describe clusters.cluster.karmada.io, with the kubeconfig of the hub"
    Waiting Waiting "The step is under way."
        ""
    Cordoned Waiting "The cell takes no new deployments, because spec.state says so."
        ""
    Drained Waiting "The cell is drained or to be drained, because spec.state says so."
        ""
    Leaving Waiting "The Cell is being deleted, and with it the objects that were made for its cell."
        ""
    LastCellOfCity Waiting "No other usable cell of the city could run the deployments of the cell."
        "make another cell of the city; or annotate the Cell with fedgate.dev/allow-outage=<its name>"
    OthersNotHealthy Waiting "Other cells of the city do not run the deployments of the cell yet."
        ""
    Emptying Waiting "The cell still has objects; its program and Karmada delete them."
        "keep the program of the cell running; or annotate the Cell with fedgate.dev/abandon=<its name>"
}

/// Why a step is not reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The reason of the condition.
    pub reason: Reason,
    /// The cause: a missing thing, or the words of an error.
    pub what: Box<str>,
}

impl Problem {
    /// A problem.
    pub fn new(reason: Reason, what: impl AsRef<str>) -> Self {
        let what = clean(what.as_ref());
        Self { reason, what }
    }

    /// The message of the condition, with the next step of the reason.
    pub fn message(&self) -> String {
        match self.reason.next() {
            "" => self.what.to_string(),
            next => format!("{}; next: {next}", self.what),
        }
    }

    /// The problem of an error. Its reason is the error's own, or else follows from the error's kind; `on_timeout` is the reason after a
    /// timeout.
    pub fn of(error: &Error, on_timeout: Reason) -> Self {
        let named = error.reason.and_then(Reason::parse);
        let of_kind = || match error.kind {
            Kind::TimedOut => on_timeout,
            Kind::Stale => Reason::Waiting,
            Kind::Refused | Kind::Usage => Reason::InvalidSpec,
            Kind::Conflict => Reason::FieldConflict,
            Kind::Forbidden => Reason::Forbidden,
            _ => Reason::Unreachable,
        };
        let what = match &error.cause {
            Some(cause) => format!("{}: {cause}", error.what),
            None => error.what.clone(),
        };
        Self::new(named.unwrap_or_else(of_kind), what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_is_a_word_of_its_own() {
        WriteReason::check_words();
    }

    #[test]
    fn an_error_gives_its_word_or_that_of_its_kind_and_says_the_next_step() {
        let refused = Error::refused("this member is Cluster x").reason("DuplicateMember");
        let problem = Problem::of(&refused, Reason::Waiting);
        assert_eq!(problem.reason, Reason::DuplicateMember);
        assert_eq!(
            problem.message(),
            "this member is Cluster x; next: delete one of the two Cells, or give the kubeconfig of another cluster"
        );
        let of = |error: &Error| Problem::of(error, Reason::Emptying).reason;
        assert_eq!(of(&Error::timed_out("x")), Reason::Emptying);
        assert_eq!(of(&Error::refused("x")), Reason::InvalidSpec);
        assert_eq!(of(&Error::new(Kind::Conflict, "x")), Reason::FieldConflict);
        assert_eq!(of(&Error::new(Kind::Forbidden, "x")), Reason::Forbidden);
        assert_eq!(of(&Error::failed("x")), Reason::Unreachable);
    }
}
