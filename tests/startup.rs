//! `fedgate gateway` as a process that cannot start: it ends with code 1 and says which object, which field and what to do.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code, reason = "the suites have it, used here in part")]
#[path = "e2e/support/log_lines.rs"]
mod log_lines;

use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};
use tokio::process::Command;

const KIND: &str = "\
plural: gizmos
placement:
  path: $.spec.city
  label: topology.datum.net/city-code
  policyPrefix: gizmo-
carriedAnnotations: []
status:
  counters: []
  ownConditions: []
";

/// An empty folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("startup").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// A kubeconfig for `server`, whose user has these fields.
fn kubeconfig(dir: &Path, server: &str, user: &Value) -> PathBuf {
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "gateway"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "gateway", "user": user}],
    });
    write(dir, "hub.kubeconfig", &document.to_string())
}

/// Runs the gateway to its end; what it said last.
async fn refusal(hub: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate"));
    command
        .arg("gateway")
        .args(["--admin-address", "127.0.0.1:0", "--development-allow-http"])
        .arg("--hub-kubeconfig")
        .arg(hub)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(Duration::from_mins(1), command.output()).await;
    let output = ended
        .unwrap_or_else(|_| panic!("it went on, {arguments:?}"))
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let lines: Result<Vec<Value>, String> = said.lines().map(log_lines::parse).collect();
    let last = lines.unwrap().pop().unwrap();
    assert_eq!(
        (&last["level"], &last["message"]),
        (&json!("ERROR"), &json!("the gateway did not start"))
    );
    last["error"].as_str().unwrap().to_owned()
}

fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is missing in: {said}");
    }
}

#[tokio::test]
async fn a_kind_with_an_unknown_field() {
    let dir = folder("field");
    let hub = kubeconfig(&dir, "http://127.0.0.1:1", &json!({"token": "t"}));
    let file = write(
        &dir,
        "kinds/example.com/v1/Gizmo/kind.yaml",
        &format!("{KIND}policyPrefx: x-\n"),
    );
    let kinds = dir.join("kinds");
    let said = refusal(&hub, &["--interpreters", kinds.to_str().unwrap()]).await;
    let place = format!("{}:10: ", file.display());
    assert_says(
        &said,
        &[
            &place,
            r#"unknown field "policyPrefx""#,
            "allowed are scope, plural, placement",
        ],
    );
}

/// Fields that have no meaning together: neither the gateway nor doctor nor lint runs with them.
#[tokio::test]
async fn a_kind_with_fields_that_do_not_go_together() {
    let dir = folder("together");
    let hub = kubeconfig(&dir, "http://127.0.0.1:1", &json!({"token": "t"}));
    let file = write(
        &dir,
        "kinds/example.com/v1/Gizmo/kind.yaml",
        "plural: gizmos\nplacement: {path: $.spec.city, label: topology.datum.net/city-code, policyPrefix: \
         gizmo-}\nsuspension: dispatch\n",
    );
    let said = format!(
        "{}:3: suspension: dispatch needs cardinality: exactlyOne",
        file.display()
    );
    let kinds = dir.join("kinds");
    let arguments = ["--interpreters", kinds.to_str().unwrap()];
    assert_says(&refusal(&hub, &arguments).await, &[&said]);

    let hub = hub.display().to_string();
    let output = ended("doctor", &[&["--hub-kubeconfig", &hub], &arguments[..]].concat()).await;
    assert_eq!(output.status.code(), Some(2));
    assert_says(&String::from_utf8(output.stderr).unwrap(), &[&said]);
}

#[tokio::test]
async fn a_script_that_is_no_lua() {
    let dir = folder("script");
    let hub = kubeconfig(&dir, "http://127.0.0.1:1", &json!({"token": "t"}));
    write(&dir, "kinds/example.com/v1/Gizmo/kind.yaml", KIND);
    let script = write(
        &dir,
        "kinds/example.com/v1/Gizmo/status-reflection.lua",
        "function ReflectStatus(observed)\n  return = observed\nend\n",
    );
    let kinds = dir.join("kinds");
    let said = refusal(&hub, &["--interpreters", kinds.to_str().unwrap()]).await;
    let place = format!("{}:2: ", script.display());
    assert_says(
        &said,
        &[&place, "unexpected symbol near '='", "correct the script"],
    );
}

#[tokio::test]
async fn kinds_in_a_folder_that_is_not_there() {
    let dir = folder("nowhere");
    let hub = kubeconfig(&dir, "http://127.0.0.1:1", &json!({"token": "t"}));
    let said = refusal(&hub, &["--interpreters", "/nowhere/at/all"]).await;
    assert_says(
        &said,
        &[
            "cannot read /nowhere/at/all",
            "give a folder of the form <group>/<version>/<Kind>",
        ],
    );
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there() {
    let path = folder("missing").join("hub.kubeconfig");
    let said = refusal(&path, &[]).await;
    let file = format!("--hub-kubeconfig: kubeconfig file {}", path.display());
    assert_says(
        &said,
        &[
            &file,
            "cannot read",
            "make the file readable for this process or correct the path",
        ],
    );
}

#[tokio::test]
async fn a_kubeconfig_that_would_run_a_program() {
    let dir = folder("exec");
    let user = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/touch"}});
    let hub = kubeconfig(&dir, "http://127.0.0.1:1", &user);
    let said = refusal(&hub, &[]).await;
    let file = format!("--hub-kubeconfig: kubeconfig file {}", hub.display());
    let next = "give a token or a client certificate instead";
    assert_says(
        &said,
        &[
            &file,
            "field users[gateway].user.exec is refused",
            "run a program",
            next,
        ],
    );
}

/// A server that answers everything alike; its address.
async fn server(answer: axum::response::Response) -> String {
    let (parts, body) = answer.into_parts();
    let body = axum::body::to_bytes(body, 10_000).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new().fallback(move || {
        let answer = (parts.status, parts.headers.clone(), body.clone());
        async move { answer }
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

#[tokio::test]
async fn a_hub_without_karmadas_kinds() {
    use axum::response::IntoResponse;
    let dir = folder("karmada");
    // What an API server says of a group that it does not have.
    let plain = (axum::http::StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    let hub = kubeconfig(&dir, &server(plain).await, &json!({"token": "t"}));
    let said = refusal(&hub, &[]).await;
    assert_says(
        &said,
        &[
            "hub: clusterpropagationpolicies.policy.karmada.io/v1alpha1 is not served",
            "point --hub-kubeconfig at the Karmada API server, or install Karmada's CRDs (karmadactl init)",
        ],
    );
}

#[tokio::test]
async fn a_hub_that_refuses_the_credential() {
    use axum::response::IntoResponse;
    let dir = folder("credential");
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Unauthorized",
        "message": "Unauthorized", "code": 401});
    let refused = (axum::http::StatusCode::UNAUTHORIZED, axum::Json(status)).into_response();
    let hub = kubeconfig(&dir, &server(refused).await, &json!({"token": "t"}));
    let said = refusal(&hub, &[]).await;
    assert_says(
        &said,
        &[
            "hub: the credential is refused (Unauthorized)",
            "issue a new token or client certificate for the user in --hub-kubeconfig",
        ],
    );
}

#[tokio::test]
async fn version_and_revision() {
    let ended = Command::new(env!("CARGO_BIN_EXE_fedgate"))
        .arg("--version")
        .env_clear()
        .output()
        .await
        .unwrap();
    let (version, revision) = (env!("CARGO_PKG_VERSION"), env!("FEDGATE_BUILD_REVISION"));
    let wanted = format!("fedgate {version} ({revision})\n");
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), wanted);
}

#[tokio::test]
async fn an_open_address_without_a_token() {
    let ended = Command::new(env!("CARGO_BIN_EXE_fedgate"))
        .args([
            "gateway",
            "--hub-kubeconfig",
            "/nowhere",
            "--admin-address",
            "0.0.0.0:0",
        ])
        .env_clear()
        .output()
        .await
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert_says(
        &String::from_utf8(ended.stderr).unwrap(),
        &[
            "--admin-address 0.0.0.0:0 can be reached from elsewhere",
            "give --admin-token-file",
        ],
    );
}

#[tokio::test]
async fn a_token_that_is_not_there() {
    let dir = folder("token");
    let hub = kubeconfig(&dir, "http://127.0.0.1:1", &json!({"token": "t"}));
    let file = dir.join("token");
    let said = refusal(&hub, &["--admin-token-file", file.to_str().unwrap()]).await;
    assert_says(
        &said,
        &[
            &format!("--admin-token-file {}", file.display()),
            "put a token of at least 16 characters there",
        ],
    );
}

#[test]
fn a_log_line_with_a_key_twice_is_refused() {
    let twice = log_lines::parse(r#"{"level":"INFO","span":{"a":1,"b":[{"c":1,"c":2}]}}"#);
    assert!(twice.unwrap_err().starts_with("the key c is there twice"));
    let once = log_lines::parse(r#"{"a":[1.5,-1,2,true,null,"x"],"b":{"a":1}}"#);
    assert_eq!(
        once,
        Ok(json!({"a": [1.5, -1, 2, true, null, "x"], "b": {"a": 1}}))
    );
}

/// A command of the executable, run to its end.
async fn ended(command: &str, arguments: &[&str]) -> Output {
    let mut run = Command::new(env!("CARGO_BIN_EXE_fedgate"));
    run.arg(command).args(arguments).env_clear().kill_on_drop(true);
    let ended = tokio::time::timeout(Duration::from_mins(1), run.output()).await;
    ended.unwrap().unwrap()
}

/// Exit code and output of `fedgate doctor`.
async fn doctor(arguments: &[&str]) -> (i32, String) {
    let output = ended("doctor", arguments).await;
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[tokio::test]
async fn doctor_names_the_planes_that_it_cannot_reach() {
    let dir = folder("doctor");
    let key = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let ca = write(&dir, "ca.crt", &key.cert.pem());
    let file = |name: &str, user: &Value| {
        let document = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": ca}}],
            "users": [{"name": "u", "user": user}],
        });
        write(&dir, name, &document.to_string()).display().to_string()
    };
    let hub = file("hub.kubeconfig", &json!({"token": "t"}));
    let alpha = file("alpha.kubeconfig", &json!({"token": "t"}));
    let beta = file("beta.kubeconfig", &json!({"exec": {"command": "x"}}));
    let planes = [
        "--hub-kubeconfig",
        &hub,
        "--project-kubeconfig",
        &alpha,
        "--project-kubeconfig",
        &beta,
    ];
    let (code, text) = doctor(&planes).await;
    assert_eq!(code, 3, "{text}");
    assert_says(&text, &["FAIL hub reach: ", "FAIL project alpha reach: "]);
    let of_beta = text.lines().find(|line| line.contains("project beta")).unwrap();
    assert_says(
        of_beta,
        &["FAIL project beta credential: ", "users[u].user.exec", "; "],
    );
    let of_projects = text.lines().filter(|line| line.contains("project"));
    assert!(
        of_projects.clone().count() == 2 && of_projects.clone().all(|line| !line.contains("hub ")),
        "{text}"
    );

    let (code, text) = doctor(&[&planes[..], &["-o", "json", "--strict"]].concat()).await;
    assert_eq!(code, 3);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["apiVersion"], "doctor.fedgate.dev/v1");
    assert_eq!(report["counts"], json!({"ok": 0, "open": 0, "fail": 3}));

    for wrong in [&[][..], &["--hub-kubeconfig", &hub, "--cell-kubeconfig", "dfw-1"]] {
        assert_eq!(doctor(wrong).await.0, 2, "{wrong:?}");
    }
}
