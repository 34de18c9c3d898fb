//! The cluster that runs the Pods: its API server, the replicas' Pods, and the token of their administrative address.

use super::{
    failure::{HostRequest, late_host, of_host},
    replicas::PodPort,
};
use crate::client::args::{AdminAuth, WayArgs};
use fedgate_kubeconfig::{LoadError, client_cause, load, root};
use fedgate_manifests::{ADMIN_PORT, ADMIN_SECRET, ADMIN_TOKEN, CELL, GATEWAY, PROVISIONER};
use fedgate_terminal::error::{Absence, Error};
use futures::FutureExt;
use http::{HeaderValue, header::AUTHORIZATION};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api, Client, Config,
    api::ListParams,
    client::{Body, ConfigExt},
};
use std::{error::Error as _, time::Duration};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

/// The cluster that runs the Pods.
pub(super) struct Host {
    client: Client,
    config: Config,
    /// The API server, for errors.
    server: String,
    namespace: String,
    /// The label `app.kubernetes.io/name` of the Pods.
    role: &'static str,
    timeout: Duration,
}

impl Host {
    /// Reads the kubeconfig as kubectl does. Sends no request.
    pub(super) async fn open(args: &WayArgs, cell: bool) -> Result<Self, Error> {
        let loaded = load(args.kubeconfig.as_deref(), args.context.as_deref(), true);
        let mut config = loaded.await.map_err(|error| unusable(&error))?.config;
        // A forward may be silent for long, and each request has one limit as a whole.
        config.connect_timeout = Some(args.timeout);
        let client = fedgate_kubeconfig::client(&config).map_err(|error| {
            no_host("the kubeconfig cannot be used").because(client_cause(&error, &config))
        })?;
        Ok(Self {
            client: client.build(),
            server: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            config,
            namespace: args.namespace.clone(),
            role: match (args.provisioner, cell) {
                (true, _) => PROVISIONER,
                (false, true) => CELL,
                (false, false) => GATEWAY,
            },
            timeout: args.timeout,
        })
    }

    /// The Pods, to forward to.
    pub(super) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A request to the API server, for errors.
    pub(super) fn request(&self, verb: &'static str, resource: &'static str) -> HostRequest<'_> {
        (&self.server, &self.namespace, verb, resource)
    }

    /// The addresses of the replicas that run, by name; at least one.
    pub(super) async fn replicas(&self) -> Result<Vec<PodPort>, Error> {
        let (addresses, found) = self.running().await?;
        if !addresses.is_empty() {
            return Ok(addresses);
        }
        let (selector, namespace, server) = (self.selector(), &self.namespace, &self.server);
        let pods = if found == 0 { "no Pod" } else { "no running Pod" };
        let what = format!("{pods} {selector} with a port {ADMIN_PORT} in namespace {namespace} of {server}");
        Err(Error::failed(what).next(format!(
            "kubectl -n {namespace} get pods -l {selector}, or --context and --namespace of the Pods"
        )))
    }

    fn selector(&self) -> String {
        format!("app.kubernetes.io/name={}", self.role)
    }

    /// All Pods of the role.
    async fn list(&self) -> Result<Vec<Pod>, Error> {
        let pods = self.pods();
        let params = ListParams::default().labels(&self.selector());
        let request = self.request("list", "pods");
        let listed = tokio::time::timeout(self.timeout, pods.list(&params)).await;
        let listed = listed.map_err(|_| late_host(request, self.timeout))?;
        Ok(listed.map_err(|error| of_host(request, &error))?.items)
    }

    /// Whether a Pod runs with `--admin-auth=hub`.
    pub(super) async fn reviews_tokens(&self) -> Result<bool, Error> {
        let specs = self.list().await?.into_iter().filter_map(|pod| pod.spec);
        let mut containers = specs.flat_map(|spec| spec.containers);
        Ok(containers.any(|container| {
            let args = container.args.unwrap_or_default();
            let env = container.env.unwrap_or_default();
            args.iter().any(|arg| arg == "--admin-auth=hub")
                || args.windows(2).any(|pair| pair == ["--admin-auth", "hub"])
                || env
                    .iter()
                    .any(|env| env.name == "FEDGATE_ADMIN_AUTH" && env.value.as_deref() == Some("hub"))
        }))
    }

    /// The addresses of the replicas that run, by name, and the number of all Pods.
    pub(super) async fn running(&self) -> Result<(Vec<PodPort>, usize), Error> {
        let listed = self.list().await?;
        let found = listed.len();
        let mut addresses: Vec<PodPort> = listed.into_iter().filter_map(|pod| self.address(pod)).collect();
        addresses.sort();
        Ok((addresses, found))
    }

    fn address(&self, pod: Pod) -> Option<PodPort> {
        let is_running = pod.status.and_then(|status| status.phase).as_deref() == Some("Running");
        let containers = pod.spec.into_iter().flat_map(|spec| spec.containers);
        let mut ports = containers.flat_map(|container| container.ports.unwrap_or_default());
        let port = ports.find(|port| port.name.as_deref() == Some(ADMIN_PORT))?;
        Some(PodPort {
            namespace: self.namespace.clone(),
            pod: pod.metadata.name.filter(|_| is_running)?,
            port: port.container_port.try_into().ok()?,
        })
    }

    /// The credential for the administrative address. The kubeconfig's own token goes to a Pod only if that is asked for.
    pub(super) async fn credential(&self, auth: AdminAuth) -> Result<HeaderValue, Error> {
        match auth {
            AdminAuth::Token => self.secret().await,
            AdminAuth::Hub => self.own_token().await,
        }
    }

    async fn secret(&self) -> Result<HeaderValue, Error> {
        let (namespace, server) = (&self.namespace, &self.server);
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let request = self.request("get", "secrets");
        let read = tokio::time::timeout(self.timeout, secrets.get_opt(ADMIN_SECRET)).await;
        let read = read.map_err(|_| late_host(request, self.timeout))?;
        let unusable = |what: String| Error::failed(what).next("--token-file PATH, or --admin-auth=hub");
        let secret = read.map_err(|error| of_host(request, &error))?;
        let secret = secret.ok_or_else(|| {
            unusable(format!(
                "namespace {namespace} of {server} has no Secret {ADMIN_SECRET}"
            ))
        })?;
        let token = secret.data.and_then(|mut data| data.remove(ADMIN_TOKEN));
        let token = token.and_then(|token| String::from_utf8(token.0).ok());
        token.as_deref().and_then(bearer).ok_or_else(|| {
            let secret = format!("Secret {namespace}/{ADMIN_SECRET}");
            unusable(format!("{secret} has no token under its key {ADMIN_TOKEN}"))
        })
    }

    async fn own_token(&self) -> Result<HeaderValue, Error> {
        let request = self.request("get", "pods");
        let layer = self.config.auth_layer();
        let layer = layer.map_err(|error| of_host(request, &error))?;
        let echo = service_fn(|request: http::Request<Body>| async move {
            Ok::<_, BoxError>(http::Response::new(request.headers().get(AUTHORIZATION).cloned()))
        });
        let service = ServiceBuilder::new().option_layer(layer).service(echo);
        let sent = service.oneshot(http::Request::new(Body::empty())).boxed().await;
        let header = sent.map_err(|error| {
            Error::failed(format!("no credentials for {}", self.server))
                .because(root(error.as_ref()))
                .next("kubectl auth whoami")
        })?;
        let header = header.into_body();
        let header = header.filter(|header| header.as_bytes().starts_with(b"Bearer "));
        header.ok_or_else(|| {
            Error::failed("the kubeconfig has no token, which --admin-auth=hub needs")
                .next("a context with a token of the hub's user, or --token-file PATH")
        })
    }
}

/// The header for a token; `None` if it is empty or cannot be sent.
pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .ok()
        .filter(|_| !token.is_empty())?;
    header.set_sensitive(true);
    Some(header)
}

fn no_host(cause: &str) -> Error {
    Error::failed(format!("no cluster to ask: {cause}"))
        .next("--kubeconfig and --context of the cluster that runs the Pods, or --server URL")
        .absent(Absence::Unusable)
}

fn unusable(error: &LoadError) -> Error {
    let unusable = no_host(&error.to_string());
    match error.source() {
        Some(cause) => unusable.because(root(cause)),
        None => unusable,
    }
}
