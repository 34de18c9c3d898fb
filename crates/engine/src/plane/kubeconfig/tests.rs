use super::*;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::fmt::Write;

fn pem() -> (String, String) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    (certified.cert.pem(), certified.signing_key.serialize_pem())
}

fn base64(text: &str) -> Value {
    serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap()
}

fn document(cluster: &Value, user: &Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    })
    .to_string()
}

fn cluster() -> Value {
    json!({"server": "https://api.example:6443", "certificate-authority-data": base64(&pem().0)})
}

fn with(mut base: Value, field: &str, value: Value) -> Value {
    base[field] = value;
    base
}

fn secret(text: &str) -> Result<Credential, KubeconfigError> {
    Credential::from_secret("fedgate-system", "shop", text.as_bytes(), Rules::default())
}

#[test]
fn a_token_or_a_certificate_with_a_ca_is_enough() {
    let (certificate, key) = pem();
    assert!(secret(&document(&cluster(), &json!({"token": "t0k3n"}))).is_ok());
    let user = json!({"client-certificate-data": base64(&certificate), "client-key-data": base64(&key)});
    assert!(secret(&document(&cluster(), &user)).is_ok());
}

#[test]
fn what_would_run_programs_trust_all_or_go_elsewhere_is_refused_by_field() {
    let token = json!({"token": "t"});
    let cases = [
        (cluster(), json!({"exec": {"command": "x"}}), "users[u].user.exec"),
        (
            cluster(),
            json!({"auth-provider": {"name": "x"}}),
            "users[u].user.auth-provider",
        ),
        (
            cluster(),
            json!({"username": "a", "password": "b"}),
            "users[u].user.password",
        ),
        (
            cluster(),
            with(token.clone(), "as", json!("root")),
            "users[u].user.as",
        ),
        (
            cluster(),
            json!({"tokenFile": "/etc/token"}),
            "users[u].user.tokenFile",
        ),
        (
            cluster(),
            json!({"client-certificate": "/c", "client-key": "/k"}),
            "users[u].user.client-certificate",
        ),
        (
            with(cluster(), "proxy-url", json!("http://p")),
            token.clone(),
            "clusters[k].cluster.proxy-url",
        ),
        (
            with(cluster(), "insecure-skip-tls-verify", json!(true)),
            token.clone(),
            "clusters[k].cluster.insecure-skip-tls-verify",
        ),
        (
            with(cluster(), "server", json!("http://a:80")),
            token.clone(),
            "clusters[k].cluster.server",
        ),
        (
            json!({"server": "https://a", "certificate-authority": "/ca"}),
            token,
            "clusters[k].cluster.certificate-authority",
        ),
    ];
    for (cluster, user, field) in cases {
        let error = secret(&document(&cluster, &user)).unwrap_err();
        assert!(
            error.to_string().contains(&format!("field {field} is refused: ")),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("Secret fedgate-system/shop") && text.contains(field),
            "{text}"
        );
    }
}

#[test]
fn what_is_missing_or_unusable_is_named() {
    let (certificate, key) = pem();
    let token = json!({"token": "t"});
    let cases = [
        (
            json!({"server": "https://a"}),
            token.clone(),
            "clusters[k].cluster.certificate-authority-data",
        ),
        (
            with(cluster(), "server", json!("")),
            token.clone(),
            "clusters[k].cluster.server",
        ),
        (
            with(cluster(), "server", json!("https://u:p@a")),
            token.clone(),
            "clusters[k].cluster.server",
        ),
        (
            with(cluster(), "certificate-authority-data", json!("%%")),
            token.clone(),
            "authority-data",
        ),
        (
            with(cluster(), "certificate-authority-data", base64("no pem")),
            token.clone(),
            "authority-data",
        ),
        (
            with(cluster(), "tls-server-name", json!("a b")),
            token,
            "clusters[k].cluster.tls-server-name",
        ),
        (cluster(), json!({}), "users[u].user.token"),
        (cluster(), json!({"token": "two words"}), "users[u].user.token"),
        (
            cluster(),
            json!({"client-certificate-data": base64(&certificate)}),
            "client-key-data",
        ),
        (
            cluster(),
            json!({"client-key-data": base64(&key)}),
            "client-certificate-data",
        ),
        (
            cluster(),
            json!({"client-certificate-data": base64(&certificate), "client-key-data": base64(&pem().1)}),
            "client-key-data",
        ),
    ];
    for (cluster, user, field) in cases {
        let error = secret(&document(&cluster, &user)).unwrap_err().to_string();
        assert!(error.contains(field), "{field}: {error}");
    }
    let error = secret("current-context: other\ncontexts: []\n")
        .unwrap_err()
        .to_string();
    assert!(error.contains("contexts[other].context"), "{error}");
}

#[test]
fn no_error_and_no_debug_text_shows_a_credential() {
    let hidden = "hush-hush";
    let broken = format!("users:\n- name: u\n  user: {{token: \"{hidden}\n");
    let error = secret(&broken).unwrap_err();
    assert!(error.to_string().contains(": not a kubeconfig: "), "{error}");
    assert!(!format!("{error} {error:?}").contains(hidden), "{error:?}");
    let error = secret(&document(&cluster(), &json!({"token": format!("{hidden} x")}))).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(hidden));
    let good = secret(&document(&cluster(), &json!({"token": hidden}))).unwrap();
    assert!(!format!("{good:?}").contains(hidden));
}

#[test]
fn files_are_read_relative_to_the_kubeconfig_and_change_the_credential() {
    let folder = std::env::temp_dir().join(format!("fedgate-kubeconfig-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("shop.yaml");
    std::fs::write(folder.join("ca.crt"), pem().0).unwrap();
    std::fs::write(folder.join("token"), "one\n").unwrap();
    let cluster = json!({"server": "https://a", "certificate-authority": "ca.crt"});
    std::fs::write(&path, document(&cluster, &json!({"tokenFile": "token"}))).unwrap();
    let first = Credential::from_file(&path, Rules::default()).unwrap();
    assert_eq!(
        first.files(),
        [path.clone(), folder.join("ca.crt"), folder.join("token")]
    );
    assert_eq!(first, Credential::from_file(&path, Rules::default()).unwrap());
    std::fs::write(folder.join("token"), "two\n").unwrap();
    let second = Credential::from_file(&path, Rules::default()).unwrap();
    assert_ne!(first, second);
    assert_eq!(
        first.connection_digest, second.connection_digest,
        "a token is no part of a TLS connection"
    );
    let cluster = json!({"server": "https://a/planes/shop", "certificate-authority": "ca.crt"});
    std::fs::write(&path, document(&cluster, &json!({"tokenFile": "token"}))).unwrap();
    let elsewhere = Credential::from_file(&path, Rules::default()).unwrap();
    assert_ne!(elsewhere, second);
    assert_eq!(
        elsewhere.connection_digest, second.connection_digest,
        "nor is a path"
    );
    assert!(Arc::ptr_eq(&elsewhere.tls, &first.tls), "one cache of sessions");
    std::fs::remove_file(folder.join("token")).unwrap();
    let error = Credential::from_file(&path, Rules::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("users[u].user.tokenFile") && error.contains("shop.yaml"),
        "{error}"
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn texts_that_kubectl_reads_are_read() {
    let (certificate, key) = pem();
    let in_lines = |text: &str| {
        let text = base64(text).as_str().unwrap().to_owned();
        let lines = text
            .as_bytes()
            .chunks(64)
            .map(|line| String::from_utf8(line.to_vec()).unwrap() + "\n");
        json!(lines.collect::<String>())
    };
    let cluster = with(cluster(), "certificate-authority-data", in_lines(&certificate));
    let user = json!({"client-certificate-data": in_lines(&certificate), "client-key-data": in_lines(&key)});
    let text = document(&cluster, &user);
    let utf_16 = format!("\u{feff}{text}");
    let utf_16: Vec<u8> = utf_16.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let ended = format!("{text}\n---\n# no more\n");
    for bytes in [text.as_bytes(), ended.as_bytes(), utf_16.as_slice()] {
        let read = Credential::from_secret("n", "s", bytes, Rules::default());
        assert!(read.is_ok(), "{read:?}");
    }
    for wrong in [
        r#"{"kind": "Pod", "apiVersion": "v1"}"#,
        r#"{"users": [{"name": "u"}, {"name": "u"}]}"#,
    ] {
        let error = secret(wrong).unwrap_err();
        assert!(error.to_string().contains(": not a kubeconfig: "), "{error}");
    }
}

#[test]
fn plain_http_needs_the_development_flag() {
    let text = document(&json!({"server": "http://127.0.0.1:8001"}), &json!({}));
    assert!(Credential::from_secret("n", "s", text.as_bytes(), Rules { plain_http: true }).is_ok());
    assert!(secret(&text).is_err());
}

proptest::proptest! {
    #[test]
    fn a_kubeconfig_of_any_bytes_is_refused_or_taken(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
        drop(Credential::from_secret("fedgate-system", "shop", &text, Rules::default()));
    }

    #[test]
    fn a_kubeconfig_that_was_changed_anywhere_is_refused_or_taken(
        at in proptest::prelude::any::<proptest::sample::Index>(),
        with in ".{0,6}",
        cut in proptest::prelude::any::<bool>(),
    ) {
        let cluster = json!({"server": "https://api.example:6443", "certificate-authority-data": base64("no PEM")});
        let mut text: Vec<char> = document(&cluster, &json!({"token": "t0k3n"})).chars().collect();
        let at = at.index(text.len());
        if cut {
            text.truncate(at);
        }
        let end = text.len().min(at + 1);
        text.splice(at..end, with.chars());
        let text: String = text.into_iter().collect();
        let error = secret(&text).map(drop).err().map(|error| error.to_string());
        proptest::prop_assert!(error.is_none_or(|error| !error.contains("t0k3n")));
    }
}

/// Texts that have exhausted the stack or the memory of other YAML parsers.
#[test]
fn a_kubeconfig_that_is_deep_or_multiplies_itself_is_refused() {
    let deep = "[".repeat(10_000);
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let items = vec![format!("*a{}", n - 1); 10].join(", ");
        writeln!(bomb, "a{n}: &a{n} [{items}]").unwrap();
    }
    for text in [deep, bomb] {
        assert!(secret(&text).is_err());
    }
}
