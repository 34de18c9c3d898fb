//! A server that answers by script, for what the simulator does not do wrong.

use crate::project::{Project, Seen};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Code and body of an answer.
pub(crate) type Answer = (u16, String);

/// A server that answers by script.
pub(crate) struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers each request, of which the script gets method, path and query.
    pub(crate) async fn start(script: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, script) = (requests.clone(), Arc::new(script));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, script) = (seen.clone(), script.clone());
                tokio::spawn(answer_all(stream, move |line| {
                    seen.lock().unwrap().push(line.to_owned());
                    script(line)
                }));
            }
        });
        Self {
            address,
            requests,
            task,
        }
    }

    /// Runs a command at this server, whose URL has this path.
    pub(crate) async fn run(&self, shop: &Project, path: &str, words: &[&str]) -> Seen {
        let server = format!("http://{}{path}", self.address);
        let user = json!({"token": "ann"});
        let file = kubeconfig(shop, "scripted", &server, &user);
        shop.run(&[words, &["--kubeconfig", &file]].concat()).await
    }

    /// Method, path and query of each request since the last call.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

/// Answers the requests of a connection until the client closes it.
async fn answer_all(mut stream: TcpStream, script: impl Fn(&str) -> Answer) {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            match stream.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
        while buffer.len() < end + length {
            match stream.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1");
        let (code, body) = script(line);
        let answer = format!(
            "HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        buffer.drain(..end + length);
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A kubeconfig with one context of this name; returns its path.
pub(crate) fn kubeconfig(shop: &Project, name: &str, server: &str, user: &Value) -> String {
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": "ann"}}],
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": "ann", "user": user}],
    });
    shop.file(&format!("{name}.yaml"), &document.to_string())
}

/// No such path.
pub(crate) fn not_found() -> Answer {
    (404, "404 page not found\n".to_owned())
}

/// A `Status`.
pub(crate) fn status(code: u16, reason: &str, message: &str, details: &Value) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code, "details": details});
    (code, status.to_string())
}
