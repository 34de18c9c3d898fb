//! The kubeconfigs, each with the variables and files that it needs.

#![allow(clippy::too_many_lines, reason = "tables")]

use crate::servers::{self, ADDRESS, Log, NAME, Pair};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// {"exp":4102444800}: the year 2100.
pub(crate) const FRESH: &str = "e30.eyJleHAiOjQxMDI0NDQ4MDB9.c2ln";
/// {"exp":1000000000}: the year 2001.
const EXPIRED: &str = "e30.eyJleHAiOjEwMDAwMDAwMDB9.c2ln";

/// Servers, proxies, certificates, and the folder of the files.
pub(crate) struct World {
    pub(crate) folder: PathBuf,
    pub(crate) log: Log,
    authority: String,
    server: Pair,
    user: Pair,
    self_signed: Pair,
    leaf: Pair,
    expired: Pair,
    /// Ports of the servers with `server`, `self_signed`, `leaf` and `expired`.
    ports: [u16; 4],
    http_proxy: u16,
    socks_proxy: u16,
}

impl World {
    pub(crate) async fn start(folder: PathBuf) -> Self {
        let log = Log::default();
        let (authority, server, user) = servers::signed();
        let self_signed = servers::self_signed("self-signed", true, 2100);
        let leaf = servers::self_signed("leaf", false, 2100);
        let expired = servers::self_signed("expired", true, 2001);
        let serve = |name, pair| servers::serve(name, pair, &authority, log.clone());
        let ports = [
            serve("server", &server).await,
            serve("self-signed", &self_signed).await,
            serve("leaf", &leaf).await,
            serve("expired", &expired).await,
        ];
        Self {
            http_proxy: servers::http_proxy(log.clone()).await,
            socks_proxy: servers::socks_proxy(log.clone()).await,
            folder,
            log,
            ports,
            authority,
            server,
            user,
            self_signed,
            leaf,
            expired,
        }
    }

    /// The cluster of the server, whose certificate the authority has signed.
    fn cluster(&self) -> Value {
        cluster(&format!("https://127.0.0.1:{}", self.ports[0]), &self.authority)
    }

    /// A server by a name that a proxy alone resolves.
    fn far(&self) -> Value {
        cluster(&format!("https://{NAME}:{}", self.ports[0]), &self.authority)
    }
}

/// One kubeconfig.
#[derive(Default)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Names and contents. `KUBECONFIG` is the first, unless it is among the variables.
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
    /// Variables; `{}` is the folder of the files.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Case {
    fn text(name: &'static str, text: impl Into<Vec<u8>>) -> Self {
        Self {
            name,
            files: vec![("config", text.into())],
            variables: Vec::new(),
        }
    }

    fn of(name: &'static str, cluster: &Value, user: &Value) -> Self {
        Self::text(name, document(cluster, user).to_string())
    }

    fn file(mut self, name: &'static str, text: impl Into<Vec<u8>>) -> Self {
        self.files.push((name, text.into()));
        self
    }

    fn set(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }
}

fn base64(text: &str) -> Value {
    fedgate_kubeconfig::to_base64(text.as_bytes())
}

fn in_lines(text: &str) -> String {
    let text = base64(text).as_str().unwrap().to_owned();
    let lines = text.as_bytes().chunks(64);
    lines
        .flat_map(|line| {
            [
                std::str::from_utf8(line).unwrap(),
                "
",
            ]
        })
        .collect()
}

fn cluster(server: &str, authority: &str) -> Value {
    json!({"server": server, "certificate-authority-data": base64(authority)})
}

fn document(cluster: &Value, user: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    })
}

fn with(value: &Value, fields: &Value) -> Value {
    let empty = Map::new();
    let mut merged = value.as_object().unwrap_or(&empty).clone();
    merged.extend(fields.as_object().unwrap().clone());
    Value::Object(merged)
}

fn exec(script: &str, fields: &Value) -> Value {
    let plugin = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
        "args": ["-c", script], "interactiveMode": "IfAvailable"});
    json!({"exec": with(&plugin, fields)})
}

fn oidc(fields: &Value) -> Value {
    json!({"auth-provider": {"name": "oidc", "config": with(&json!({"client-id": "c"}), fields)}})
}

fn utf_16(text: &str, unit: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
    let marked = format!("\u{feff}{text}");
    marked.encode_utf16().flat_map(unit).collect()
}

const PRINT: &str = r#"printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'"#;

/// All kubeconfigs.
pub(crate) fn cases(world: &World) -> Vec<Case> {
    let token = json!({"token": "t"});
    [
        texts(world, &token),
        lists(world, &token),
        authorities(world, &token),
        users(world),
        proxies(world, &token),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Encodings, documents and the forms of values.
fn texts(world: &World, token: &Value) -> Vec<Case> {
    let (cluster, plain) = (world.cluster(), document(&world.cluster(), token));
    let text = plain.to_string();
    let yaml = |cluster_fields: &str, rest: &str| {
        let port = world.ports[0];
        format!(
            "current-context: c\ncontexts:\n- name: c\n  context: {{cluster: k, user: u}}\nclusters:\n- name: k\n  cluster:\n    server: https://127.0.0.1:{port}\n{cluster_fields}{rest}"
        )
    };
    let user = "users:\n- name: u\n  user: {token: t}\n";
    let data = base64(&world.authority);
    let authority = format!("    certificate-authority-data: {}\n", data.as_str().unwrap());
    let literal = in_lines(&world.authority);
    let literal: String = literal
        .lines()
        .flat_map(|line| {
            [
                "      ", line, "
",
            ]
        })
        .collect();
    let other = document(&cluster, &json!({"token": "second"})).to_string();
    vec![
        Case::text("everything inline", text.clone()),
        Case::text("YAML without kind and apiVersion", yaml(&authority, user)),
        Case::text(
            "base64 in lines, as a literal block",
            yaml(&format!("    certificate-authority-data: |\n{literal}"), user),
        ),
        Case::text(
            "base64 in lines, folded",
            yaml(&format!("    certificate-authority-data: >\n{literal}"), user),
        ),
        Case::of(
            "base64 with spaces",
            &with(
                &cluster,
                &json!({"certificate-authority-data": format!(" {}", data.as_str().unwrap())}),
            ),
            token,
        ),
        Case::of(
            "base64 with carriage returns",
            &with(
                &cluster,
                &json!({"certificate-authority-data": in_lines(&world.authority).replace('\n', "\r\n")}),
            ),
            token,
        ),
        Case::text("a trailing ---", format!("{text}\n---\n")),
        Case::text(
            "a document that is a comment at the end",
            format!("{text}\n---\n# no more\n"),
        ),
        Case::text(
            "a document that is a comment at the beginning",
            format!("# mine\n---\n{text}\n"),
        ),
        Case::text(
            "an empty document at the beginning",
            format!("---\n# mine\n---\n{text}\n"),
        ),
        Case::text(
            "two documents, the first counts",
            format!("{text}\n---\n{other}\n"),
        ),
        Case::text(
            "two documents that complete each other",
            format!(
                "{}\n---\n{}\n",
                json!({"current-context": "c", "contexts": plain["contexts"]}),
                json!({"clusters": plain["clusters"], "users": plain["users"]})
            ),
        ),
        Case::text("UTF-8 with a byte order mark", format!("\u{feff}{text}")),
        Case::text("UTF-16 of PowerShell", utf_16(&text, u16::to_le_bytes)),
        Case::text("UTF-16, big end first", utf_16(&text, u16::to_be_bytes)),
        Case::text(
            "UTF-16, cut in a letter",
            utf_16(&text, u16::to_le_bytes)[..301].to_vec(),
        ),
        Case::text("Windows line ends", yaml(&authority, user).replace('\n', "\r\n")),
        Case::text(
            "fields of another program",
            with(&plain, &json!({"colour": "red", "preferences": {}})).to_string(),
        ),
        Case::text("empty lists", with(&plain, &json!({"users": null})).to_string()),
        Case::text(
            "another apiVersion",
            with(&plain, &json!({"apiVersion": "v2"})).to_string(),
        ),
        Case::text("another kind", with(&plain, &json!({"kind": "Pod"})).to_string()),
        Case::text("not YAML", "clusters: [\n"),
        Case::text("an empty file", ""),
        Case::text(
            "a token that is a number",
            yaml(&authority, "users:\n- name: u\n  user: {token: 12345}\n"),
        ),
        Case::text(
            "a boolean of YAML 1.1",
            yaml("    insecure-skip-tls-verify: yes\n", user),
        ),
        Case::text(
            "an anchor",
            yaml(
                &authority,
                "users:\n- name: v\n  user: &v {token: t}\n- name: u\n  user: *v\n",
            ),
        ),
        Case::text(
            "a key twice",
            yaml(&authority, "users:\n- name: u\n  user: {token: t, token: s}\n"),
        ),
        Case::of(
            "empty texts",
            &with(
                &cluster,
                &json!({"certificate-authority": "", "proxy-url": "", "tls-server-name": ""}),
            ),
            &json!({"token": "t", "tokenFile": "", "client-certificate": "", "client-certificate-data": "", "client-key-data": "", "username": "", "as": ""}),
        ),
        Case::of(
            "a server without https://",
            &with(
                &cluster,
                &json!({"server": format!("127.0.0.1:{}", world.ports[0])}),
            ),
            token,
        ),
        Case::of(
            "a server that ends with /",
            &with(
                &cluster,
                &json!({"server": format!("https://127.0.0.1:{}/", world.ports[0])}),
            ),
            token,
        ),
        Case::of(
            "a server in capitals",
            &with(
                &cluster,
                &json!({"server": format!("HTTPS://LOCALHOST:{}", world.ports[0])}),
            ),
            token,
        ),
        Case::of("no server", &with(&cluster, &json!({"server": ""})), token),
    ]
}

/// `KUBECONFIG` as a list, contexts, and names.
fn lists(world: &World, token: &Value) -> Vec<Case> {
    let (cluster, plain) = (world.cluster(), document(&world.cluster(), token));
    let good = plain.to_string();
    let of = |name, first: &Value, second: &Value| {
        Case::text(name, first.to_string())
            .file("second", second.to_string())
            .set("KUBECONFIG", "{}/config:{}/second")
    };
    let unset = with(&plain, &json!({"current-context": ""}));
    let other = with(
        &document(&cluster, &json!({"token": "second"})),
        &json!({"current-context": "d"}),
    );
    let twice = |list: &str| {
        let mut document = plain.clone();
        let item = document[list][0].clone();
        document[list].as_array_mut().unwrap().push(item);
        document.to_string()
    };
    let nowhere = "{}/absent:{}/empty";
    vec![
        Case::text("a file of the list is missing", good.clone()).set("KUBECONFIG", "{}/absent:{}/config"),
        Case::text("a list with empty names", good.clone()).set("KUBECONFIG", ":{}/config:"),
        Case::text("an empty file in the list", good.clone())
            .file("empty", "")
            .set("KUBECONFIG", "{}/empty:{}/config"),
        Case::text("all files are missing", good.clone()).set("KUBECONFIG", nowhere),
        Case::text("a folder in the list", good.clone()).set("KUBECONFIG", "{}:{}/config"),
        Case::text("a broken file in the list", good.clone())
            .file("broken", "a: [")
            .set("KUBECONFIG", "{}/config:{}/broken"),
        of("the first file sets no context", &unset, &plain),
        of("the first file of a user counts", &plain, &other),
        of(
            "a user in both files, the first without a token",
            &document(&cluster, &json!({})),
            &plain,
        ),
        of(
            "another kind in the list",
            &plain,
            &with(&plain, &json!({"kind": "Pod"})),
        ),
        Case::text("HOME alone", "")
            .file(".kube/config", good.clone())
            .set("KUBECONFIG", ""),
        Case::text("an empty current context", unset.to_string()),
        Case::text(
            "an unknown current context",
            with(&plain, &json!({"current-context": "other"})).to_string(),
        ),
        Case::text("an unknown user", with(&plain, &json!({"users": []})).to_string()),
        Case::text(
            "an unknown cluster",
            with(&plain, &json!({"clusters": []})).to_string(),
        ),
        Case::text(
            "a context without a user",
            with(
                &plain,
                &json!({"contexts": [{"name": "c", "context": {"cluster": "k"}}]}),
            )
            .to_string(),
        ),
        Case::text("a cluster twice", twice("clusters")),
        Case::text("a user twice", twice("users")),
        Case::text(
            "a user that is null",
            with(&plain, &json!({"users": [{"name": "u", "user": null}]})).to_string(),
        ),
    ]
}

/// Certificates of servers.
fn authorities(world: &World, token: &Value) -> Vec<Case> {
    let at = |index: usize, authority: &str| {
        cluster(&format!("https://127.0.0.1:{}", world.ports[index]), authority)
    };
    let plain = world.cluster();
    let without = |fields: &Value| with(&json!({"server": plain["server"]}), fields);
    let bundle = [&*world.leaf.certificate, "# a remark\n", &world.authority].concat();
    vec![
        Case::of(
            "a self-signed certificate of openssl req -x509",
            &at(1, &world.self_signed.certificate),
            token,
        ),
        Case::of(
            "a self-signed certificate that is no authority",
            &at(2, &world.leaf.certificate),
            token,
        ),
        Case::of(
            "the server's own certificate as its authority",
            &at(0, &world.server.certificate),
            token,
        ),
        Case::of(
            "a self-signed certificate that has expired",
            &at(3, &world.expired.certificate),
            token,
        ),
        Case::of(
            "a self-signed certificate for another name",
            &with(
                &at(1, &world.self_signed.certificate),
                &json!({"tls-server-name": "other"}),
            ),
            token,
        ),
        Case::of(
            "another self-signed certificate",
            &at(1, &world.leaf.certificate),
            token,
        ),
        Case::of("an unknown authority", &at(0, &world.leaf.certificate), token),
        Case::of("a bundle of authorities", &at(0, &bundle), token),
        Case::of("an authority that is no PEM", &at(0, "no PEM"), token),
        Case::of("no authority", &without(&json!({})), token),
        Case::of(
            "a server that is not verified",
            &without(&json!({"insecure-skip-tls-verify": true})),
            token,
        ),
        Case::of(
            "a server that is not verified, with an authority",
            &with(&plain, &json!({"insecure-skip-tls-verify": true})),
            token,
        ),
        Case::of(
            "the name of the server",
            &with(&plain, &json!({"tls-server-name": NAME})),
            token,
        ),
        Case::of(
            "another name of the server",
            &with(&plain, &json!({"tls-server-name": "other.invalid"})),
            token,
        ),
        Case::of(
            "an authority in a file",
            &without(&json!({"certificate-authority": "pki/ca.crt"})),
            token,
        )
        .file("pki/ca.crt", &*world.authority),
        Case::of(
            "an authority in a file of Windows",
            &without(&json!({"certificate-authority": "ca.crt"})),
            token,
        )
        .file("ca.crt", world.authority.replace('\n', "\r\n")),
        Case::of(
            "an authority in a file that is missing",
            &without(&json!({"certificate-authority": "absent"})),
            token,
        ),
        Case::of(
            "data and a file that is missing",
            &with(&plain, &json!({"certificate-authority": "absent"})),
            token,
        ),
    ]
}

/// Credentials.
fn users(world: &World) -> Vec<Case> {
    let of = |name, user: &Value| Case::of(name, &world.cluster(), user);
    let (certificate, key) = (base64(&world.user.certificate), base64(&world.user.key));
    let print = |token: &str| format!("{PRINT} {token}");
    let plugin =
        |version: &str, token: &str| print(token).replace("client.authentication.k8s.io/v1", version);
    let beta = "client.authentication.k8s.io/v1beta1";
    let issuer = json!({"idp-issuer-url": format!("https://127.0.0.1:{}/issuer", world.ports[0]),
        "idp-certificate-authority-data": base64(&world.authority), "refresh-token": "r"});
    let by_certificate = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"clientCertificateData": world.user.certificate, "clientKeyData": world.user.key}});
    vec![
        of("no credential", &json!({})),
        of("a token in a file", &json!({"tokenFile": "token"})).file("token", "f"),
        of("a token in a file with a newline", &json!({"tokenFile": "token"})).file("token", "f\n"),
        of(
            "a token in a file that is missing",
            &json!({"tokenFile": "absent"}),
        ),
        of(
            "a token beside a file with one",
            &json!({"token": "t", "tokenFile": "token"}),
        )
        .file("token", "f"),
        of("a token with a newline", &json!({"token": "t\n"})),
        of("name and password", &json!({"username": "a", "password": "b"})),
        of(
            "name and password beside a token",
            &json!({"username": "a", "password": "b", "token": "t"}),
        ),
        of(
            "a client certificate",
            &json!({"client-certificate-data": certificate, "client-key-data": key}),
        ),
        of(
            "a client certificate with lines",
            &json!({"client-certificate-data": in_lines(&world.user.certificate), "client-key-data": in_lines(&world.user.key)}),
        ),
        of(
            "a client certificate in files",
            &json!({"client-certificate": "user.crt", "client-key": "user.key"}),
        )
        .file("user.crt", &*world.user.certificate)
        .file("user.key", &*world.user.key),
        of(
            "a client certificate beside a token",
            &json!({"client-certificate-data": certificate, "client-key-data": key, "token": "t"}),
        ),
        of(
            "a client certificate without its key",
            &json!({"client-certificate-data": certificate}),
        ),
        of(
            "a client certificate with another key",
            &json!({"client-certificate-data": certificate, "client-key-data": base64(&world.leaf.key)}),
        ),
        of(
            "another user",
            &json!({"token": "t", "as": "bob", "as-groups": ["g"]}),
        ),
        of("exec", &exec(&print("e"), &json!({}))),
        of(
            "exec that prints a certificate",
            &exec("cat \"$(dirname \"$KUBECONFIG\")/printed\"", &json!({})),
        )
        .file("printed", by_certificate.to_string()),
        of(
            "exec that reads standard input",
            &exec(
                &format!("read -r word || word=nothing; {}", print("$word")),
                &json!({}),
            ),
        ),
        of(
            "exec that reads standard input, without interactiveMode",
            &exec(
                &plugin(beta, "$(cat | wc -c)"),
                &json!({"apiVersion": beta, "interactiveMode": null}),
            ),
        ),
        of(
            "exec that never asks",
            &exec(&print("$(cat | wc -c)"), &json!({"interactiveMode": "Never"})),
        ),
        of(
            "exec that has to ask",
            &exec(&print("e"), &json!({"interactiveMode": "Always"})),
        ),
        of(
            "exec of v1 without interactiveMode",
            &exec(&print("e"), &json!({"interactiveMode": null})),
        ),
        of(
            "exec of v1alpha1",
            &exec(
                &plugin("client.authentication.k8s.io/v1alpha1", "e"),
                &json!({"apiVersion": "client.authentication.k8s.io/v1alpha1"}),
            ),
        ),
        of(
            "exec without apiVersion",
            &exec(&print("e"), &json!({"apiVersion": null})),
        ),
        of(
            "exec that answers in another version",
            &exec(&plugin(beta, "e"), &json!({})),
        ),
        of(
            "exec that answers nothing",
            &exec(
                "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{}}'",
                &json!({}),
            ),
        ),
        of(
            "exec that is missing",
            &exec(
                "",
                &json!({"command": "no-such-plugin", "installHint": "install it"}),
            ),
        ),
        of("exec that fails", &exec("exit 3", &json!({}))),
        of(
            "exec in a folder beside",
            &exec("", &json!({"command": "bin/plugin", "args": null})),
        )
        .file("bin/plugin", format!("#!/bin/sh\n{}", print("beside"))),
        of(
            "exec with variables and the cluster",
            &exec(
                &print("$WORD-$(echo \"$KUBERNETES_EXEC_INFO\" | grep -c certificate-authority-data)"),
                &json!({"env": [{"name": "WORD", "value": "w"}], "provideClusterInfo": true}),
            ),
        ),
        of(
            "exec beside a token",
            &with(&exec(&print("e"), &json!({})), &json!({"token": "t"})),
        ),
        of(
            "exec beside auth-provider",
            &with(&exec(&print("e"), &json!({})), &oidc(&json!({"id-token": FRESH}))),
        ),
        of("oidc", &oidc(&with(&issuer, &json!({"id-token": FRESH})))),
        of("oidc without an issuer", &oidc(&json!({"id-token": FRESH}))),
        of(
            "oidc that has expired, without a refresh token",
            &oidc(&with(&issuer, &json!({"id-token": EXPIRED, "refresh-token": ""}))),
        ),
        of(
            "oidc that has expired, with a refresh token",
            &oidc(&with(&issuer, &json!({"id-token": EXPIRED}))),
        ),
        of("oidc with a refresh token alone", &oidc(&issuer)),
        of(
            "another auth-provider",
            &json!({"auth-provider": {"name": "gcp", "config": {"cmd-path": "echo", "cmd-args": "t"}}}),
        ),
    ]
}

/// Proxies of the kubeconfig and of the environment.
fn proxies(world: &World, token: &Value) -> Vec<Case> {
    let (near, far) = (world.cluster(), world.far());
    let http = format!("127.0.0.1:{}", world.http_proxy);
    let socks = format!("127.0.0.1:{}", world.socks_proxy);
    let by = |name, url: String| Case::of(name, &with(&far, &json!({"proxy-url": url})), token);
    let env = |name, variable, value: String| Case::of(name, &far, token).set(variable, value);
    let except =
        |name, names: &str| env(name, "HTTPS_PROXY", format!("http://{http}")).set("NO_PROXY", names);
    let port = world.ports[0];
    let by_address = cluster(&format!("https://{ADDRESS}:{port}"), &world.authority);
    let address = |name, names: &str| {
        Case::of(name, &by_address, token)
            .set("HTTPS_PROXY", format!("http://{http}"))
            .set("NO_PROXY", names)
    };
    vec![
        by("proxy-url", format!("http://{http}")),
        by("proxy-url with a user", format!("http://me:p%40ss@{http}")),
        by("proxy-url of socks5", format!("socks5://{socks}")),
        by(
            "proxy-url of socks5 with a user",
            format!("socks5://me:pass@{socks}"),
        ),
        by("proxy-url of socks5h", format!("socks5h://{socks}")),
        by("proxy-url of an unknown kind", format!("gopher://{http}")),
        by("proxy-url without http://", http.clone()),
        by("proxy-url, excepted by NO_PROXY", format!("http://{http}")).set("NO_PROXY", "*"),
        Case::of(
            "proxy-url for this machine",
            &with(&near, &json!({"proxy-url": format!("http://{http}")})),
            token,
        ),
        Case::of(
            "proxy-url before HTTPS_PROXY",
            &with(&far, &json!({"proxy-url": format!("http://{http}")})),
            token,
        )
        .set("HTTPS_PROXY", format!("socks5://{socks}")),
        env("HTTPS_PROXY", "HTTPS_PROXY", format!("http://{http}")),
        env("https_proxy", "https_proxy", format!("http://{http}")),
        env("HTTPS_PROXY without http://", "HTTPS_PROXY", http.clone()),
        env(
            "HTTPS_PROXY of socks5",
            "HTTPS_PROXY",
            format!("socks5://{socks}"),
        ),
        env(
            "HTTPS_PROXY before https_proxy",
            "HTTPS_PROXY",
            format!("http://{http}"),
        )
        .set("https_proxy", format!("socks5://{socks}")),
        env("HTTP_PROXY is for http", "HTTP_PROXY", format!("http://{http}")),
        env("ALL_PROXY", "ALL_PROXY", format!("http://{http}")),
        Case::of("HTTPS_PROXY for this machine", &near, token).set("HTTPS_PROXY", format!("http://{http}")),
        Case::of(
            "HTTPS_PROXY for localhost",
            &with(&near, &json!({"server": format!("https://localhost:{port}")})),
            token,
        )
        .set("HTTPS_PROXY", format!("http://{http}")),
        except("NO_PROXY with the name", NAME),
        except("NO_PROXY with a domain", ".example.invalid"),
        except("NO_PROXY with a domain and a star", "*.example.invalid"),
        except("NO_PROXY with the end of a domain", "invalid"),
        except("NO_PROXY with the end of a name", "ample.invalid"),
        except("NO_PROXY with the name as a domain", ".api.example.invalid"),
        except("NO_PROXY with the port", &format!("{NAME}:{port}")),
        except("NO_PROXY with another port", &format!("{NAME}:1")),
        except("NO_PROXY for everything", "*"),
        except(
            "NO_PROXY with capitals and spaces",
            "other.invalid, API.example.invalid ,,",
        ),
        except("NO_PROXY with the address of the proxy", "127.0.0.0/8,127.0.0.1"),
        except("NO_PROXY that says nothing", "http://[,%%,:1"),
        Case::of("HTTPS_PROXY for an address", &by_address, token)
            .set("HTTPS_PROXY", format!("http://{http}")),
        address("NO_PROXY with the address", ADDRESS),
        address(
            "NO_PROXY with the address and its port",
            &format!("{ADDRESS}:{port}"),
        ),
        address("NO_PROXY with the network", "10.0.0.0/8,255.255.0.0/16"),
        address("NO_PROXY with other networks", "10.0.0.0/8,::/0,255.255.0.0/99"),
        env("no_proxy", "HTTPS_PROXY", format!("http://{http}")).set("no_proxy", NAME),
        env(
            "NO_PROXY before no_proxy",
            "HTTPS_PROXY",
            format!("http://{http}"),
        )
        .set("NO_PROXY", "x")
        .set("no_proxy", NAME),
    ]
}
