//! Projects from labelled Secrets.

use super::{DiscoveryError, ProjectEvent, Projects};
use crate::{
    plane::{
        client::Connection,
        kubeconfig::{Credential, Rules},
    },
    watch_channel::Receiver,
};
use fedgate_api::keys::PROJECT_SECRET;
use futures::{Stream, StreamExt, stream, stream::BoxStream};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use kube_runtime::watcher::{self, Event};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::Instant;

/// Pause after an error before the next request.
const PAUSE: Duration = Duration::from_secs(5);
/// Secrets per page of a list.
const PAGE: u32 = 50;

struct State {
    connection: Connection,
    generation: Receiver<u64>,
    namespace: String,
    projects: Projects,
    rules: Rules,
    changes: BoxStream<'static, Result<Event<Secret>, watcher::Error>>,
    /// Names in a list that is not complete yet.
    listed: BTreeSet<String>,
    last_error: Option<String>,
    /// End of the pause after an error.
    paused: Option<Instant>,
}

pub(super) fn stream(
    connection: Connection,
    namespace: String,
    projects: Projects,
    rules: Rules,
) -> impl Stream<Item = ProjectEvent> + Send {
    let state = State {
        generation: connection.generation(),
        changes: changes(&connection, &namespace),
        connection,
        namespace,
        projects,
        rules,
        listed: BTreeSet::new(),
        last_error: None,
        paused: None,
    };
    stream::unfold(state, |mut state| async move {
        loop {
            if let Some(event) = state.projects.events.pop_front() {
                return Some((event, state));
            }
            tokio::select! {
                biased;
                change = next(&mut state.changes, state.paused) => state.take(change),
                _ = state.generation.changed() => state.relist(),
            }
        }
    })
}

fn changes(
    connection: &Connection,
    namespace: &str,
) -> BoxStream<'static, Result<Event<Secret>, watcher::Error>> {
    let api: Api<Secret> = Api::namespaced(connection.current().client(), namespace);
    let config = watcher::Config::default()
        .labels(&format!("{PROJECT_SECRET}=true"))
        .page_size(PAGE);
    watcher::watcher(api, config).boxed()
}

async fn next<S: Stream + Unpin>(changes: &mut S, paused: Option<Instant>) -> Option<S::Item> {
    if let Some(until) = paused {
        tokio::time::sleep_until(until).await;
    }
    changes.next().await
}

/// The keys that a Secret has instead: Cluster API's and Flux's key is `value`, Argo CD has `config` and `server`.
fn keys(secret: &Secret) -> String {
    let keys: Vec<&str> = secret
        .data
        .iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect();
    if keys.is_empty() {
        "none".to_owned()
    } else {
        keys.join(", ")
    }
}

impl State {
    fn relist(&mut self) {
        self.changes = changes(&self.connection, &self.namespace);
        self.paused = None;
    }

    fn take(&mut self, change: Option<Result<Event<Secret>, watcher::Error>>) {
        self.paused = None;
        match change {
            Some(Ok(Event::Init)) => self.listed.clear(),
            Some(Ok(Event::InitApply(secret))) => {
                self.listed.insert(secret.name_any());
                self.put(&secret);
            }
            Some(Ok(Event::InitDone)) => {
                self.last_error = None;
                self.projects.retain(&std::mem::take(&mut self.listed));
            }
            Some(Ok(Event::Apply(secret))) => self.put(&secret),
            Some(Ok(Event::Delete(secret))) => self.projects.remove(&secret.name_any()),
            Some(Err(error)) => {
                self.complain(&error);
                self.paused = Some(Instant::now() + PAUSE);
            }
            // A watcher does not end; if it ever does, list again.
            None => self.relist(),
        }
    }

    fn put(&mut self, secret: &Secret) {
        let name = secret.name_any();
        let found = match secret.data.as_ref().and_then(|d| d.get("kubeconfig")) {
            Some(text) => Credential::from_secret(&self.namespace, &name, &text.0, self.rules)
                .map_err(DiscoveryError::from),
            None => Err(DiscoveryError::NoKubeconfig {
                namespace: self.namespace.clone(),
                name: name.clone(),
                keys: keys(secret),
            }),
        };
        self.projects
            .put(&name, || format!("Secret {}/{name}", self.namespace), found);
    }

    /// Logs one line per new cause.
    fn complain(&mut self, error: &watcher::Error) {
        let text = error.to_string();
        if self.last_error.as_ref() != Some(&text) {
            tracing::warn!(
                namespace = %self.namespace, error = %text,
                "the projects' Secrets cannot be read; check that the namespace exists and that this user may get, list and watch secrets there"
            );
            self.last_error = Some(text);
        }
    }
}
