//! Flags of every role.

use crate::telemetry::LogFormat;
use clap::Args;
use fedgate_engine::plane::kubeconfig::Rules;
use std::{net::SocketAddr, path::PathBuf};

/// Flags of every role; see the module.
#[derive(Debug, Clone, Args)]
pub struct ProcessArgs {
    /// Address of /livez, /readyz, /metrics, /debug/planes and the operations API under /api/v1.
    #[arg(
        long,
        env = "FEDGATE_ADMIN_ADDRESS",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080"
    )]
    pub admin_address: SocketAddr,
    /// File with the token that all paths but /livez and /readyz require (Authorization: Bearer). Read at each request.
    /// Required unless the address is of the loopback interface.
    #[arg(long, env = "FEDGATE_ADMIN_TOKEN_FILE", value_name = "PATH")]
    pub admin_token_file: Option<PathBuf>,
    /// Folder with tls.crt and tls.key: the admin address is served over TLS. Read again when a file changes.
    #[arg(long, env = "FEDGATE_ADMIN_TLS_DIRECTORY", value_name = "DIR")]
    pub admin_tls_directory: Option<PathBuf>,
    /// Further address of /livez and /readyz alone, without token and TLS: requests to the admin address delay no probe.
    #[arg(long, env = "FEDGATE_PROBE_ADDRESS", value_name = "ADDRESS")]
    pub probe_address: Option<SocketAddr>,
    /// Format of log lines.
    #[arg(long, env = "FEDGATE_LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,
    /// Log filter: a level, or a list such as info,fedgate=debug.
    #[arg(
        long,
        env = "FEDGATE_LOG_LEVEL",
        value_name = "FILTER",
        default_value = "info"
    )]
    pub log_level: String,
    /// Write only while holding the Lease. Needed for more than one replica.
    #[arg(long, env = "FEDGATE_LEADER_ELECT", value_name = "BOOL", default_value = "true", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub leader_elect: bool,
    /// How many keys are worked on at a time.
    #[arg(long, env = "FEDGATE_WORKERS", value_name = "N", default_value = "32", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: u16,
    /// For development only: accept plain http in kubeconfigs.
    #[arg(long, env = "FEDGATE_DEVELOPMENT_ALLOW_HTTP", value_name = "BOOL", default_value = "false", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub development_allow_http: bool,
}

impl ProcessArgs {
    /// Checks that the flags are consistent.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.admin_token_file.is_some() || self.admin_address.ip().is_loopback(),
            "--admin-address {} can be reached from elsewhere, and most of its paths tell of tenants: give --admin-token-file (or FEDGATE_ADMIN_TOKEN_FILE), or choose an address such as 127.0.0.1:8080",
            self.admin_address
        );
        Ok(())
    }

    /// Namespace and name of the Lease; `None` without election.
    pub fn lease(&self, namespace: &str, name: &str) -> Option<(String, String)> {
        self.leader_elect.then(|| (namespace.to_owned(), name.to_owned()))
    }

    /// Restrictions on kubeconfigs.
    pub fn rules(&self) -> Rules {
        Rules {
            plain_http: self.development_allow_http,
        }
    }
}
