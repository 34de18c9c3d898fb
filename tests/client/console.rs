//! `fedgate console`, with a browser that the tests play.

use super::{Replica, command, documents, error, file, forwarded::overview, host::Host, started, within};
use axum::{
    body::Body,
    http::{HeaderMap, Method, Request},
};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tokio::process::{Child, Command};

const TOKEN: &str = "0123456789abcdef";

/// A running `fedgate console`, and the address that it printed.
struct Console {
    child: Child,
    /// `127.0.0.1:PORT`
    authority: String,
    /// The code behind `#`.
    code: String,
    client: Client<HttpConnector, Body>,
}

struct Got {
    status: u16,
    headers: HeaderMap,
    text: String,
}

type Headers<'a> = &'a [(&'a str, &'a str)];

impl Console {
    async fn start(way: &[&str]) -> Self {
        let arguments = [&["console", "--no-open"], way].concat();
        Self::of(&mut command(&arguments)).await
    }

    /// The console of one replica, with the token of a file.
    async fn with_token(replica: &Replica, token: &Path) -> Self {
        let token = token.to_str().unwrap();
        Self::start(&["--server", &replica.url(), "--token-file", token]).await
    }

    async fn of(command: &mut Command) -> Self {
        let (child, mut lines) = started(command);
        let url = within("the address", lines.next_line()).await.unwrap().unwrap();
        let (authority, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        assert!(authority.starts_with("127.0.0.1:"), "{url}");
        let code = path.strip_prefix("console#code=").unwrap();
        Self {
            child,
            authority: authority.to_owned(),
            code: code.to_owned(),
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
    ) -> axum::http::Response<hyper::body::Incoming> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.authority));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        within("an answer", self.client.request(request)).await.unwrap()
    }

    async fn ask(&self, method: Method, path: &str, headers: Headers<'_>) -> Got {
        let (parts, body) = self.send(method, path, headers).await.into_parts();
        let text = within("the body", body.collect()).await.unwrap().to_bytes();
        Got {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8(text.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str, headers: Headers<'_>) -> Got {
        self.ask(Method::GET, path, headers).await
    }

    /// Sends what Ctrl-C does.
    fn interrupt(&self) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
    }

    /// Shows a code, as the page does that the printed address opens.
    async fn show(&self, code: &str) -> Got {
        let bearer = format!("Bearer {code}");
        self.ask(Method::POST, "/console/session", &[("authorization", &bearer)])
            .await
    }

    /// Opens the printed address, and returns the header that shows the page's session.
    async fn open(&self) -> String {
        let got = self.show(&self.code).await;
        assert_eq!(got.status, 200, "{}", got.text);
        assert_eq!(got.headers["cache-control"], "no-store");
        assert!(
            !got.headers.contains_key("set-cookie"),
            "a cookie reaches every port"
        );
        format!("Session {}", error_of(&got)["session"].as_str().unwrap())
    }
}

fn error_of(got: &Got) -> serde_json::Value {
    serde_json::from_str(&got.text).unwrap()
}

/// A leader with a page and a token, and the console of it.
async fn of_leader() -> (Replica, Console) {
    let replica = Replica::start().await;
    replica.serves("/overview", documents::overview());
    let console = Console::with_token(&replica, &file(TOKEN)).await;
    (replica, console)
}

#[tokio::test]
async fn the_browser_sees_the_page_and_the_api_and_never_the_token() {
    let (replica, console) = of_leader().await;
    let session = console.open().await;
    let got = console.get("/console", &[]).await;
    assert_eq!(got.status, 200);
    assert!(got.text.starts_with("<!doctype html>"), "{}", got.text);
    let policy = got.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; "));
    assert_eq!(got.headers["referrer-policy"], "no-referrer");
    assert!(!got.text.contains(TOKEN));
    let script = got
        .text
        .split('"')
        .find(|text| text.ends_with("/main.js"))
        .unwrap();
    assert_eq!(console.get(script, &[]).await.status, 200);
    let got = console
        .get("/api/v1/overview?a=b%2Fc", &[("authorization", &session)])
        .await;
    assert_eq!(got.status, 200);
    assert_eq!(error_of(&got)["kind"], "Overview");
    let asked = replica.requests();
    let bearer = format!("Bearer {TOKEN}");
    assert!(
        asked.iter().all(|(_, authorization)| *authorization == bearer),
        "{asked:?}"
    );
    assert_eq!(asked.last().unwrap().0, "/api/v1/overview?a=b%2Fc");
}

#[tokio::test]
async fn the_code_works_once_and_without_it_nothing_is_shown() {
    let (replica, console) = of_leader().await;
    let before = replica.requests().len();
    for shown in ["Session 1.00", "Session 99999999999.00", "Bearer 0", "Session"] {
        let got = console.get("/api/v1/overview", &[("authorization", shown)]).await;
        assert_eq!(got.status, 401, "{shown}");
        assert!(got.text.contains("run fedgate console again"), "{}", got.text);
        assert!(
            !got.headers.contains_key("www-authenticate"),
            "there is no token to show"
        );
    }
    for wrong in ["", "0", &format!("{}0", console.code)] {
        assert_eq!(console.show(wrong).await.status, 401, "{wrong}");
    }
    assert_eq!(replica.requests().len(), before);
    let session = console.open().await;
    let second = console.show(&console.code).await;
    assert_eq!(second.status, 401);
    assert!(second.text.contains("was used"), "{}", second.text);
    let headers = [("authorization", session.as_str())];
    assert_eq!(console.get("/api/v1/overview", &headers).await.status, 200);
}

/// A browser sends cookies of `127.0.0.1` to every port of it, also to that of another user's program.
#[tokio::test]
async fn nothing_that_a_browser_sends_to_another_port_admits() {
    let (_replica, console) = of_leader().await;
    let session = console.open().await;
    let session = session.strip_prefix("Session ").unwrap();
    let port = console.authority.rsplit_once(':').unwrap().1;
    for name in [format!("fedgate-console-{port}"), "session".to_owned()] {
        let cookie = format!("{name}={session}");
        let headers = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
        assert_eq!(console.get("/api/v1/overview", &headers).await.status, 401);
    }
}

#[tokio::test]
async fn only_the_own_name_is_served_and_no_other_path() {
    let (replica, console) = of_leader().await;
    let session = console.open().await;
    let session = ("authorization", session.as_str());
    let before = replica.requests().len();
    let port = console.authority.rsplit_once(':').unwrap().1;
    for host in [
        "evil",
        "localhost",
        &format!("localhost:{port}"),
        &format!("evil:{port}"),
        "127.0.0.1",
    ] {
        let got = console.get("/console", &[("host", host), session]).await;
        assert_eq!(got.status, 421, "{host}");
        assert!(got.text.contains(&console.authority), "{}", got.text);
    }
    for origin in ["http://evil", "null", &format!("http://localhost:{port}")] {
        let headers = [("origin", origin), session];
        assert_eq!(
            console.get("/api/v1/overview", &headers).await.status,
            421,
            "{origin}"
        );
    }
    for path in ["/metrics", "/debug/planes", "/api/v2/overview", "/"] {
        assert_eq!(console.get(path, &[session]).await.status, 404, "{path}");
    }
    for method in [Method::POST, Method::DELETE, Method::PUT] {
        let got = console.ask(method, "/api/v1/overview", &[session]).await;
        assert_eq!(got.status, 405);
    }
    assert_eq!(console.get("/console/session", &[session]).await.status, 405);
    assert_eq!(replica.requests().len(), before);
}

#[tokio::test]
async fn refusals_reach_the_page_with_their_next_steps_and_no_challenge() {
    let (replica, console) = of_leader().await;
    let session = console.open().await;
    let headers = [("authorization", session.as_str())];
    replica.refuses("/stuck", 503, error("Unavailable", "it is busy", "ask again"));
    let got = console.get("/api/v1/stuck", &headers).await;
    assert_eq!(
        (got.status, error_of(&got)["message"].as_str().unwrap()),
        (503, "it is busy")
    );
    assert_eq!(got.headers["retry-after"], "7");
    replica.refuses("/stuck", 401, error("Unauthorized", "the token is wrong", "n"));
    let got = console.get("/api/v1/stuck", &headers).await;
    assert_eq!(got.status, 403);
    assert!(!got.headers.contains_key("www-authenticate"));
    assert!(
        error_of(&got)["next"]
            .as_str()
            .unwrap()
            .contains("Secret fedgate-admin"),
        "{}",
        got.text
    );
    replica.stop();
    let got = console.get("/api/v1/stuck", &headers).await;
    assert_eq!(got.status, 503);
    assert!(
        error_of(&got)["message"]
            .as_str()
            .unwrap()
            .contains("cannot reach http://127.0.0.1"),
        "{}",
        got.text
    );
    assert!(!got.text.contains(TOKEN));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_rotated_is_read_again() {
    let replica = Replica::start().await;
    replica.serves("/overview", documents::overview());
    replica.requires("token-of-the-first-day");
    let token = file("token-of-the-first-day");
    let console = Console::with_token(&replica, &token).await;
    let session = console.open().await;
    let headers = [("authorization", session.as_str())];
    let overview = async || console.get("/api/v1/overview", &headers).await.status;
    assert_eq!(overview().await, 200);
    replica.requires("token-of-the-second-day");
    assert_eq!(overview().await, 403, "the file has the old one");
    std::fs::write(&token, "").unwrap();
    assert_eq!(overview().await, 503, "the file has none");
    std::fs::write(&token, "token-of-the-second-day").unwrap();
    assert_eq!(overview().await, 200);
    let before = replica.requests().len();
    assert_eq!(overview().await, 200);
    let asked = replica.requests().split_off(before);
    let bearer = "Bearer token-of-the-second-day".to_owned();
    assert_eq!(asked, [("/api/v1/overview".to_owned(), bearer)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_the_secret_is_read_again_too() {
    let (host, replica) = (Host::start().await, Replica::start().await);
    host.pod("gateway-a", replica.port);
    replica.serves("/overview", documents::overview());
    let kubeconfig = file(&host.kubeconfig());
    let console = Console::start(&["--kubeconfig", kubeconfig.to_str().unwrap()]).await;
    let session = console.open().await;
    let headers = [("authorization", session.as_str())];
    host.rotates("bmV3LXRva2Vu");
    replica.requires("new-token");
    assert_eq!(console.get("/api/v1/overview", &headers).await.status, 200);
}

/// A folder with a program `xdg-open` that writes its arguments into the pipe `arguments`.
fn opener() -> PathBuf {
    let folder = file("").with_extension("opener");
    std::fs::create_dir_all(folder.join("pages")).unwrap();
    let program = folder.join("xdg-open");
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > '{}'\n",
        folder.join("arguments").display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join("arguments"))
        .status();
    assert!(made.unwrap().success());
    folder
}

/// The console with a browser, and the only argument of that.
async fn with_browser(replica: &Replica, folder: &Path) -> (Console, PathBuf) {
    let mut command = command(&["console", "--server", &replica.url()]);
    let path = format!("{}:/usr/bin:/bin", folder.display());
    command.env("PATH", path).env("TMPDIR", folder.join("pages"));
    let console = Console::of(&mut command).await;
    let arguments = within("the browser", tokio::fs::read_to_string(folder.join("arguments")))
        .await
        .unwrap();
    let [page] = arguments.lines().collect::<Vec<_>>()[..] else {
        panic!("{arguments}");
    };
    (console, PathBuf::from(page))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_processes_has_no_code() {
    let (replica, _console) = of_leader().await;
    let folder = opener();
    let (console, page) = with_browser(&replica, &folder).await;
    assert!(
        !page.display().to_string().contains(&console.code),
        "{}",
        page.display()
    );
    assert_eq!(page.parent().unwrap(), folder.join("pages"));
    assert_eq!(page.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&page).unwrap();
    let url = format!("http://{}/console#code={}", console.authority, console.code);
    assert!(text.contains(&format!("content=\"0; url={url}\"")), "{text}");
    console.open().await;
    assert!(!page.exists(), "the code was used");
    assert_eq!(console.show(&console.code).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_the_code_ends_with_the_command() {
    let (replica, _console) = of_leader().await;
    let (mut console, page) = with_browser(&replica, &opener()).await;
    assert!(page.exists());
    console.interrupt();
    let status = within("the end", console.child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(!page.exists());
}

#[tokio::test]
async fn it_ends_by_ctrl_c_with_130_and_without_a_way_in_at_once() {
    let (_replica, mut console) = of_leader().await;
    console.interrupt();
    let status = within("the end", console.child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(130));
    let gone = super::run(&["console", "--no-open", "--server", "http://127.0.0.1:1"]).await;
    assert_eq!(gone.exit, 1);
    assert_eq!(gone.stdout, "");
    assert!(
        gone.stderr.contains("cannot reach http://127.0.0.1:1"),
        "{}",
        gone.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_changes_streams_end_and_the_next_one_is_asked() {
    let (host, one, other) = (
        Host::start().await,
        Replica::start().await,
        Replica::start().await,
    );
    host.pod("gateway-a", one.port);
    host.pod("gateway-b", other.port);
    one.serves("/overview", overview("a", "leader"));
    other.serves("/overview", overview("b", "standby"));
    let kubeconfig = file(&host.kubeconfig());
    let console = Console::start(&["--kubeconfig", kubeconfig.to_str().unwrap()]).await;
    let session = console.open().await;
    let headers = [("authorization", session.as_str())];
    let leads =
        async || error_of(&console.get("/api/v1/overview", &headers).await)["replica"]["identity"].clone();
    assert_eq!(leads().await, "a");
    let stream = console
        .send(Method::GET, "/api/v1/events?topics=overview", &headers)
        .await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    one.streams(1).await;
    one.serves("/overview", overview("a", "standby"));
    other.serves("/overview", overview("b", "leader"));
    assert_eq!(leads().await, "b");
    let told = within("the end of the stream", stream.into_body().collect())
        .await
        .unwrap()
        .to_bytes();
    assert!(told.starts_with(b"id: a-1\nevent: hello\n"), "{told:?}");
    let stream = console
        .send(Method::GET, "/api/v1/events?topics=overview", &headers)
        .await;
    other.streams(1).await;
    other.stop();
    one.serves("/overview", overview("a", "leader"));
    within("the end of the stream", stream.into_body().collect())
        .await
        .ok();
    assert_eq!(leads().await, "a");
}
