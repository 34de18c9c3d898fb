//! Reads a kubeconfig's document field by field.

use super::{Credential, KubeconfigError, MAX_BYTES, Rules, expiry};
use crate::shared_map::SharedMap;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// TLS settings by the digest of all their inputs, shared by all credentials with these: each has a session cache, which
/// would be much of the memory of an idle project.
static TLS: SharedMap<[u8; 32], ClientConfig> = SharedMap::new();

pub(super) fn is_plain(server: &http::Uri) -> bool {
    server.scheme() == Some(&http::uri::Scheme::HTTP)
}

pub(super) fn read(origin: &str, field: &str, path: &Path) -> Result<Vec<u8>, KubeconfigError> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let outcome = std::fs::File::open(path).and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    let cause = match outcome {
        Ok(_) if bytes.len() as u64 > MAX_BYTES => format!("it is larger than {MAX_BYTES} bytes"),
        Ok(_) => return Ok(bytes),
        Err(e) => e.to_string(),
    };
    Err(KubeconfigError::unreadable_file(origin, field, path, &cause))
}

pub(super) struct Reader<'a> {
    origin: String,
    rules: Rules,
    /// Base folder of relative paths; `None` where the kubeconfig may not refer to files.
    folder: Option<&'a Path>,
    files: Vec<PathBuf>,
}

/// One mapping of the document and its path, e.g. `users[admin].user`.
struct Section<'a> {
    path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Section<'a> {
    /// The text of a field that is not empty.
    fn text(&self, field: &str) -> Option<&'a str> {
        self.fields.get(field)?.as_str().filter(|text| !text.is_empty())
    }

    fn path_of(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(origin: String, rules: Rules, folder: Option<&'a Path>) -> Self {
        Self {
            origin,
            rules,
            folder,
            files: Vec::new(),
        }
    }

    pub(super) fn credential(self, text: &[u8]) -> Result<Credential, KubeconfigError> {
        let document = fedgate_kubeconfig::document(text).map_err(|cause| {
            self.error(&format!(
                "not a kubeconfig: {cause}; write it anew, `kubectl config view --raw --minify --flatten` prints one that fits"
            ))
        })?;
        self.document(&document)
    }

    pub(super) fn document(mut self, document: &Value) -> Result<Credential, KubeconfigError> {
        let context = self.context(document)?;
        let name_of = |field: &str| context.text(field).unwrap_or_default();
        let namespace = context.text("namespace").unwrap_or("default");
        let cluster = self.named(document, "clusters", "cluster", name_of("cluster"))?;
        let user = self.named(document, "users", "user", name_of("user"))?;
        self.check_cluster(&cluster)?;
        self.check_user(&user)?;

        let server = self.server(&cluster)?;
        let ca = self.material(&cluster, "certificate-authority")?;
        let certificate = self.material(&user, "client-certificate")?;
        let key = self.material(&user, "client-key")?;
        let token = self.token(&user)?;
        let server_name = self.server_name(&cluster)?;
        let plain = is_plain(&server);
        if !plain && ca.is_none() {
            return Err(self.missing(
                &cluster,
                "certificate-authority-data",
                "give the CA of the server, base64 of its PEM text",
            ));
        }
        if !plain && certificate.is_none() && key.is_none() && token.is_none() {
            return Err(self.missing(
                &user,
                "token",
                "give a token or a client certificate with its key",
            ));
        }
        let material = [ca.as_deref(), certificate.as_deref(), key.as_deref()];
        let tls = if let Some(known) = TLS.known(&digest(&material)) {
            known
        } else {
            let new = self.tls(&cluster, &user, material)?;
            TLS.get(digest(&material), || Arc::new(new))
        };

        let name = format!("{server_name:?}");
        let server_text = server.to_string();
        // Planes may share an address and differ in their paths.
        let authority = server.authority().map(http::uri::Authority::as_str);
        let connection: [Option<&[u8]>; 6] = [
            server.scheme_str().map(str::as_bytes),
            authority.map(str::as_bytes),
            ca.as_deref(),
            certificate.as_deref(),
            key.as_deref(),
            Some(name.as_bytes()),
        ];
        let token_text = token.as_ref().map(http::HeaderValue::as_bytes);
        let bearer = token
            .as_ref()
            .and_then(|t| t.to_str().ok()?.strip_prefix("Bearer "));
        let expiry = expiry::earliest(bearer, certificate.as_deref(), ca.as_deref());
        Ok(Credential {
            connection_digest: digest(&connection),
            digest: digest(&[
                Some(&digest(&connection)),
                Some(server_text.as_bytes()),
                token_text,
                Some(namespace.as_bytes()),
            ]),
            server,
            tls,
            server_name,
            token,
            namespace: namespace.to_owned(),
            files: self.files,
            expiry,
        })
    }

    fn context<'d>(&self, document: &'d Value) -> Result<Section<'d>, KubeconfigError> {
        let name = match document["current-context"].as_str().filter(|n| !n.is_empty()) {
            Some(name) => name,
            None => {
                if let Some([only]) = document["contexts"].as_array().map(Vec::as_slice) {
                    only.get("name").and_then(Value::as_str).unwrap_or_default()
                } else {
                    let next = "name the context to use: kubectl config use-context";
                    return Err(self.error(&format!("field current-context is missing; {next}")));
                }
            }
        };
        self.named(document, "contexts", "context", name)
    }

    fn named<'d>(
        &self,
        document: &'d Value,
        list: &str,
        field: &str,
        name: &str,
    ) -> Result<Section<'d>, KubeconfigError> {
        let path = format!("{list}[{name}].{field}");
        match fedgate_kubeconfig::entry(document, list, field, name) {
            Some(fields) => Ok(Section { path, fields }),
            None => Err(self.error(&format!(
                "field {path} is missing; the current context, its cluster and its user must all be in the file"
            ))),
        }
    }

    fn check_cluster(&self, cluster: &Section<'_>) -> Result<(), KubeconfigError> {
        for (field, value) in cluster.fields.iter().filter(|(_, value)| !value.is_null()) {
            let (why, next) = match field.as_str() {
                "server"
                | "certificate-authority"
                | "certificate-authority-data"
                | "tls-server-name"
                | "disable-compression"
                | "extensions" => continue,
                "insecure-skip-tls-verify" if value == &Value::Bool(false) => continue,
                "insecure-skip-tls-verify" => {
                    let next = "remove it and give certificate-authority-data";
                    ("the server would not be verified", next)
                }
                "proxy-url" if value == "" => continue,
                "proxy-url" => {
                    let next = "remove it and give a server that is reachable from here";
                    ("planes are reached directly", next)
                }
                _ => ("it is not known here", "remove it"),
            };
            return Err(self.refused(cluster, field, why, next));
        }
        Ok(())
    }

    fn check_user(&self, user: &Section<'_>) -> Result<(), KubeconfigError> {
        const NEXT: &str = "give a token or a client certificate instead";
        for (field, _) in user.fields.iter().filter(|(_, value)| !value.is_null()) {
            let why = match field.as_str() {
                "token"
                | "tokenFile"
                | "client-certificate"
                | "client-certificate-data"
                | "client-key"
                | "client-key-data"
                | "extensions" => continue,
                "exec" | "auth-provider" => "it would run a program",
                "username" | "password" => "API servers no longer take passwords",
                "as" | "as-uid" | "as-groups" | "as-user-extra" => "fedgate impersonates nobody",
                _ => "it is not known here",
            };
            return Err(self.refused(user, field, why, NEXT));
        }
        Ok(())
    }

    fn server(&self, cluster: &Section<'_>) -> Result<http::Uri, KubeconfigError> {
        let Some(text) = cluster.text("server") else {
            return Err(self.missing(
                cluster,
                "server",
                "give the address of the API server, https://host:port",
            ));
        };
        let uri: http::Uri = text
            .parse()
            .map_err(|_| self.invalid(cluster, "server", "it is no URL"))?;
        let authority = uri.authority().map_or("", http::uri::Authority::as_str);
        if authority.is_empty() || authority.contains('@') || uri.query().is_some() {
            return Err(self.invalid(
                cluster,
                "server",
                "it must be https://host:port, with a path where the plane has one",
            ));
        }
        match uri.scheme_str() {
            Some("https") => Ok(uri),
            Some("http") if self.rules.plain_http => Ok(uri),
            Some("http") => Err(self.refused(
                cluster,
                "server",
                "plain http shows credentials and objects to everyone on the way",
                "use https; for development alone there is --development-allow-http",
            )),
            _ => Err(self.invalid(cluster, "server", "it must begin with https://")),
        }
    }

    /// The content of `<field>-data`, or of the file that `<field>` refers to.
    fn material(&mut self, section: &Section<'_>, field: &str) -> Result<Option<Vec<u8>>, KubeconfigError> {
        let data = format!("{field}-data");
        if let Some(value) = section.fields.get(&data).filter(|v| *v != "" && !v.is_null()) {
            let bytes = value.as_str().and_then(fedgate_kubeconfig::from_base64);
            return bytes
                .map(Some)
                .ok_or_else(|| self.invalid(section, &data, "it is not base64 text"));
        }
        self.file(section, field)
    }

    fn file(&mut self, section: &Section<'_>, field: &str) -> Result<Option<Vec<u8>>, KubeconfigError> {
        let Some(name) = section.text(field) else {
            return Ok(None);
        };
        let Some(folder) = self.folder else {
            return Err(self.refused(
                section,
                field,
                "a Secret may not name files of the gateway",
                "put the content inline: kubectl config view --raw --flatten",
            ));
        };
        let path = folder.join(name);
        let bytes = read(&self.origin, &section.path_of(field), &path)?;
        self.files.push(path);
        Ok(Some(bytes))
    }

    fn token(&mut self, user: &Section<'_>) -> Result<Option<http::HeaderValue>, KubeconfigError> {
        // kubectl prefers the file, too.
        let (field, text) = match (self.file(user, "tokenFile")?, user.text("token")) {
            (Some(bytes), _) => ("tokenFile", bytes),
            (None, Some(text)) => ("token", text.as_bytes().to_vec()),
            (None, None) => return Ok(None),
        };
        let bad = || {
            self.invalid(
                user,
                field,
                "it is no bearer token: one word of visible characters",
            )
        };
        let text = std::str::from_utf8(&text).map_err(|_| bad())?.trim();
        if text.is_empty() || text.contains(char::is_whitespace) {
            return Err(bad());
        }
        let mut header = http::HeaderValue::from_str(&format!("Bearer {text}")).map_err(|_| bad())?;
        header.set_sensitive(true);
        Ok(Some(header))
    }

    fn server_name(&self, cluster: &Section<'_>) -> Result<Option<ServerName<'static>>, KubeconfigError> {
        let name = cluster.text("tls-server-name");
        name.map(|n| {
            ServerName::try_from(n.to_owned())
                .map_err(|_| self.invalid(cluster, "tls-server-name", "it is no host name"))
        })
        .transpose()
    }

    fn tls(
        &self,
        cluster: &Section<'_>,
        user: &Section<'_>,
        [ca, certificate, key]: [Option<&[u8]>; 3],
    ) -> Result<ClientConfig, KubeconfigError> {
        let bad_ca = |why: &str| self.invalid(cluster, "certificate-authority-data", why);
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| bad_ca(&e.to_string()))?;
        let builder = match ca {
            // Plain http.
            None => builder.with_root_certificates(RootCertStore::empty()),
            Some(ca) => {
                let verifier = fedgate_kubeconfig::verifier(certificates(ca).map_err(bad_ca)?)
                    .map_err(|e| bad_ca(&format!("it is no usable CA certificate: {e}")))?;
                builder.dangerous().with_custom_certificate_verifier(verifier)
            }
        };
        let (certificate, key) = match (certificate, key) {
            (None, None) => return Ok(builder.with_no_client_auth()),
            (Some(_), None) => {
                return Err(self.missing(user, "client-key-data", "a client certificate needs its key"));
            }
            (None, Some(_)) => {
                return Err(self.missing(
                    user,
                    "client-certificate-data",
                    "a client key needs its certificate",
                ));
            }
            (Some(certificate), Some(key)) => (certificate, key),
        };
        let chain =
            certificates(certificate).map_err(|why| self.invalid(user, "client-certificate-data", why))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| self.invalid(user, "client-key-data", "it holds no PRIVATE KEY in PEM"))?;
        builder.with_client_auth_cert(chain, key).map_err(|e| {
            self.invalid(
                user,
                "client-key-data",
                &format!("it does not fit the certificate: {e}"),
            )
        })
    }

    fn error(&self, problem: &str) -> KubeconfigError {
        KubeconfigError::new(&self.origin, problem)
    }

    fn missing(&self, section: &Section<'_>, field: &str, next: &str) -> KubeconfigError {
        self.error(&format!("field {} is missing; {next}", section.path_of(field)))
    }

    fn refused(&self, at: &Section<'_>, field: &str, why: &str, next: &str) -> KubeconfigError {
        self.error(&format!("field {} is refused: {why}; {next}", at.path_of(field)))
    }

    fn invalid(&self, section: &Section<'_>, field: &str, why: &str) -> KubeconfigError {
        let field = section.path_of(field);
        self.error(&format!(
            "field {field}: {why}; correct it and save, it is read again at once"
        ))
    }
}

/// The certificates of a PEM text, at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err("it holds no CERTIFICATE"),
        found => found.map_err(|_| "it is no PEM text"),
    }
}

/// The digest of these parts in their order.
pub(super) fn digest(parts: &[Option<&[u8]>]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        // Lengths make ("ab", "c") and ("a", "bc") different.
        hash.update(part.map_or(u64::MAX, |p| p.len() as u64).to_le_bytes());
        hash.update(part.unwrap_or_default());
    }
    hash.finalize().into()
}
