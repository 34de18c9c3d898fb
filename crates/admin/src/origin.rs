//! The names under which an address of this machine without a token may be reached (contract: operations.md §2.7 rule 1). A
//! browser sends a page's requests to any address; `Host` and `Origin` are what it says of the page.

use crate::api::Refusal;
use axum::http::{HeaderMap, header};
use fedgate_operations::ErrorCode;
use std::net::SocketAddr;

/// An error if the request was made for another host, or by a page of another origin.
pub(super) fn check(headers: &HeaderMap, address: SocketAddr) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    if hosts.next().is_some() || !host.is_some_and(|host| is_own(host, address)) {
        return Err(misdirected("Host", address));
    }
    let is_own_origin = |origin: &header::HeaderValue| {
        let origin = origin.to_str().unwrap_or_default();
        let host = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(|host| is_own(host, address))
    };
    if headers.get_all(header::ORIGIN).iter().all(is_own_origin) {
        Ok(())
    } else {
        Err(misdirected("Origin", address))
    }
}

fn is_own(host: &str, address: SocketAddr) -> bool {
    let own = [
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "[::1]".to_owned(),
        // Another address of the loopback interface, if it was chosen.
        match address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        },
    ];
    let port = address.port();
    own.iter().any(|name| {
        let Some(rest) = host
            .get(..name.len())
            .filter(|start| start.eq_ignore_ascii_case(name))
            .and(host.get(name.len()..))
        else {
            return false;
        };
        rest.strip_prefix(':') == Some(&port.to_string()) || rest.is_empty() && port == 80
    })
}

fn misdirected(header: &str, address: SocketAddr) -> Refusal {
    Refusal::new(
        ErrorCode::Misdirected,
        format!("{header} is not that of this address"),
        format!(
            "use localhost:{}, or give --admin-token-file to be reached under other names",
            address.port()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_the_addresss_own_names_and_port_are_served() {
        let address: SocketAddr = "127.0.0.1:8080".parse().unwrap();
        let check = |host: Option<&str>, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
                if let Some(value) = value {
                    headers.insert(name, HeaderValue::from_str(value).unwrap());
                }
            }
            super::check(&headers, address).map_err(|refusal| refusal.status().as_u16())
        };
        for host in ["localhost:8080", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080"] {
            assert_eq!(check(Some(host), None), Ok(()), "{host}");
            assert_eq!(check(Some(host), Some(&format!("http://{host}"))), Ok(()));
        }
        for host in [
            "evil",
            "evil:8080",
            "localhost",
            "localhost:80",
            "localhost:8081",
            "localhost.evil:8080",
            "127.0.0.1.evil:8080",
            "[::1]",
            "",
            ":8080",
            "ä:8080",
        ] {
            assert_eq!(check(Some(host), None), Err(421), "{host}");
        }
        assert_eq!(check(None, None), Err(421));
        for origin in [
            "null",
            "http://evil",
            "http://localhost:8081",
            "file://",
            "localhost:8080",
            "",
        ] {
            assert_eq!(check(Some("localhost:8080"), Some(origin)), Err(421), "{origin}");
        }
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, HeaderValue::from_static("localhost:8080"));
        twice.append(header::HOST, HeaderValue::from_static("evil"));
        assert!(super::check(&twice, address).is_err());
    }

    #[test]
    fn the_chosen_address_and_the_port_80_are_its_own_too() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("127.0.0.9"));
        assert!(super::check(&headers, "127.0.0.9:80".parse().unwrap()).is_ok());
        assert!(super::check(&headers, "127.0.0.8:80".parse().unwrap()).is_err());
    }
}
