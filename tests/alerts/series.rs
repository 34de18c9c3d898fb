//! The series of each alert.

use crate::cases::{
    Case,
    Does::{Absent, Ahead, Grows, Is, Values},
    Series,
};

const J: (&str, &str) = ("job", "g");

const fn case(
    alert: &'static str,
    labels: &'static [(&'static str, &'static str)],
    fires: Series,
    below: Series,
) -> Case {
    Case {
        alert,
        labels,
        fires,
        below,
        short: 4,
    }
}

/// The case of each alert.
pub(crate) const CASES: &[Case] = &[
    case(
        "FedgateDown",
        &[],
        &[("fedgate_projects{job=\"g\",state=\"engaged\"}", Absent)],
        &[("fedgate_projects{job=\"g\",state=\"engaged\"}", Is(0.0))],
    ),
    case(
        "FedgateNoLeader",
        &[J, ("name", "fedgate-gateway")],
        &[
            (
                "leader_election_master_status{job=\"g\",name=\"fedgate-gateway\",pod=\"a\"}",
                Is(0.0),
            ),
            (
                "leader_election_master_status{job=\"g\",name=\"fedgate-gateway\",pod=\"b\"}",
                Is(0.0),
            ),
        ],
        &[
            (
                "leader_election_master_status{job=\"g\",name=\"fedgate-gateway\",pod=\"a\"}",
                Is(0.0),
            ),
            (
                "leader_election_master_status{job=\"g\",name=\"fedgate-gateway\",pod=\"b\"}",
                Is(1.0),
            ),
        ],
    ),
    case(
        "FedgateNoStandby",
        &[J, ("name", "fedgate-gateway")],
        &[
            (
                "leader_election_master_status{job=\"g\",name=\"fedgate-gateway\",pod=\"a\"}",
                Is(1.0),
            ),
            (
                "leader_election_master_status{job=\"g\",name=\"fedgate-gateway\",pod=\"b\"}",
                Absent,
            ),
        ],
        &[
            (
                "leader_election_master_status{job=\"g\",name=\"fedgate-gateway\",pod=\"a\"}",
                Is(1.0),
            ),
            (
                "leader_election_master_status{job=\"g\",name=\"fedgate-gateway\",pod=\"b\"}",
                Is(0.0),
            ),
        ],
    ),
    case(
        "FedgateHubDisconnected",
        &[J],
        &[(
            "fedgate_planes{job=\"g\",plane=\"hub\",state=\"connected\",pod=\"a\"}",
            Is(0.0),
        )],
        &[(
            "fedgate_planes{job=\"g\",plane=\"hub\",state=\"connected\",pod=\"a\"}",
            Is(1.0),
        )],
    ),
    case(
        "FedgateProjectsDisconnected",
        &[J],
        &[
            (
                "fedgate_planes{job=\"g\",plane=\"project\",state=\"connected\",pod=\"a\"}",
                Is(94.0),
            ),
            (
                "fedgate_planes{job=\"g\",plane=\"project\",state=\"backoff\",pod=\"a\"}",
                Is(4.0),
            ),
            (
                "fedgate_planes{job=\"g\",plane=\"project\",state=\"unauthorized\",pod=\"a\"}",
                Is(2.0),
            ),
        ],
        &[
            (
                "fedgate_planes{job=\"g\",plane=\"project\",state=\"connected\",pod=\"a\"}",
                Is(95.0),
            ),
            (
                "fedgate_planes{job=\"g\",plane=\"project\",state=\"backoff\",pod=\"a\"}",
                Is(4.0),
            ),
            (
                "fedgate_planes{job=\"g\",plane=\"project\",state=\"unauthorized\",pod=\"a\"}",
                Is(1.0),
            ),
        ],
    ),
    case(
        "FedgateProjectRefused",
        &[J],
        &[("fedgate_projects{job=\"g\",state=\"refused\"}", Is(1.0))],
        &[("fedgate_projects{job=\"g\",state=\"refused\"}", Is(0.0))],
    ),
    case(
        "FedgateMissingRight",
        &[J, ("plane", "project")],
        &[(
            "fedgate_planes{job=\"g\",plane=\"project\",state=\"unauthorized\",pod=\"a\"}",
            Is(1.0),
        )],
        &[(
            "fedgate_planes{job=\"g\",plane=\"project\",state=\"unauthorized\",pod=\"a\"}",
            Is(0.0),
        )],
    ),
    case(
        "FedgateCredentialExpiresToday",
        &[J, ("plane", "hub")],
        &[(
            "fedgate_credential_expiry_timestamp_seconds{job=\"g\",plane=\"hub\"}",
            Ahead(86_399.0),
        )],
        &[(
            "fedgate_credential_expiry_timestamp_seconds{job=\"g\",plane=\"hub\"}",
            Ahead(86_400.0),
        )],
    ),
    case(
        "FedgateCredentialExpiring",
        &[J, ("plane", "hub")],
        &[(
            "fedgate_credential_expiry_timestamp_seconds{job=\"g\",plane=\"hub\"}",
            Ahead(604_799.0),
        )],
        &[(
            "fedgate_credential_expiry_timestamp_seconds{job=\"g\",plane=\"hub\"}",
            Ahead(604_800.0),
        )],
    ),
    case(
        "FedgateLatencyVeryHigh",
        &[J],
        &[
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"8.192\"}",
                Grows(0.0),
            ),
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"16.384\"}",
                Grows(30.0),
            ),
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"+Inf\"}",
                Grows(30.0),
            ),
        ],
        &[
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"8.192\"}",
                Grows(30.0),
            ),
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"16.384\"}",
                Grows(30.0),
            ),
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"+Inf\"}",
                Grows(30.0),
            ),
        ],
    ),
    case(
        "FedgateLatencyHigh",
        &[J],
        &[
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"1.024\"}",
                Grows(0.0),
            ),
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"2.048\"}",
                Grows(0.0),
            ),
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"4.096\"}",
                Grows(30.0),
            ),
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"+Inf\"}",
                Grows(30.0),
            ),
        ],
        &[
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"1.024\"}",
                Grows(30.0),
            ),
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"2.048\"}",
                Grows(30.0),
            ),
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"4.096\"}",
                Grows(30.0),
            ),
            (
                "fedgate_federation_seconds_bucket{job=\"g\",stage=\"project_to_hub\",le=\"+Inf\"}",
                Grows(30.0),
            ),
        ],
    ),
    case(
        "FedgateUndeliveredLong",
        &[J],
        &[(
            "fedgate_oldest_undelivered_seconds{job=\"g\",stage=\"project_to_hub\"}",
            Is(901.0),
        )],
        &[(
            "fedgate_oldest_undelivered_seconds{job=\"g\",stage=\"project_to_hub\"}",
            Is(900.0),
        )],
    ),
    case(
        "FedgateUndelivered",
        &[J],
        &[(
            "fedgate_oldest_undelivered_seconds{job=\"g\",stage=\"project_to_hub\"}",
            Is(121.0),
        )],
        &[(
            "fedgate_oldest_undelivered_seconds{job=\"g\",stage=\"project_to_hub\"}",
            Is(120.0),
        )],
    ),
    case(
        "FedgateNotReturned",
        &[J, ("stage", "hub_status_to_project")],
        &[(
            "fedgate_oldest_undelivered_seconds{job=\"g\",stage=\"hub_status_to_project\"}",
            Is(121.0),
        )],
        &[(
            "fedgate_oldest_undelivered_seconds{job=\"g\",stage=\"hub_status_to_project\"}",
            Is(120.0),
        )],
    ),
    case(
        "FedgateCellDelivery",
        &[J],
        &[(
            "fedgate_oldest_undelivered_seconds{job=\"g\",stage=\"hub_to_cell\"}",
            Is(601.0),
        )],
        &[(
            "fedgate_oldest_undelivered_seconds{job=\"g\",stage=\"hub_to_cell\"}",
            Is(600.0),
        )],
    ),
    case(
        "FedgateStuckKeys",
        &[J, ("controller", "federator")],
        &[(
            "fedgate_stuck_keys{job=\"g\",controller=\"federator\",category=\"server\"}",
            Is(1.0),
        )],
        &[(
            "fedgate_stuck_keys{job=\"g\",controller=\"federator\",category=\"server\"}",
            Is(0.0),
        )],
    ),
    case(
        "FedgateStuckDeletion",
        &[J],
        &[("fedgate_oldest_pending_deletion_seconds{job=\"g\"}", Is(901.0))],
        &[("fedgate_oldest_pending_deletion_seconds{job=\"g\"}", Is(900.0))],
    ),
    case(
        "FedgateQuarantine",
        &[J, ("kind", "Instance"), ("reason", "too_large")],
        &[(
            "fedgate_quarantined_objects{job=\"g\",kind=\"Instance\",reason=\"too_large\"}",
            Is(1.0),
        )],
        &[(
            "fedgate_quarantined_objects{job=\"g\",kind=\"Instance\",reason=\"too_large\"}",
            Is(0.0),
        )],
    ),
    case(
        "FedgateIdentityRejection",
        &[J, ("reason", "identity_mismatch")],
        &[(
            "fedgate_identity_rejections_total{job=\"g\",reason=\"identity_mismatch\"}",
            Values("0x14 1x30"),
        )],
        &[(
            "fedgate_identity_rejections_total{job=\"g\",reason=\"identity_mismatch\"}",
            Is(0.0),
        )],
    ),
    case(
        "FedgateGarbageBrake",
        &[J],
        &[("fedgate_garbage_brake{job=\"g\"}", Is(1.0))],
        &[("fedgate_garbage_brake{job=\"g\"}", Is(0.0))],
    ),
    case(
        "FedgateOrphans",
        &[J],
        &[("fedgate_orphan_hub_objects{job=\"g\"}", Is(1.0))],
        &[("fedgate_orphan_hub_objects{job=\"g\"}", Is(0.0))],
    ),
    case(
        "FedgateInterpreterDrift",
        &[J],
        &[("fedgate_interpreter_drift{job=\"g\"}", Is(1.0))],
        &[("fedgate_interpreter_drift{job=\"g\"}", Is(0.0))],
    ),
    Case {
        short: 6,
        ..case(
            "FedgateWriteFight",
            &[J, ("kind", "Instance")],
            &[(
                "fedgate_write_fights_total{job=\"g\",kind=\"Instance\",field_group=\"spec\"}",
                Grows(3.0),
            )],
            &[(
                "fedgate_write_fights_total{job=\"g\",kind=\"Instance\",field_group=\"spec\"}",
                Grows(1.5),
            )],
        )
    },
    Case {
        short: 6,
        ..case(
            "FedgateIdleReconciles",
            &[J],
            &[
                (
                    "controller_runtime_reconcile_total{job=\"g\",controller=\"federator\",result=\"success\"}",
                    Grows(300.0),
                ),
                (
                    "fedgate_noop_reconciles_total{job=\"g\",controller=\"federator\"}",
                    Grows(297.0),
                ),
            ],
            &[
                (
                    "controller_runtime_reconcile_total{job=\"g\",controller=\"federator\",result=\"success\"}",
                    Grows(300.0),
                ),
                (
                    "fedgate_noop_reconciles_total{job=\"g\",controller=\"federator\"}",
                    Grows(285.0),
                ),
            ],
        )
    },
    case(
        "FedgateErrorRatio",
        &[J],
        &[
            (
                "controller_runtime_reconcile_total{job=\"g\",controller=\"federator\",result=\"success\"}",
                Grows(30.0),
            ),
            (
                "controller_runtime_reconcile_errors_total{job=\"g\",controller=\"federator\"}",
                Grows(12.0),
            ),
        ],
        &[
            (
                "controller_runtime_reconcile_total{job=\"g\",controller=\"federator\",result=\"success\"}",
                Grows(30.0),
            ),
            (
                "controller_runtime_reconcile_errors_total{job=\"g\",controller=\"federator\"}",
                Grows(6.0),
            ),
        ],
    ),
    case(
        "FedgateCellNotReady",
        &[J],
        &[("fedgate_cells{job=\"g\",state=\"not_ready\"}", Is(1.0))],
        &[("fedgate_cells{job=\"g\",state=\"not_ready\"}", Is(0.0))],
    ),
    case(
        "FedgateCellFailed",
        &[J],
        &[("fedgate_cell_objects{job=\"g\",phase=\"Failed\"}", Is(1.0))],
        &[("fedgate_cell_objects{job=\"g\",phase=\"Failed\"}", Is(0.0))],
    ),
    case(
        "FedgateCityWithoutCell",
        &[J],
        &[(
            "fedgate_federated_objects{job=\"g\",kind=\"workloaddeployments\",status=\"False\",reason=\"NoCellForCity\"}",
            Is(1.0),
        )],
        &[(
            "fedgate_federated_objects{job=\"g\",kind=\"workloaddeployments\",status=\"False\",reason=\"NoCellForCity\"}",
            Is(0.0),
        )],
    ),
    case(
        "FedgateMovesHeld",
        &[J],
        &[("fedgate_moves_held{job=\"g\"}", Is(1.0))],
        &[("fedgate_moves_held{job=\"g\"}", Is(0.0))],
    ),
    case(
        "FedgateQueueBacklog",
        &[J, ("name", "gateway")],
        &[("workqueue_depth{job=\"g\",name=\"gateway\"}", Is(1001.0))],
        &[("workqueue_depth{job=\"g\",name=\"gateway\"}", Is(1000.0))],
    ),
    case(
        "FedgateRestarting",
        &[J],
        &[(
            "process_start_time_seconds{job=\"g\"}",
            Values("0 60 120 180 240x40"),
        )],
        &[("process_start_time_seconds{job=\"g\"}", Values("0 60 120 180x41"))],
    ),
    case(
        "FedgateMemoryHigh",
        &[J],
        &[
            ("process_resident_memory_bytes{job=\"g\"}", Is(91.0)),
            ("fedgate_memory_limit_bytes{job=\"g\"}", Is(100.0)),
        ],
        &[
            ("process_resident_memory_bytes{job=\"g\"}", Is(90.0)),
            ("fedgate_memory_limit_bytes{job=\"g\"}", Is(100.0)),
        ],
    ),
    case(
        "FedgateVersionSkew",
        &[J],
        &[
            (
                "fedgate_build_info{job=\"g\",version=\"1.0.0\",pod=\"a\"}",
                Is(1.0),
            ),
            (
                "fedgate_build_info{job=\"g\",version=\"1.1.0\",pod=\"b\"}",
                Is(1.0),
            ),
        ],
        &[
            (
                "fedgate_build_info{job=\"g\",version=\"1.0.0\",pod=\"a\"}",
                Is(1.0),
            ),
            (
                "fedgate_build_info{job=\"g\",version=\"1.1.0\",pod=\"b\"}",
                Absent,
            ),
        ],
    ),
];
