//! The proxy for a server: that of the kubeconfig, else that of the environment, as kubectl chooses it.

use crate::LoadError;
use http::{Uri, uri::Scheme};
use ipnet::IpNet;
use std::net::IpAddr;

/// The proxy for `server`; `None` if it is reached directly. `given` is `proxy-url`, for which `NO_PROXY` does not count.
pub(crate) fn of(
    server: &Uri,
    given: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, LoadError> {
    if let Some(url) = given {
        return parse("proxy-url", url).map(Some);
    }
    let set = |names: [&'static str; 2]| {
        let mut values = names
            .into_iter()
            .map(|name| (name, variable(name).unwrap_or_default()));
        values.find(|(_, value)| !value.is_empty())
    };
    let names = match server.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => ["HTTP_PROXY", "http_proxy"],
        _ => ["HTTPS_PROXY", "https_proxy"],
    };
    let Some((name, url)) = set(names) else {
        return Ok(None);
    };
    let exceptions = set(["NO_PROXY", "no_proxy"]).map_or_else(String::new, |(_, names)| names);
    if is_direct(server, &exceptions) {
        return Ok(None);
    }
    let url = if url.contains("://") {
        url
    } else {
        format!("http://{url}")
    };
    parse(name, &url).map(Some)
}

/// The text is not told in errors, because it may have a password.
fn parse(origin: &'static str, url: &str) -> Result<Uri, LoadError> {
    let wrong = |why| LoadError::Proxy(origin, why);
    let uri: Uri = url.parse().map_err(|_| wrong("it is no URL"))?;
    let known = match (uri.scheme_str(), uri.port()) {
        (Some("http" | "https"), _) | (Some("socks5" | "socks5h"), Some(_)) => true,
        (Some("socks5" | "socks5h"), None) => return Err(wrong("it has no port")),
        _ => false,
    };
    // kubectl takes socks5h from the environment alone.
    if !known || (origin == "proxy-url" && uri.scheme_str() == Some("socks5h")) {
        return Err(wrong("it must begin with http://, https:// or socks5://"));
    }
    Ok(uri)
}

/// True if the server is this machine, or `NO_PROXY` names it: by name, domain, address or network, or all by `*`.
fn is_direct(server: &Uri, exceptions: &str) -> bool {
    let host = server
        .host()
        .unwrap_or_default()
        .trim_matches(['[', ']'])
        .to_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let is_http = server.scheme() == Some(&Scheme::HTTP);
    let port = server
        .port_u16()
        .unwrap_or(if is_http { 80 } else { 443 })
        .to_string();
    exceptions.split(',').any(|rule| {
        let rule = rule.trim().to_lowercase();
        if let Ok(network) = rule.parse::<IpNet>() {
            return address.is_some_and(|address| network.contains(&address));
        }
        let is_whole = rule.parse::<IpAddr>().is_ok();
        let (name, of_port) = rule.rsplit_once(':').filter(|_| !is_whole).unwrap_or((&rule, ""));
        let name = name.trim_matches(['[', ']']);
        let name = name
            .strip_prefix('*')
            .filter(|rest| rest.starts_with('.'))
            .unwrap_or(name);
        let is_named = match name.parse::<IpAddr>() {
            Ok(named) => address == Some(named),
            Err(_) if name.starts_with('.') => host.ends_with(name),
            Err(_) => !name.is_empty() && (host == name || host.ends_with(&format!(".{name}"))),
        };
        rule == "*" || is_named && (of_port.is_empty() || of_port == port)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// kubectl itself is asked the same by crates/cli/tests/kubeconfigs; here is what no test can connect to.
    #[test]
    fn no_proxy_has_names_domains_addresses_and_networks() {
        for (server, exceptions, direct) in [
            ("https://api.example.com", "example.com", true),
            ("https://api.example.com", "ample.com", false),
            ("https://example.com", ".example.com", false),
            ("https://api.example.com", "*.example.com", true),
            ("https://api.example.com", "api.example.com:443", true),
            ("http://api.example.com", "api.example.com:443", false),
            ("https://10.1.2.3:6443", "10.0.0.0/8", true),
            ("https://10.1.2.3:6443", "10.1.2.3:6443", true),
            ("https://10.1.2.3:6443", "11.0.0.0/8, 10.1.2.4", false),
            ("https://[fd00::1]:6443", "fd00::/8", true),
            ("https://[fd00::1]:6443", "fd00::1", true),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", true),
            ("https://[fd00::1]:6443", "[fd00::1]:1", false),
            ("https://[::1]:6443", "", true),
            ("https://LOCALHOST:6443", "", true),
            ("https://api.example.com", "x,*", true),
            ("https://api.example.com", ",:443,.", false),
        ] {
            assert_eq!(
                is_direct(&server.parse().unwrap(), exceptions),
                direct,
                "{server} {exceptions}"
            );
        }
    }

    #[test]
    fn no_error_has_the_text_of_a_proxy() {
        for url in [
            "ftp://me:hush@proxy:1",
            "socks5://me:hush@proxy",
            "http://me:hush@ ",
        ] {
            let server = "https://api.example.com".parse().unwrap();
            let error = of(&server, Some(url), |_| None).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
    }
}
