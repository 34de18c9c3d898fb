//! API servers over TLS, and proxies before them, that record who has reached them.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
};

/// A name that no resolver knows: only a proxy reaches it.
pub(crate) const NAME: &str = "api.example.invalid";

/// An address to which every connection fails at once.
pub(crate) const ADDRESS: &str = "255.255.255.255";

/// The servers that were reached, with the credential of each request.
pub(crate) type Log = Arc<Mutex<BTreeSet<String>>>;

/// A certificate with its key, in PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

fn parameters(common_name: &str, is_ca: bool) -> CertificateParams {
    let names = [NAME, ADDRESS, "localhost", "127.0.0.1"].map(str::to_owned);
    let mut parameters = CertificateParams::new(names).unwrap();
    parameters
        .distinguished_name
        .push(DnType::CommonName, common_name);
    if is_ca {
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    } else {
        parameters.is_ca = IsCa::ExplicitNoCa;
    }
    parameters
}

/// A certificate that is its own issuer, as `openssl req -x509` makes it, or one that is no authority.
pub(crate) fn self_signed(common_name: &str, is_ca: bool, year: i32) -> Pair {
    let key = KeyPair::generate().unwrap();
    let mut parameters = parameters(common_name, is_ca);
    parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
    Pair {
        certificate: parameters.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

/// An authority, a server's certificate and a user's.
pub(crate) fn signed() -> (String, Pair, Pair) {
    let authority = KeyPair::generate().unwrap();
    let authority = CertifiedIssuer::self_signed(parameters("authority", true), authority).unwrap();
    let sign = |common_name: &str| {
        let key = KeyPair::generate().unwrap();
        Pair {
            certificate: parameters(common_name, false)
                .signed_by(&key, &authority)
                .unwrap()
                .pem(),
            key: key.serialize_pem(),
        }
    };
    let (server, user) = (sign("server"), sign("ann"));
    (authority.pem(), server, user)
}

/// Serves an API with this certificate; returns its port. A user's certificate of the authority is accepted.
pub(crate) async fn serve(name: &'static str, pair: &Pair, authority: &str, log: Log) -> u16 {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
        .unwrap();
    let users = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated();
    let config = ServerConfig::builder()
        .with_client_cert_verifier(users.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, log) = (acceptor.clone(), log.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let by_certificate = stream.get_ref().1.peer_certificates().is_some();
                    answer(stream, port, |head| {
                        let header = |name: &str| header(head, name).unwrap_or_default();
                        let certificate = if by_certificate { "certificate " } else { "" };
                        let as_user = match header("impersonate-user") {
                            user if user.is_empty() => user,
                            user => format!(" as {user}"),
                        };
                        let entry = format!("{name}: {certificate}{}{as_user}", header("authorization"));
                        log.lock().unwrap().insert(entry);
                    })
                    .await;
                }
            });
        }
    });
    port
}

/// The head of a request, up to its empty line; `None` at the end of the stream.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find_map(|(field, value)| field.eq_ignore_ascii_case(name).then(|| value.trim().to_owned()))
}

/// Answers each request with an empty list; below `/issuer` it is an issuer of tokens, whose requests do not count.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, port: u16, seen: impl Fn(&str)) {
    while let Some(head) = head(&mut stream).await {
        let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        stream.read_exact(&mut vec![0; length]).await.unwrap();
        let issuer = format!("https://127.0.0.1:{port}/issuer");
        let body = if head.contains("/issuer/.well-known") {
            json!({"issuer": issuer, "token_endpoint": format!("{issuer}/token")})
        } else if head.contains("/issuer/token") {
            json!({"access_token": "a", "token_type": "Bearer", "id_token": super::corpus::FRESH})
        } else {
            seen(&head);
            json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []})
        };
        let body = body.to_string();
        // No gate of an activation is served.
        let code = if head.contains("/serviceentitlements") {
            404
        } else {
            200
        };
        let answer = format!(
            "HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A proxy for CONNECT that reaches every name at 127.0.0.1; returns its port.
pub(crate) async fn http_proxy(log: Log) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let log = log.clone();
            tokio::spawn(async move {
                let head = head(&mut stream).await?;
                let credential = header(&head, "proxy-authorization").unwrap_or_default();
                log.lock().unwrap().insert(format!("http proxy {credential}"));
                let target = head.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned();
                let mut target = TcpStream::connect(("127.0.0.1", target.rsplit_once(':')?.1.parse().ok()?))
                    .await
                    .ok()?;
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
                copy_bidirectional(&mut stream, &mut target).await.ok()
            });
        }
    });
    port
}

/// A proxy of SOCKS 5 that reaches every name at 127.0.0.1; returns its port.
pub(crate) async fn socks_proxy(log: Log) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(socks(stream, log.clone()));
        }
    });
    port
}

async fn socks(mut stream: TcpStream, log: Log) -> Option<()> {
    let [_, methods] = bytes(&mut stream).await?;
    let mut offered = vec![0; methods.into()];
    stream.read_exact(&mut offered).await.ok()?;
    let mut user = String::new();
    if offered.contains(&2) {
        stream.write_all(&[5, 2]).await.ok()?;
        let [_, length] = bytes(&mut stream).await?;
        let mut name = vec![0; length.into()];
        stream.read_exact(&mut name).await.ok()?;
        let [length] = bytes(&mut stream).await?;
        stream.read_exact(&mut vec![0; length.into()]).await.ok()?;
        stream.write_all(&[1, 0]).await.ok()?;
        user = String::from_utf8(name).ok()?;
    } else {
        stream.write_all(&[5, 0]).await.ok()?;
    }
    let [_, _, _, kind] = bytes(&mut stream).await?;
    let length = match kind {
        1 => 4,
        3 => bytes::<1>(&mut stream).await?[0].into(),
        _ => 16,
    };
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    let port = u16::from_be_bytes(bytes(&mut stream).await?);
    log.lock().unwrap().insert(format!("socks proxy {user}"));
    let mut target = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    stream.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0]).await.ok()?;
    copy_bidirectional(&mut stream, &mut target).await.ok()?;
    Some(())
}

async fn bytes<const N: usize>(stream: &mut TcpStream) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}
