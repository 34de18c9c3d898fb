//! Kubeconfigs as kubectl takes them, for `kubectl compute`, the commands of `fedgate`, and the gateway's own stricter reader
//! (`fedgate_engine::plane::kubeconfig`), which shares documents, base64 and the verification of servers.
//! docs/kubeconfigs.md lists what differs from kubectl.

#![forbid(unsafe_code)]

mod client;
pub mod der;
mod document;
mod error;
mod files;
mod proxy;
mod tls;

pub use client::{Requests, client};
pub use document::{Malformed, TokenTimes, document, entry, from_base64, to_base64, token_times};
pub use error::{LoadError, cause, client_cause, plain, root};
pub use files::contexts;
pub use tls::verifier;

use http::Uri;
use jiff::Timestamp;
use kube::{
    Config,
    config::{AuthInfo, Cluster, ExecInteractiveMode},
};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde_json::{Map, Value};
use std::{
    io::{self, IsTerminal},
    path::Path,
};

/// A token that ends within this time, in seconds, is taken for expired, as kubectl does.
const LEEWAY: i64 = 10;

/// The connection that a kubeconfig chooses.
#[derive(Debug)]
pub struct Loaded {
    /// The settings for [`client`]. No request is retried, and no answer has a time limit.
    pub config: Config,
    /// Name of the context.
    pub context: String,
    /// PEM bundle of the server's authority, if the kubeconfig has one.
    pub authority: Option<Vec<u8>>,
}

/// Reads the file, or what `KUBECONFIG` and the home directory have, as kubectl does. Sends no request. A program that makes
/// credentials may ask the user if `may_ask` is true and standard input is a terminal.
pub async fn load(path: Option<&Path>, context: Option<&str>, may_ask: bool) -> Result<Loaded, LoadError> {
    choose(
        &files::read(path).await?,
        context,
        may_ask && io::stdin().is_terminal(),
    )
    .await
}

/// Reads a kubeconfig that is not in a file.
pub async fn load_text(text: &[u8]) -> Result<Loaded, LoadError> {
    let document = document(text).map_err(|cause| LoadError::Malformed {
        file: "the kubeconfig".to_owned(),
        cause,
    })?;
    choose(&document, None, false).await
}

async fn choose(document: &Value, context: Option<&str>, has_terminal: bool) -> Result<Loaded, LoadError> {
    let current = document["current-context"].as_str();
    let named = context.into_iter().chain(current).find(|name| !name.is_empty());
    let name = named.ok_or(LoadError::NoContext)?;
    let find = |list, field, name: &str| {
        let found = entry(document, list, field, name);
        found.ok_or_else(|| LoadError::Unknown(field, name.to_owned()))
    };
    let context = find("contexts", "context", name)?;
    let text = |field: &str| context.get(field).and_then(Value::as_str).unwrap_or_default();
    let cluster: Cluster = typed(find("clusters", "cluster", text("cluster"))?, "cluster")?;
    let authority = authority(&cluster).await?;
    // kubectl asks for a password, which no API server takes.
    let no_user = Map::new();
    let user = find("users", "user", text("user")).unwrap_or(&no_user);
    let auth = credential(typed(user, "user")?, &cluster, name, has_terminal).await?;

    let server: Uri = cluster
        .server
        .as_deref()
        .unwrap_or_default()
        .parse()
        .unwrap_or_default();
    if server.scheme().is_none() {
        return Err(LoadError::Field(
            "server",
            "it must be a URL that begins with https://",
        ));
    }
    let mut config = Config::new(server.clone());
    config.proxy_url = proxy::of(&server, cluster.proxy_url.as_deref(), |name| {
        std::env::var(name).ok()
    })?;
    config.root_cert = authority.as_deref().map(certificates).transpose()?;
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify == Some(true);
    if config.accept_invalid_certs && authority.is_some() {
        let why = "the cluster has a certificate authority, too; remove one of them";
        return Err(LoadError::Field("insecure-skip-tls-verify", why));
    }
    if let Some(name) = cluster.tls_server_name {
        ServerName::try_from(name.clone())
            .map_err(|_| LoadError::Field("tls-server-name", "it is no host name"))?;
        config.tls_server_name = Some(name);
    }
    if !text("namespace").is_empty() {
        text("namespace").clone_into(&mut config.default_namespace);
    }
    config.auth_info = auth;
    config.connect_timeout = None;
    config.write_timeout = None;
    // The client's own retries go on for minutes and hide their cause.
    config.default_retry = false;
    Ok(Loaded {
        config,
        context: name.to_owned(),
        authority,
    })
}

/// A section in the types of kube. kubectl takes an empty text for none, ignores line ends in base64, and knows the booleans of
/// YAML 1.1. The error of the parser is not told, because it quotes values.
fn typed<T: serde::de::DeserializeOwned>(
    section: &Map<String, Value>,
    name: &'static str,
) -> Result<T, LoadError> {
    let given = section
        .iter()
        .filter(|(_, value)| !value.is_null() && *value != "");
    let plain = given.map(|(field, value)| {
        let value = match value.as_str() {
            Some(text) if field.ends_with("-data") => Value::from(text.replace(['\r', '\n'], "")),
            Some(text) if field == "insecure-skip-tls-verify" => {
                Value::Bool(["y", "yes", "on"].contains(&&*text.to_lowercase()))
            }
            _ => value.clone(),
        };
        (field.clone(), value)
    });
    serde_json::from_value(plain.collect())
        .map_err(|_| LoadError::Field(name, "a field of it has a value of the wrong type"))
}

/// The PEM bundle of the server's authority.
async fn authority(cluster: &Cluster) -> Result<Option<Vec<u8>>, LoadError> {
    if let Some(data) = &cluster.certificate_authority_data {
        let wrong = LoadError::Field("certificate-authority-data", "it is not base64 text");
        return from_base64(data).map(Some).ok_or(wrong);
    }
    match &cluster.certificate_authority {
        Some(path) => files::bytes(Path::new(path)).await.map(Some),
        None => Ok(None),
    }
}

/// The certificates of a PEM bundle, in DER; at least one.
fn certificates(bundle: &[u8]) -> Result<Vec<Vec<u8>>, LoadError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle).collect();
    let found = found.unwrap_or_default();
    if found.is_empty() {
        return Err(LoadError::Field(
            "certificate-authority",
            "it holds no CERTIFICATE in PEM",
        ));
    }
    Ok(found.iter().map(|certificate| certificate.to_vec()).collect())
}

/// The credential as kube's client can use it.
async fn credential(
    mut user: AuthInfo,
    cluster: &Cluster,
    context: &str,
    has_terminal: bool,
) -> Result<AuthInfo, LoadError> {
    if let Some(file) = &user.token_file {
        // kubectl prefers the file.
        user.token = None;
        let text = String::from_utf8(files::bytes(Path::new(file)).await?).unwrap_or_default();
        // The client reads the file again as it is rotated, but sends a newline at its end, too.
        if text.trim() != text {
            user.token = Some(text.trim().to_owned().into());
        }
    }
    if let Some(exec) = &mut user.exec {
        if exec.provide_cluster_info {
            let told = cluster.try_into();
            exec.cluster =
                Some(told.map_err(|_| LoadError::Field("exec", "it cannot be told about the cluster"))?);
        }
        if !has_terminal {
            if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
                return Err(LoadError::NeedsTerminal(exec.command.clone().unwrap_or_default()));
            }
            // The program would read what our standard input is for.
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }
    }
    if let Some(provider) = &user.auth_provider
        && provider.name == "oidc"
    {
        let token = provider.config.get("id-token").map_or("", String::as_str);
        let ends = token_times(token).map(|times| times.ends);
        if token.is_empty() || ends.is_some_and(|ends| ends <= Timestamp::now().as_second() + LEEWAY) {
            return Err(LoadError::TokenExpired(context.to_owned()));
        }
    }
    Ok(user)
}
