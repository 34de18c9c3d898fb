//! `fedgate status`, `stuck`, `trace`, `journal` and `console` as processes, beside replicas that serve canned answers, and an API
//! server that forwards to them.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod bare_hub;
mod console;
mod doctor;
#[path = "../../crates/operator/src/client/tests/documents.rs"]
mod documents;
mod forwarded;
mod host;
mod replica;
#[allow(clippy::expect_used, reason = "a failing test says where")]
#[path = "../e2e/support/tls.rs"]
mod tls;

use replica::{Replica, error};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    process::{Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// A file with this text.
fn file(text: &str) -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("fedgate-client-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(number.to_string());
    std::fs::write(&path, text).unwrap();
    path
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate"));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    command
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C.UTF-8");
    command
}

/// The output of a command, and its exit code.
struct Seen {
    exit: i32,
    stdout: String,
    stderr: String,
}

impl From<Output> for Seen {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            exit: output.status.code().unwrap(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

async fn run(arguments: &[&str]) -> Seen {
    within("the end of the command", command(arguments).output())
        .await
        .unwrap()
        .into()
}

/// A command that runs on; the lines of its stdout.
fn spawn(arguments: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
    started(&mut command(arguments))
}

fn started(command: &mut Command) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

/// The time after which a test fails instead of waiting for ever.
const LIMIT: Duration = Duration::from_secs(30);

async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(LIMIT, wait).await;
    ended.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Reads lines up to one that contains the text.
async fn line_with(lines: &mut Lines<BufReader<ChildStdout>>, text: &str) -> String {
    let found = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(text) {
                return line;
            }
        }
        panic!("no line has {text}");
    };
    within(text, found).await
}

/// Waits for the end of a command; its exit code.
async fn exit(child: &mut Child) -> Option<i32> {
    within("the end of the command", child.wait())
        .await
        .unwrap()
        .code()
}

/// The words of a command for a replica.
async fn ask(replica: &Replica, line: &str) -> Seen {
    let url = replica.url();
    let words: Vec<&str> = line.split(' ').chain(["--server", &url]).collect();
    run(&words).await
}

fn whole() -> Value {
    let mut trace = documents::trace();
    trace["verdict"] = json!("whole");
    trace
}

#[tokio::test(flavor = "multi_thread")]
async fn each_verdict_has_its_exit_code() {
    let replica = Replica::start().await;
    replica.serves("/overview", documents::overview());
    let seen = ask(&replica, "status").await;
    assert_eq!(seen.exit, 9, "{}", seen.stderr);
    assert!(seen.stdout.starts_with("SUBJECT     STATE "), "{}", seen.stdout);
    assert_eq!(seen.stderr, "");
    let mut well = documents::overview();
    well["health"] = json!({"state": "ok", "reasons": []});
    replica.serves("/overview", well);
    assert_eq!(ask(&replica, "status").await.exit, 0);

    replica.serves("/stuck", documents::stuck());
    let seen = ask(&replica, "stuck -o wide --no-headers").await;
    assert_eq!(seen.exit, 9);
    assert!(
        seen.stdout.contains("\\u{1b}[31metcdserver") && !seen.stdout.contains('\u{1b}'),
        "{}",
        seen.stdout
    );
    replica.serves("/stuck", documents::answer("Stuck", json!({"groups": []})));
    let seen = ask(
        &replica,
        "stuck --class unavailable --project p/q --cell dfw-1 --for 5m",
    )
    .await;
    assert_eq!(
        (seen.exit, seen.stdout.as_str(), seen.stderr.as_str()),
        (0, "", "Nothing is stuck.\n")
    );
    let last = replica.requests().pop().unwrap().0;
    assert_eq!(
        last,
        "/api/v1/stuck?class=unavailable&project=p%2Fq&cell=dfw-1&for=300s&limit=500"
    );

    let path = "/trace/shop-prod/default/workloads/web";
    for (verdict, exit) in [("whole", 0), ("moving", 7), ("broken", 9)] {
        let mut trace = documents::trace();
        trace["verdict"] = json!(verdict);
        replica.serves(path, trace);
        assert_eq!(
            ask(&replica, "trace shop-prod default/web").await.exit,
            exit,
            "{verdict}"
        );
    }

    replica.serves("/journal", documents::journal());
    let seen = ask(&replica, "journal --object default/web").await;
    assert_eq!(seen.exit, 0);
    assert_eq!(seen.stdout.lines().count(), 3);
    let last = replica.requests().pop().unwrap().0;
    assert_eq!(last, "/api/v1/journal?namespace=default&name=web&limit=500");
    replica.serves("/journal", documents::answer("Journal", json!({"items": []})));
    let seen = ask(&replica, "journal --object default/webb").await;
    assert_eq!((seen.exit, seen.stdout.as_str()), (0, ""));
    assert!(
        seen.stderr
            .contains("No write of default/webb is in the journal; fedgate trace PROJECT default/webb"),
        "{}",
        seen.stderr
    );
    assert_eq!(ask(&replica, "status --nonsense").await.exit, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_the_object_of_the_api() {
    let replica = Replica::start().await;
    let mut overview = documents::overview();
    overview["later"] = json!({"a field": "of a newer version, with \u{9b}31m"});
    replica.serves("/overview", overview.clone());
    let seen = ask(&replica, "status -o json").await;
    assert_eq!(serde_json::from_str::<Value>(&seen.stdout).unwrap(), overview);
    assert!(!seen.stdout.contains('\u{9b}'), "{:?}", seen.stdout);
    assert_eq!(seen.stdout.lines().count(), 1);
    let seen = ask(&replica, "journal -o json").await;
    let error: Value = serde_json::from_str(&seen.stderr).unwrap();
    assert_eq!(
        (seen.exit, &error["error"]["exit"]),
        (1, &json!(1)),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_looked_for_as_a_workload_a_deployment_and_an_instance() {
    let replica = Replica::start().await;
    let missing = |kind: &str| {
        error(
            "NotFound",
            &format!("project shop-prod has no {kind} default/web"),
            "fedgate status",
        )
    };
    let path = |kind: &str| format!("/trace/shop-prod/default/{kind}/web");
    for kind in ["workloads", "workloaddeployments", "instances"] {
        replica.refuses(&path(kind), 404, missing(kind));
    }
    let seen = ask(&replica, "trace shop-prod default/web").await;
    assert_eq!(seen.exit, 3);
    assert_eq!(
        seen.stderr,
        "error: project shop-prod has no workloads default/web\n  next: fedgate status\n"
    );
    let asked = |replica: &Replica| {
        replica
            .requests()
            .into_iter()
            .map(|request| request.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(asked(&replica).len(), 3);
    replica.serves(&path("workloaddeployments"), whole());
    assert_eq!(ask(&replica, "trace shop-prod default/web").await.exit, 0);
    let seen = ask(&replica, "trace shop-prod default/web --kind instances").await;
    assert_eq!(
        (seen.exit, seen.stderr.contains("no instances")),
        (3, true),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_names_the_address_and_the_next_step() {
    let replica = Replica::start().await;
    let url = replica.url();
    let token = file("a-token-of-sixteen-characters\n");
    let with_token = format!("status --token-file {}", token.display());
    let hostile = "busy\u{1b}[2J\n  next: rm -rf /";
    for (line, status, body, exit, lines) in [
        (
            "status",
            401,
            error("Unauthorized", "no token", "use a token"),
            6,
            vec![
                format!("error: {url} requires a token"),
                "  cause: no token".into(),
                "  next: --token-file PATH".into(),
            ],
        ),
        (
            &*with_token,
            401,
            error("Unauthorized", "wrong token", ""),
            6,
            vec![
                format!("error: {url} refuses the token"),
                "  cause: wrong token".into(),
                "  next: compare it with key token of Secret fedgate-admin, or use --admin-auth=hub".into(),
            ],
        ),
        (
            "status",
            403,
            error("Forbidden", "u may not get overview", "name --project"),
            6,
            vec![
                format!("error: {url} forbids the request"),
                "  cause: u may not get overview".into(),
                "  next: name --project".into(),
            ],
        ),
        (
            "status",
            404,
            Value::Null,
            1,
            vec![
                format!("error: {url} has no operations API"),
                "  next: upgrade the program that runs there, or correct --server".into(),
            ],
        ),
        (
            "status",
            429,
            error("Busy", hostile, ""),
            1,
            vec![
                format!("error: {url} is busy"),
                "  cause: busy\\u{1b}[2J".into(),
                "      next: rm -rf /".into(),
                "  next: try again in 7 s".into(),
            ],
        ),
        (
            "status",
            503,
            error("Unavailable", "not answered within 2 s", ""),
            1,
            vec![
                format!("error: {url} does not answer in time"),
                "  cause: not answered within 2 s".into(),
                "  next: try again in 7 s".into(),
            ],
        ),
        (
            "status",
            200,
            json!({"kind": "Other"}),
            1,
            vec!["error: the answer is no document of the operations API".into()],
        ),
    ] {
        replica.refuses("/overview", status, body);
        let seen = ask(&replica, line).await;
        let got: Vec<&str> = seen.stderr.lines().collect();
        assert_eq!(
            (seen.exit, &got[..lines.len()]),
            (exit, &lines.iter().map(String::as_str).collect::<Vec<_>>()[..]),
            "{status}"
        );
        assert_eq!(seen.stdout, "");
    }
    let sent = replica.requests();
    assert_eq!(sent[1].1, "Bearer a-token-of-sixteen-characters");
    assert_eq!(sent[0].1, "", "no token was named");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_or_does_not_answer_is_named() {
    let replica = Replica::start().await;
    let url = replica.url();
    replica.stop();
    let seen = ask(&replica, "status").await;
    assert_eq!(seen.exit, 1);
    assert!(
        seen.stderr
            .starts_with(&format!("error: cannot reach {url}\n  cause: ")),
        "{}",
        seen.stderr
    );

    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let seen = run(&["status", "--server", &url, "--timeout", "200ms"]).await;
    assert_eq!(seen.exit, 1);
    assert!(
        seen.stderr
            .starts_with(&format!("error: {url} did not answer within 0.2 s\n  next: ")),
        "{}",
        seen.stderr
    );

    for wrong in ["localhost:8080", "ftp://localhost", "/path"] {
        let seen = run(&["status", "--server", wrong]).await;
        assert_eq!(seen.exit, 2, "{wrong}: {}", seen.stderr);
    }
    let seen = run(&["status", "--server", &url, "--token-file", "/nonexistent/token"]).await;
    assert_eq!(seen.exit, 2);
    assert!(
        seen.stderr
            .contains("--token-file /nonexistent/token: No such file"),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_answer_is_printed_again_at_each_event_until_ctrl_c() {
    let replica = Replica::start().await;
    replica.serves("/overview", documents::overview());
    let url = replica.url();
    let (mut child, mut lines) = spawn(&["status", "-w", "--no-headers", "--server", &url]);
    line_with(&mut lines, "6m    1: unreachable").await;
    let mut later = documents::overview();
    later["asOf"] = json!("2026-12-01T10:10:00.000Z");
    for event in ["delta", "reset"] {
        replica.serves("/overview", later.clone());
        replica.event(event);
        line_with(&mut lines, "16m   1: unreachable").await;
    }
    let events: Vec<String> = replica
        .requests()
        .into_iter()
        .map(|request| request.0)
        .filter(|path| path.contains("events"))
        .collect();
    assert_eq!(
        events,
        ["/api/v1/events?topics=overview"],
        "one stream, and no question without an event"
    );
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(exit(&mut child).await, Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_trace_ends_when_it_is_whole() {
    let replica = Replica::start().await;
    let path = "/trace/shop-prod/default/workloads/web";
    replica.serves(path, documents::trace());
    let url = replica.url();
    let (mut child, mut lines) = spawn(&["trace", "-w", "shop-prod", "default/web", "--server", &url]);
    line_with(&mut lines, "next: check the cell").await;
    replica.streams(1).await;
    replica.serves(path, whole());
    replica.event("delta");
    line_with(&mut lines, "web                                            whole").await;
    assert_eq!(exit(&mut child).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn new_writes_follow_and_are_printed_once() {
    let replica = Replica::start().await;
    replica.serves("/journal", documents::journal());
    let url = replica.url();
    let (_child, mut lines) = spawn(&["journal", "-f", "-o", "json", "--server", &url]);
    for seq in [99_119, 99_120] {
        let row: Value = serde_json::from_str(&line_with(&mut lines, "seq").await).unwrap();
        assert_eq!(row["seq"], seq);
    }
    let next = documents::write(99_121, "2026-12-01T10:00:01.000Z");
    replica.serves("/journal", documents::answer("Journal", json!({"items": [next]})));
    replica.event("delta");
    let row: Value = serde_json::from_str(&line_with(&mut lines, "seq").await).unwrap();
    assert_eq!(row["seq"], 99_121);
    let last = replica.requests().pop().unwrap().0;
    assert_eq!(last, "/api/v1/journal?after=99120&limit=500");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_an_unknown_authority_is_named() {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            // The command ends the handshake.
            let _ = acceptor.accept(stream).await;
        }
    });
    let seen = run(&["status", "--server", &url]).await;
    assert_eq!(seen.exit, 1, "{}", seen.stderr);
    assert!(
        seen.stderr.starts_with(&format!(
            "error: cannot reach {url}\n  cause: invalid peer certificate"
        )),
        "{}",
        seen.stderr
    );
    assert!(
        seen.stderr.contains("next: SSL_CERT_FILE=PATH"),
        "{}",
        seen.stderr
    );
}
