//! Clients: kube's, with proxies that take a user, and servers that are their own authority.

use crate::tls::verifier;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::{
        legacy::{
            Client,
            connect::{
                HttpConnector,
                proxy::{SocksV5, Tunnel},
            },
        },
        proxy::matcher::{Intercept, Matcher},
    },
    rt::{TokioExecutor, TokioIo},
};
use kube::{
    Config,
    client::{Body, ClientBuilder, ConfigExt},
};
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, ServerName},
};
use tokio::net::TcpStream;
use tower::{
    BoxError, Service, ServiceBuilder,
    timeout::TimeoutLayer,
    util::{BoxCloneSyncService, BoxService},
};

/// The service of a client: each request is sent with the credential.
pub type Requests = BoxService<Request<Body>, Response<Incoming>, BoxError>;
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
type Transport = BoxCloneSyncService<Uri, Stream, BoxError>;

/// A client of the API server that [`crate::load`] has chosen, to which layers may be added. A program that makes credentials
/// runs now.
pub fn client(config: &Config) -> Result<ClientBuilder<Requests>, kube::Error> {
    let tls = tls(config)?;
    let builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls.clone())
        .https_or_http();
    let builder = match &config.tls_server_name {
        Some(name) => {
            let name =
                ServerName::try_from(name.clone()).map_err(|error| kube::Error::Service(error.into()))?;
            builder.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
        None => builder,
    };
    let connector = ServiceBuilder::new()
        .option_layer(config.connect_timeout.map(TimeoutLayer::new))
        .service(builder.enable_http1().wrap_connector(transport(config, tls)?));
    let connector = BoxCloneSyncService::new(connector);
    let http: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(
        BoxService::new(service),
        config.default_namespace.clone(),
    ))
}

fn tls(config: &Config) -> Result<ClientConfig, kube::Error> {
    let mut tls = config.rustls_client_config()?;
    if let Some(roots) = config.root_cert.as_ref().filter(|_| !config.accept_invalid_certs) {
        let roots = roots
            .iter()
            .map(|der| CertificateDer::from(der.clone()))
            .collect();
        let verifier = verifier(roots).map_err(|error| kube::Error::Service(error.into()))?;
        tls.dangerous().set_certificate_verifier(verifier);
    }
    Ok(tls)
}

/// Connections to the server, or through the proxy to it.
fn transport(config: &Config, tls: ClientConfig) -> Result<Transport, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let Some(url) = &config.proxy_url else {
        return Ok(boxed(tcp));
    };
    // Takes the user out of the URL.
    let matcher = Matcher::builder().all(url.to_string()).build();
    let unusable = || kube::Error::Service("the proxy cannot be used".into());
    let proxy = matcher.intercept(&config.cluster_url).ok_or_else(unusable)?;
    Ok(match proxy.uri().scheme_str() {
        Some("socks5" | "socks5h") => {
            let socks = SocksV5::new(proxy.uri().clone(), tcp);
            boxed(match proxy.raw_auth() {
                Some((name, password)) => socks.with_auth(name.to_owned(), password.to_owned()),
                None => socks,
            })
        }
        Some("https") => {
            let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
            boxed(tunnel(&proxy, https.enable_http1().wrap_connector(tcp)))
        }
        _ => boxed(tunnel(&proxy, tcp)),
    })
}

fn boxed<C, T>(connector: C) -> Transport
where
    C: Service<Uri, Response = T> + Clone + Send + Sync + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
    T: Into<Stream> + 'static,
{
    let service = ServiceBuilder::new()
        .map_response(T::into)
        .map_err(C::Error::into);
    BoxCloneSyncService::new(service.service(connector))
}

fn tunnel<C>(proxy: &Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri().clone(), connector);
    match proxy.basic_auth() {
        Some(user) => tunnel.with_auth(user.clone()),
        None => tunnel,
    }
}
