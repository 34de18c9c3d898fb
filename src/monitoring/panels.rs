//! The panels of the dashboard.

use super::{
    panel::{COUNT, RATE, SECONDS, Section, figure, graph},
    process::PROCESS,
};

/// All rows, from what a person asks first to what is asked last.
pub const SECTIONS: &[Section] = &[
    Section {
        title: "Now",
        panels: &[
            figure(
                "Hub connected",
                COUNT,
                &[(
                    "max by (job) (fedgate_planes{plane=\"hub\",state=\"connected\"})",
                    "{{job}}",
                )],
            ),
            figure(
                "Leaders",
                COUNT,
                &[(
                    "sum by (job, name) (leader_election_master_status)",
                    "{{job}} {{name}}",
                )],
            ),
            figure(
                "Undelivered",
                COUNT,
                &[("max by (job, stage) (fedgate_undelivered_objects)", "{{stage}}")],
            ),
            figure(
                "Stuck keys",
                COUNT,
                &[("sum by (job) (fedgate_stuck_keys)", "{{job}}")],
            ),
            figure(
                "Cells not ready",
                COUNT,
                &[("max by (job) (fedgate_cells{state=\"not_ready\"})", "{{job}}")],
            ),
            figure(
                "Garbage brake",
                COUNT,
                &[("max by (job) (fedgate_garbage_brake)", "{{job}}")],
            ),
        ],
    },
    Section {
        title: "Delivery",
        panels: &[
            graph(
                "Undelivered objects by stage",
                COUNT,
                &[(
                    "max by (job, stage) (fedgate_undelivered_objects)",
                    "{{job}} {{stage}}",
                )],
            ),
            graph(
                "Age of the oldest undelivered object",
                SECONDS,
                &[(
                    "max by (job, stage) (fedgate_oldest_undelivered_seconds)",
                    "{{job}} {{stage}}",
                )],
            ),
            graph(
                "Time between planes, p99",
                SECONDS,
                &[(
                    "histogram_quantile(0.99, sum by (job, stage, le) (rate(fedgate_federation_seconds_bucket[$__rate_interval])))",
                    "{{job}} {{stage}}",
                )],
            ),
            graph(
                "Federated objects by reason",
                COUNT,
                &[(
                    "max by (job, kind, status, reason) (fedgate_federated_objects) > 0",
                    "{{kind}} {{status}} {{reason}}",
                )],
            ),
            graph(
                "Instances as deployments report them",
                COUNT,
                &[(
                    "max by (job, state) (fedgate_reported_instances)",
                    "{{job}} {{state}}",
                )],
            ),
            graph(
                "Writes by plane and reason",
                RATE,
                &[(
                    "sum by (job, plane, kind, reason) (rate(fedgate_writes_total[$__rate_interval]))",
                    "{{job}} {{plane}} {{kind}} {{reason}}",
                )],
            ),
            graph(
                "Writes that wait for the rate limit of the hub",
                COUNT,
                &[("max by (job) (fedgate_delayed_hub_writes)", "{{job}}")],
            ),
        ],
    },
    Section {
        title: "Stuck",
        panels: &[
            graph(
                "Stuck keys",
                COUNT,
                &[(
                    "sum by (job, controller, category) (fedgate_stuck_keys) > 0",
                    "{{job}} {{controller}} {{category}}",
                )],
            ),
            graph(
                "Age of the oldest failure",
                SECONDS,
                &[("max by (job) (fedgate_oldest_stuck_key_seconds)", "{{job}}")],
            ),
            graph(
                "Keys in backoff",
                COUNT,
                &[(
                    "sum by (job, controller, category) (fedgate_keys_in_backoff) > 0",
                    "{{job}} {{controller}} {{category}}",
                )],
            ),
            graph(
                "Failed reconciles by plane and category",
                RATE,
                &[(
                    "sum by (job, plane, category) (rate(fedgate_reconcile_errors_total[$__rate_interval])) > 0",
                    "{{job}} {{plane}} {{category}}",
                )],
            ),
            graph(
                "Last errors that are kept, and given up",
                COUNT,
                &[
                    ("max by (job) (fedgate_failures)", "{{job}} kept"),
                    (
                        "sum by (job) (increase(fedgate_failures_dropped_total[$__rate_interval]))",
                        "{{job}} given up",
                    ),
                ],
            ),
            graph(
                "Quarantined objects",
                COUNT,
                &[(
                    "max by (job, kind, reason) (fedgate_quarantined_objects)",
                    "{{job}} {{kind}} {{reason}}",
                )],
            ),
            graph(
                "Age of the oldest deletion",
                SECONDS,
                &[(
                    "max by (job) (fedgate_oldest_pending_deletion_seconds)",
                    "{{job}}",
                )],
            ),
            graph(
                "Deletions under way",
                COUNT,
                &[
                    ("max by (job) (fedgate_pending_deletions)", "{{job}}"),
                    (
                        "sum by (job) (increase(fedgate_members_abandoned_total[$__rate_interval]))",
                        "{{job}} abandoned at a member",
                    ),
                ],
            ),
            graph(
                "Orphans on the hub, and the brake",
                COUNT,
                &[
                    ("max by (job) (fedgate_orphan_hub_objects)", "{{job}} orphans"),
                    ("max by (job) (fedgate_garbage_brake)", "{{job}} brake"),
                ],
            ),
            graph(
                "Rejected identities and claims",
                COUNT,
                &[
                    (
                        "sum by (job, reason) (increase(fedgate_identity_rejections_total[$__rate_interval]))",
                        "{{job}} {{reason}}",
                    ),
                    ("max by (job) (fedgate_rejected_claims)", "{{job}} claims"),
                    (
                        "max by (job) (fedgate_unlabelled_write_backs)",
                        "{{job}} without a label",
                    ),
                ],
            ),
            graph(
                "Copies without a field of their place",
                COUNT,
                &[(
                    "max by (job, field) (fedgate_copies_without_place)",
                    "{{job}} {{field}}",
                )],
            ),
            graph(
                "Writes that another client changes back",
                RATE,
                &[(
                    "sum by (job, kind, field_group) (rate(fedgate_write_fights_total[$__rate_interval]))",
                    "{{job}} {{kind}} {{field_group}}",
                )],
            ),
            graph(
                "Interpreters that are not ours",
                COUNT,
                &[("max by (job) (fedgate_interpreter_drift)", "{{job}}")],
            ),
        ],
    },
    Section {
        title: "Planes and credentials",
        panels: &[
            graph(
                "Planes by state",
                COUNT,
                &[(
                    "max by (job, plane, state) (fedgate_planes)",
                    "{{job}} {{plane}} {{state}}",
                )],
            ),
            graph(
                "Longest silence of a plane",
                SECONDS,
                &[(
                    "max by (job, plane, state) (fedgate_plane_last_event_age_seconds)",
                    "{{job}} {{plane}} {{state}}",
                )],
            ),
            graph(
                "Projects by state",
                COUNT,
                &[("max by (job, state) (fedgate_projects)", "{{job}} {{state}}")],
            ),
            graph(
                "Credentials by the time left",
                COUNT,
                &[(
                    "max by (job, plane, expiry) (fedgate_credentials)",
                    "{{job}} {{plane}} {{expiry}}",
                )],
            ),
            graph(
                "Time until the first credential expires",
                SECONDS,
                &[(
                    "min by (job, plane) (fedgate_credential_expiry_timestamp_seconds) - time()",
                    "{{job}} {{plane}}",
                )],
            ),
            graph(
                "Restored planes",
                COUNT,
                &[(
                    "sum by (job, plane) (increase(fedgate_plane_rewinds_total[$__rate_interval]))",
                    "{{job}} {{plane}}",
                )],
            ),
            graph(
                "Objects that watches brought",
                RATE,
                &[(
                    "sum by (job, plane, kind, type) (rate(fedgate_watch_events_total[$__rate_interval]))",
                    "{{job}} {{plane}} {{kind}} {{type}}",
                )],
            ),
            graph(
                "Watches begun again after a failure",
                RATE,
                &[(
                    "sum by (job, plane, kind, cause) (rate(fedgate_watch_restarts_total[$__rate_interval]))",
                    "{{job}} {{plane}} {{kind}} {{cause}}",
                )],
            ),
            graph(
                "Requests to API servers",
                RATE,
                &[(
                    "sum by (job, plane, verb, code) (rate(fedgate_api_requests_total[$__rate_interval]))",
                    "{{job}} {{plane}} {{verb}} {{code}}",
                )],
            ),
            graph(
                "Time of requests to API servers, p99",
                SECONDS,
                &[(
                    "histogram_quantile(0.99, sum by (job, host, verb, le) (rate(rest_client_request_duration_seconds_bucket[$__rate_interval])))",
                    "{{job}} {{host}} {{verb}}",
                )],
            ),
            graph(
                "Answers of API servers by code",
                RATE,
                &[(
                    "sum by (job, host, code) (rate(rest_client_requests_total[$__rate_interval]))",
                    "{{job}} {{host}} {{code}}",
                )],
            ),
            graph(
                "Objects in the index",
                COUNT,
                &[(
                    "max by (job, plane, kind) (fedgate_cache_objects)",
                    "{{job}} {{plane}} {{kind}}",
                )],
            ),
        ],
    },
    Section {
        title: "Cells",
        panels: &[
            graph(
                "Karmada Clusters by state",
                COUNT,
                &[("max by (job, state) (fedgate_cells)", "{{job}} {{state}}")],
            ),
            graph(
                "Copies that are not at their cells",
                COUNT,
                &[(
                    "max by (job) (fedgate_undelivered_objects{stage=\"hub_to_cell\"})",
                    "{{job}}",
                )],
            ),
            graph(
                "Quota that cannot be confirmed",
                COUNT,
                &[
                    (
                        "max by (job) (fedgate_quota_unverified_instances)",
                        "{{job}} unverified",
                    ),
                    (
                        "sum by (job, reason) (increase(fedgate_quota_claims_orphaned_total[$__rate_interval]))",
                        "{{job}} orphaned {{reason}}",
                    ),
                ],
            ),
            graph(
                "Releases at other planes",
                COUNT,
                &[
                    ("max by (job) (fedgate_release_records)", "{{job}} recorded"),
                    (
                        "sum by (job, reason) (increase(fedgate_release_records_dropped_total[$__rate_interval]))",
                        "{{job}} given up {{reason}}",
                    ),
                ],
            ),
        ],
    },
    Section {
        title: "Controllers and queue",
        panels: &[
            graph(
                "Reconciles by result",
                RATE,
                &[(
                    "sum by (job, controller, result) (rate(controller_runtime_reconcile_total[$__rate_interval]))",
                    "{{job}} {{controller}} {{result}}",
                )],
            ),
            graph(
                "Failed reconciles",
                RATE,
                &[(
                    "sum by (job, controller) (rate(controller_runtime_reconcile_errors_total[$__rate_interval]))",
                    "{{job}} {{controller}}",
                )],
            ),
            graph(
                "Reconciles without a write",
                RATE,
                &[(
                    "sum by (job, controller) (rate(fedgate_noop_reconciles_total[$__rate_interval]))",
                    "{{job}} {{controller}}",
                )],
            ),
            graph(
                "Reconciles that panicked",
                COUNT,
                &[(
                    "sum by (job, controller) (increase(controller_runtime_reconcile_panics_total[$__rate_interval]))",
                    "{{job}} {{controller}}",
                )],
            ),
            graph(
                "Time of a reconcile, p99",
                SECONDS,
                &[(
                    "histogram_quantile(0.99, sum by (job, controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket[$__rate_interval])))",
                    "{{job}} {{controller}}",
                )],
            ),
            graph(
                "Workers",
                COUNT,
                &[
                    (
                        "sum by (job, controller) (controller_runtime_active_workers)",
                        "{{job}} {{controller}}",
                    ),
                    (
                        "max by (job) (controller_runtime_max_concurrent_reconciles)",
                        "{{job}} at most",
                    ),
                ],
            ),
            graph(
                "Keys that could run now",
                COUNT,
                &[("max by (job, name) (workqueue_depth)", "{{job}} {{name}}")],
            ),
            graph(
                "Keys added, and put back",
                RATE,
                &[
                    (
                        "sum by (job, name) (rate(workqueue_adds_total[$__rate_interval]))",
                        "{{job}} {{name}} added",
                    ),
                    (
                        "sum by (job, name) (rate(workqueue_retries_total[$__rate_interval]))",
                        "{{job}} {{name}} put back",
                    ),
                ],
            ),
            graph(
                "Time that a key waits, and is worked on, p99",
                SECONDS,
                &[
                    (
                        "histogram_quantile(0.99, sum by (job, name, le) (rate(workqueue_queue_duration_seconds_bucket[$__rate_interval])))",
                        "{{job}} {{name}} waits",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (job, name, le) (rate(workqueue_work_duration_seconds_bucket[$__rate_interval])))",
                        "{{job}} {{name}} is worked on",
                    ),
                ],
            ),
            graph(
                "Age of reconciles under way",
                SECONDS,
                &[
                    (
                        "max by (job, name) (workqueue_longest_running_processor_seconds)",
                        "{{job}} {{name}} oldest",
                    ),
                    (
                        "max by (job, name) (workqueue_unfinished_work_seconds)",
                        "{{job}} {{name}} sum",
                    ),
                ],
            ),
        ],
    },
    PROCESS,
];
