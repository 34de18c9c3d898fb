//! The output that each command of a runbook has, by state.

use regex::Regex;

/// A state of gateway and planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// All is well.
    Well,
    /// The gateways do not reach the hub, whose API server answers others.
    HubCut,
    /// The hub's API server does not answer, and an edit waits for it.
    HubDown,
    /// A project's API server does not answer.
    ProjectDown,
    /// A cell's API server does not answer.
    CellDown,
    /// A Cell waits for an operator.
    CellFailed,
    /// A deployment names a city without a cell.
    NoCell,
    /// The kubeconfig of a project cannot be used.
    Refused,
    /// The hub's credential ends within the hour.
    Expiring,
    /// The gateway may not write copies.
    MissingRight,
    /// A roll-out has stopped half way.
    HalfRolledOut,
    /// A tenant's own object has the name of a projection.
    NameTaken,
    /// A write-back has the labels of another project, and the labels of a hub Namespace were edited.
    Forged,
    /// So many copies have no origin that the brake holds them.
    Orphaned,
    /// Another client changes a copy back.
    Fought,
    /// An interpreter is edited again and again.
    Drifted,
    /// No gateway runs.
    GatewayDown,
    /// Changes take longer than 2 s to a hub that is slow.
    SlowHub,
    /// Changes take nearly as long as a request may take, and some longer.
    SlowerHub,
    /// A project is slow, and more than 1,000 keys wait for a worker.
    Backlog,
    /// Keys are reconciled all the time without anything to write.
    Idle,
    /// The gateway uses most of the memory that it may use.
    LittleMemory,
    /// The hub has lost what a cell had written back, and the brake keeps the projections.
    WriteBacksLost,
}

impl State {
    pub(super) const ALL: &'static [Self] = &[
        Self::Well,
        Self::HubCut,
        Self::HubDown,
        Self::ProjectDown,
        Self::CellDown,
        Self::CellFailed,
        Self::NoCell,
        Self::Refused,
        Self::Expiring,
        Self::MissingRight,
        Self::HalfRolledOut,
        Self::NameTaken,
        Self::Forged,
        Self::Orphaned,
        Self::Fought,
        Self::Drifted,
        Self::GatewayDown,
    ];
    /// Those of `load.rs`, which have a test of their own.
    pub(super) const LOADED: &'static [Self] = &[
        Self::Backlog,
        Self::Idle,
        Self::LittleMemory,
        Self::WriteBacksLost,
        Self::SlowHub,
        Self::SlowerHub,
    ];
}

/// The state in which the commands of each alert's runbook are run.
pub(super) const ALERTS: &[(&str, State)] = &[
    ("FedgateCellDelivery", State::CellDown),
    ("FedgateCellFailed", State::CellFailed),
    ("FedgateCellNotReady", State::CellDown),
    ("FedgateCityWithoutCell", State::NoCell),
    ("FedgateCredentialExpiresToday", State::Expiring),
    ("FedgateCredentialExpiring", State::Expiring),
    ("FedgateDown", State::GatewayDown),
    ("FedgateErrorRatio", State::MissingRight),
    ("FedgateGarbageBrake", State::Orphaned),
    ("FedgateGarbageBrake", State::WriteBacksLost),
    ("FedgateHubDisconnected", State::HubCut),
    ("FedgateHubDisconnected", State::HubDown),
    ("FedgateIdentityRejection", State::Forged),
    ("FedgateIdleReconciles", State::Idle),
    ("FedgateInterpreterDrift", State::Drifted),
    ("FedgateLatencyHigh", State::SlowHub),
    ("FedgateLatencyVeryHigh", State::SlowerHub),
    ("FedgateMemoryHigh", State::LittleMemory),
    ("FedgateMissingRight", State::MissingRight),
    ("FedgateMovesHeld", State::CellDown),
    ("FedgateNoLeader", State::HubCut),
    ("FedgateNoLeader", State::HubDown),
    ("FedgateNoLeader", State::GatewayDown),
    ("FedgateNoStandby", State::HalfRolledOut),
    ("FedgateNotReturned", State::ProjectDown),
    ("FedgateOrphans", State::Orphaned),
    ("FedgateProjectRefused", State::Refused),
    ("FedgateProjectsDisconnected", State::ProjectDown),
    ("FedgateQuarantine", State::NameTaken),
    ("FedgateQueueBacklog", State::Backlog),
    ("FedgateRestarting", State::GatewayDown),
    ("FedgateStuckDeletion", State::CellDown),
    ("FedgateStuckKeys", State::MissingRight),
    ("FedgateUndelivered", State::HubDown),
    ("FedgateUndeliveredLong", State::HubDown),
    ("FedgateVersionSkew", State::HalfRolledOut),
    ("FedgateWriteFight", State::Fought),
];

/// The exit code of a command, and words of its output; those that begin with a slash are an expression.
type Shown = (i32, &'static str);

/// Between the words of an output that must all be there.
const AND: &str = " & ";

/// The output that a command should have.
#[derive(Debug)]
pub(super) struct Wanted(i32, &'static str);

impl Wanted {
    pub(super) fn is(&self, code: i32, text: &str) -> bool {
        let has = |word: &str| match word.strip_prefix('/') {
            Some(expression) => Regex::new(expression).expect("an expression").is_match(text),
            None => text.contains(word),
        };
        code == self.0 && self.1.split(AND).all(has)
    }
}

/// The output of a command where all is well; the first row whose words begin it counts.
const WELL: &[(&str, Shown)] = &[
    ("fedgate status --context host -o json", (0, r#""queue":"#)),
    ("fedgate status", (0, "leader, version")),
    ("fedgate stuck", (0, "Nothing is stuck.")),
    ("fedgate trace --context host alpha default/web", (0, "whole")),
    ("fedgate journal --context host -f", (INTERRUPTED, "create_copy")),
    ("fedgate doctor --hub-kubeconfig hub.yaml", (0, "ok   hub kinds:")),
    ("fedgate cells list", (0, "dfw-1")),
    ("fedgate projects list", (0, "alpha")),
    (
        "kubectl --context hub get --raw /readyz?verbose",
        (0, "[+]etcd ok"),
    ),
    (
        "kubectl --context hub get namespaces -l fedgate.dev/project-uid",
        (0, r"/PROJECT-UID & /ns-.* cluster-alpha +[0-9a-f-]{36}"),
    ),
    (
        "kubectl --context hub get namespaces -l meta.datumapis.com/upstream-cluster-name",
        (0, "manager: fedgate"),
    ),
    (
        "kubectl --context hub get resourceinterpretercustomizations",
        (0, "manager: fedgate"),
    ),
    (
        "kubectl --context hub get workloaddeployments -A",
        (0, "manager: fedgate"),
    ),
    (
        "kubectl --context hub -n fedgate-system get lease fedgate-gateway -o yaml",
        (0, "holderIdentity:"),
    ),
    (
        "kubectl --context host -n fedgate-system describe pods",
        (0, "fedgate-gateway-1"),
    ),
    (
        "kubectl --context host -n fedgate-system get pods",
        (0, "fedgate-gateway-1"),
    ),
    (
        "kubectl --context host -n fedgate-system logs",
        (0, "[pod/fedgate-gateway-0/gateway] {\"timestamp\""),
    ),
    (
        "kubectl --context host -n fedgate-system top pods -l app.kubernetes.io/name=fedgate-gateway",
        (0, r"/fedgate-gateway-0 .*\d+m +\d+Mi"),
    ),
];

/// Its output otherwise.
const OTHERWISE: &[(State, &str, Shown)] = &[
    (State::HubCut, "fedgate status", (9, UNREACHABLE)),
    (
        State::HubCut,
        "fedgate stuck --context host --class plane",
        (9, "/plane +hub +[a-z]+ +1 .*FedgateHubDisconnected.md"),
    ),
    (
        State::HubCut,
        "kubectl --context hub get --raw /readyz",
        (0, "ok"),
    ),
    (
        State::HubCut,
        "kubectl --context host -n fedgate-system logs",
        (0, "the Lease cannot be kept"),
    ),
    (State::HubDown, "fedgate status", (9, UNREACHABLE)),
    (
        State::HubDown,
        "fedgate stuck --context host --class plane",
        (9, "/plane +hub +[a-z]+ +1 .*FedgateHubDisconnected.md"),
    ),
    (
        State::HubDown,
        "fedgate stuck --context host --class undelivered -o wide",
        (9, "web-us-dfw & HubUnreachable: the hub has not answered since"),
    ),
    (
        State::HubDown,
        "fedgate trace",
        (7, "hub gen 1 waiting & HubUnreachable"),
    ),
    (State::HubDown, "fedgate doctor", (3, "FAIL hub reach:")),
    (State::HubDown, "kubectl --context hub", (1, "was refused")),
    (
        State::ProjectDown,
        "fedgate stuck --context host --class plane -o wide",
        (9, "alpha"),
    ),
    (
        State::ProjectDown,
        "fedgate doctor",
        (3, "FAIL project alpha reach:"),
    ),
    (
        State::ProjectDown,
        "kubectl --context alpha get",
        (1, "was refused"),
    ),
    (State::CellDown, "fedgate cells list", (0, "False")),
    (State::CellDown, "fedgate trace", (7, "ClusterNotReachable")),
    (State::CellDown, "kubectl --context dfw-1 get", (1, "was refused")),
    (
        State::CellDown,
        "kubectl --context hub describe clusters.cluster.karmada.io dfw-1",
        (0, "ClusterNotReachable"),
    ),
    (
        State::CellDown,
        "kubectl --context hub get resourcebindings -A",
        (0, "FULLYAPPLIED"),
    ),
    (
        State::CellFailed,
        "kubectl --context hub get cells.fedgate.dev",
        (0, r"/dfw-2 +DFW +existing +Failed +False +SecretMissing"),
    ),
    (
        State::CellFailed,
        "kubectl --context hub describe cells.fedgate.dev dfw-2",
        (0, "does not exist; next: create it"),
    ),
    (
        State::NoCell,
        "fedgate stuck --context host --class refused -o wide",
        (9, "lost-us-nowhere"),
    ),
    (
        State::Refused,
        "fedgate stuck --context host --class plane -o wide",
        (9, "plugin"),
    ),
    (State::Refused, "fedgate projects list", (0, "rejected")),
    (State::Expiring, "fedgate doctor", (1, "FAIL hub credential:")),
    (
        State::Expiring,
        "kubectl --context host -n fedgate-system logs",
        (0, "the credential expires within a day"),
    ),
    (State::MissingRight, "fedgate status", (9, PATCH)),
    (
        State::MissingRight,
        "fedgate stuck --context host --class right",
        (9, PATCH),
    ),
    (
        State::MissingRight,
        "fedgate stuck --context host -o wide",
        (9, PATCH),
    ),
    (State::MissingRight, "fedgate trace", (7, "hub gen 2 waiting")),
    (State::MissingRight, "fedgate doctor", (1, PATCH)),
    (
        State::HalfRolledOut,
        "kubectl --context host -n fedgate-system rollout status deployment/fedgate-gateway --timeout=10s",
        (1, "1 out of 2 new replicas have been updated"),
    ),
    (
        State::HalfRolledOut,
        "kubectl --context host -n fedgate-system get deployment fedgate-gateway",
        (0, "2/2"),
    ),
    (
        State::NameTaken,
        "fedgate stuck --context host --class quarantined -o wide",
        (9, "name_taken & web-us-dfw-3"),
    ),
    (
        State::NameTaken,
        "fedgate trace",
        (7, "does not own: web-us-dfw-3"),
    ),
    (
        State::NameTaken,
        "kubectl --context host -n fedgate-system logs",
        (0, "quarantined & \"reason\":\"name_taken\" & detail"),
    ),
    (
        State::Forged,
        "fedgate stuck --context host --class quarantined -o wide",
        (9, "identity_mismatch & forged-0 & dfw-1"),
    ),
    (
        State::Forged,
        "kubectl --context host -n fedgate-system logs",
        (
            0,
            "write-back quarantined & forged-0 & identity labels were edited",
        ),
    ),
    (
        State::Forged,
        "kubectl --context hub get namespaces",
        (0, "upstream-namespace: each- & manager: fedgate"),
    ),
    (
        State::Orphaned,
        "fedgate stuck --context host --class brake",
        (9, "orphans & brakes hold: cluster-alpha"),
    ),
    (
        State::Orphaned,
        "fedgate stuck --context host --class orphan",
        (9, "workloaddeployments   14"),
    ),
    (State::Orphaned, "fedgate projects list", (0, "AGE & alpha")),
    (State::SlowHub, "fedgate status", (0, WAITS)),
    (
        State::SlowHub,
        "fedgate stuck --context host --for 2s -o wide",
        (
            9,
            "/undelivered +hub +project_to_hub +alpha +workloaddeployments [^ ]+/web-us-dfw",
        ),
    ),
    (
        State::SlowHub,
        "fedgate journal --context host -o wide",
        (
            0,
            r"/hub +patch +workloaddeployments[^ ]* [^ ]+/web-us-dfw .* alpha +\d{4,}ms",
        ),
    ),
    (State::SlowerHub, "fedgate status", (0, WAITS)),
    (
        State::SlowerHub,
        "fedgate stuck --context host --for 10s -o wide",
        (
            9,
            "/(undelivered +hub +project_to_hub|retrying +hub +timeout) +alpha +workloaddeployments [^ ]+/web-us-dfw",
        ),
    ),
    (
        State::SlowerHub,
        "fedgate journal --context host -o wide",
        (
            0,
            r"/hub +patch +workloaddeployments[^ ]* [^ ]+/web-us-dfw .* alpha +\d{4,}ms",
        ),
    ),
    (
        State::Backlog,
        "fedgate status --context host -o json",
        (0, r#"/"queue":\{"ready":1\d{3},"#),
    ),
    (
        State::Backlog,
        "fedgate journal --context host -o wide",
        (
            0,
            r"/project +apply +workloaddeployments[^ ]* [^ ]+/heap-.* alpha +\d{4,}ms",
        ),
    ),
    (
        State::Idle,
        "kubectl --context alpha get workloads -A -o yaml --show-managed-fields",
        (0, "manager: beat"),
    ),
    (
        State::LittleMemory,
        "fedgate status",
        (
            0,
            r"/projects .* 1 engaged & /delivery .* \d+ deployments & /instances .* \d+ of \d+ ready",
        ),
    ),
    (
        State::WriteBacksLost,
        "fedgate stuck --context host --class brake",
        (9, "projections & 1 deployments keep their projections"),
    ),
    (
        State::WriteBacksLost,
        "kubectl --context host -n fedgate-system logs",
        (0, "the hub lost many write-backs at once & \"vanished\":12"),
    ),
    (
        State::Orphaned,
        "kubectl --context host -n fedgate-system logs",
        (0, "too many copies look like orphans & alpha"),
    ),
    (
        State::Fought,
        "fedgate journal --context host -f",
        (INTERRUPTED, "update_copy & web-us-dfw"),
    ),
    (
        State::Fought,
        "kubectl --context hub get workloaddeployments -A",
        (0, "manager: intruder"),
    ),
    (
        State::Drifted,
        "kubectl --context hub get resourceinterpretercustomizations",
        (0, "manager: intruder"),
    ),
    (
        State::Drifted,
        "fedgate stuck --context host --class brake",
        (9, "drift"),
    ),
    (
        State::Drifted,
        "kubectl --context host -n fedgate-system logs",
        (
            0,
            "interpreter differs from its kind's folder & workloaddeployment",
        ),
    ),
    (
        State::GatewayDown,
        "fedgate status",
        (1, "kubectl -n fedgate-system logs"),
    ),
];

/// The exit code after Ctrl-C.
const INTERRUPTED: i32 = 130;
/// Of replicas that cannot reach the hub: the line of the one that answers, with its next step.
const UNREACHABLE: &str =
    r"/replica +broken .*standby without a leader: the hub is unreachable.*FedgateHubDisconnected\.md";
/// Of a gateway whose changes wait for a hub that answers.
const WAITS: &str = r"/delivery +waiting .* 1 project_to_hub & /hub +ok .* connected";
/// The right that is taken away.
const PATCH: &str = "patch workloaddeployments.compute.datumapis.com";

/// The output of a command in a state; `None` if no row says it.
pub(super) fn shown(state: State, command: &str) -> Option<Wanted> {
    let here = OTHERWISE
        .iter()
        .find(|(of, words, _)| *of == state && command.starts_with(words));
    let well = WELL.iter().find(|(words, _)| command.starts_with(words));
    let shown = here.map(|(_, _, shown)| *shown).or(well.map(|(_, shown)| *shown));
    shown.map(|(code, words)| Wanted(code, words))
}
