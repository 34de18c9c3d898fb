//! The platform's API server as a cell sees it: the control plane of each project under a path of one address.

use fedgate_sandbox::{Sandbox, User};
use http::{HeaderMap, Request, Response, StatusCode, header, request::Parts};
use http_body_util::BodyExt;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use super::line::Line;

const ABOVE: &str = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/";
const BELOW: &str = "/control-plane";

/// Passes requests on to the projects, as a cell's user; whole or cut.
pub(crate) struct Platform {
    /// The way to it.
    pub(crate) line: Line,
    away: watch::Sender<BTreeSet<String>>,
    task: JoinHandle<()>,
}

impl Drop for Platform {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Projects = Arc<BTreeMap<String, Client>>;

impl Platform {
    /// One that serves these projects to the cell.
    pub(crate) async fn of(sandbox: &Sandbox, cell: &str, projects: &[&str]) -> anyhow::Result<Self> {
        let mut clients = BTreeMap::new();
        for project in projects {
            clients.insert((*project).to_owned(), sandbox.client(project, User::Quota(cell))?);
        }
        let clients = Arc::new(clients);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("it is bound");
        let (away, watched) = watch::channel(BTreeSet::new());
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let connection = Connection {
                    projects: Arc::clone(&clients),
                    asked: Arc::default(),
                    away: watched.clone(),
                };
                let mut changed = watched.clone();
                tokio::spawn(async move {
                    let cut = connection.clone();
                    let service = service_fn(move |request| connection.clone().answer(request));
                    // A connection that breaks off is the cell's affair.
                    tokio::select! {
                        _ = http1::Builder::new().serve_connection(TokioIo::new(near), service) => {}
                        _ = changed.wait_for(|away| cut.has_asked(away)) => {}
                    }
                });
            }
        });
        let line = Line::to(address.to_string()).await.expect("open a line");
        Ok(Self { line, away, task })
    }

    /// Writes a kubeconfig of it.
    pub(crate) fn kubeconfig(&self, path: &Path) {
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "platform",
            "clusters": [{"name": "platform", "cluster": {"server": format!("http://{}", self.line.address)}}],
            "users": [{"name": "cell", "user": {}}],
            "contexts": [{"name": "platform", "context": {"cluster": "platform", "user": "cell"}}]});
        std::fs::write(path, config.to_string()).expect("write a kubeconfig");
    }

    /// Breaks all connections on which a project is asked for, and every one that asks for it from now on.
    pub(crate) fn cut(&self, project: &str) {
        self.away.send_if_modified(|away| away.insert(project.to_owned()));
    }

    /// Lets a project be asked again.
    pub(crate) fn restore(&self, project: &str) {
        self.away.send_if_modified(|away| away.remove(project));
    }
}

#[derive(Clone)]
struct Connection {
    projects: Projects,
    /// Which projects it has been used for.
    asked: Arc<Mutex<BTreeSet<String>>>,
    away: watch::Receiver<BTreeSet<String>>,
}

impl Connection {
    fn has_asked(&self, away: &BTreeSet<String>) -> bool {
        !self.asked.lock().expect("nobody panics here").is_disjoint(away)
    }

    async fn answer(self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let (head, body) = request.into_parts();
        let Some((project, path)) = split(&head) else {
            let mut none = Response::new(Body::empty());
            *none.status_mut() = StatusCode::NOT_FOUND;
            return Ok(none);
        };
        self.asked
            .lock()
            .expect("nobody panics here")
            .insert(project.clone());
        let there = self
            .projects
            .get(&project)
            .filter(|_| !self.away.borrow().contains(&project))
            .ok_or_else(|| io::Error::other("away"))?;
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let mut passed = Request::new(Body::from(body));
        *passed.method_mut() = head.method;
        *passed.uri_mut() = path.parse().map_err(io::Error::other)?;
        *passed.headers_mut() = end_to_end(head.headers);
        let mut answer = there.send(passed).await.map_err(io::Error::other)?;
        *answer.headers_mut() = end_to_end(std::mem::take(answer.headers_mut()));
        *answer.version_mut() = http::Version::HTTP_11;
        Ok(answer)
    }
}

/// The project that is asked, and what.
fn split(head: &Parts) -> Option<(String, String)> {
    let asked = head.uri.path_and_query()?.as_str().strip_prefix(ABOVE)?;
    let (project, rest) = asked.split_once('/')?;
    let rest = rest.strip_prefix(BELOW.trim_start_matches('/'))?;
    rest.starts_with('/')
        .then(|| (project.to_owned(), rest.to_owned()))
}

/// Without those that are between two ends of one connection.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    for name in [
        header::HOST,
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::CONTENT_LENGTH,
    ] {
        headers.remove(name);
    }
    headers
}
