//! Flags of every role.

use super::ConfigError;
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

/// Settings of the process around a role.
#[derive(Debug, Clone)]
pub struct ProcessConfig {
    /// Address of the administrative paths.
    pub admin_address: SocketAddr,
    /// File with the token that the paths with tenants' data require.
    pub admin_token_file: Option<PathBuf>,
    /// Folder with certificate and key of the administrative address; `None` serves it without TLS.
    pub admin_tls_directory: Option<PathBuf>,
    /// Further address of the probes.
    pub probe_address: Option<SocketAddr>,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Log filter.
    pub log_level: String,
    /// True if the replica writes only while holding the Lease.
    pub leader_elect: bool,
    /// Number of keys that are reconciled concurrently.
    pub workers: usize,
    /// Restrictions on kubeconfigs.
    pub rules: Rules,
}

impl ProcessArgs {
    /// Checks that the flags are consistent.
    pub fn into_config(self) -> Result<ProcessConfig, ConfigError> {
        let Self {
            admin_address,
            admin_token_file,
            admin_tls_directory,
            probe_address,
            log_format,
            log_level,
            leader_elect,
            workers,
            development_allow_http,
        } = self;
        if admin_token_file.is_none() && !admin_address.ip().is_loopback() {
            return Err(ConfigError::OpenAdmin(admin_address));
        }
        Ok(ProcessConfig {
            admin_address,
            admin_token_file,
            admin_tls_directory,
            probe_address,
            log_format,
            log_level,
            leader_elect,
            workers: workers.into(),
            rules: Rules {
                plain_http: development_allow_http,
            },
        })
    }
}
