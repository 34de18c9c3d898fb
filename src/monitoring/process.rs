//! The dashboard's row on the process itself.

use super::panel::{COUNT, RATE, SECONDS, Section, graph};

/// Memory, CPU, files, and the requests of operators.
pub(super) const PROCESS: Section = Section {
    title: "Process",
    panels: &[
        graph(
            "Memory and its limit",
            "bytes",
            &[
                ("process_resident_memory_bytes", "{{job}} {{pod}} {{instance}}"),
                ("min by (job) (fedgate_memory_limit_bytes)", "{{job}} limit"),
            ],
        ),
        graph(
            "CPU",
            "percentunit",
            &[(
                "rate(process_cpu_seconds_total[$__rate_interval])",
                "{{job}} {{pod}} {{instance}}",
            )],
        ),
        graph(
            "Open files",
            COUNT,
            &[
                ("process_open_fds", "{{job}} {{pod}} {{instance}}"),
                ("min by (job) (process_max_fds)", "{{job}} limit"),
            ],
        ),
        graph(
            "Requests to the operations API",
            RATE,
            &[(
                "sum by (job, path, code) (rate(fedgate_operations_requests_total[$__rate_interval]))",
                "{{job}} {{path}} {{code}}",
            )],
        ),
        graph(
            "Time of the slowest hundredth of these requests",
            SECONDS,
            &[(
                "histogram_quantile(0.99, sum by (job, path, le) (rate(fedgate_operations_request_duration_seconds_bucket[$__rate_interval])))",
                "{{job}} {{path}}",
            )],
        ),
        graph(
            "Event streams",
            COUNT,
            &[("sum by (job) (fedgate_operations_streams)", "{{job}}")],
        ),
        graph(
            "Time for which answers and scrapes hold the index, slowest thousandth",
            SECONDS,
            &[(
                "histogram_quantile(0.999, sum by (job, holder, le) (rate(fedgate_index_lock_seconds_bucket[$__rate_interval])))",
                "{{job}} {{holder}}",
            )],
        ),
        graph(
            "Time since the start",
            SECONDS,
            &[(
                "time() - process_start_time_seconds",
                "{{job}} {{pod}} {{instance}}",
            )],
        ),
        graph(
            "Versions",
            COUNT,
            &[(
                "count by (job, version, revision) (fedgate_build_info)",
                "{{job}} {{version}} {{revision}}",
            )],
        ),
    ],
};
