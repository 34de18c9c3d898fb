//! Projects of Milo, whose API servers are paths of one address (contract: federation.md §3.2).
//!
//! A Project, not its path, proves that a project exists: the API server answers under any name.

mod inquiry;

pub use inquiry::{Answer, Beginning, Inquiry, Questions};

use super::{CredentialSource, DiscoveryError, ProjectEvent, Projects};
use crate::{
    plane::{
        client::{Connection, is_too_large},
        files::FileWatch,
        kubeconfig::{Credential, KubeconfigError, Rules},
    },
    watch_channel::Receiver,
};
use fedgate_api::names::is_label_value;
use futures::{Stream, StreamExt, stream, stream::BoxStream};
use inquiry::{Proof, Verdict};
use kube::{
    Api, ResourceExt,
    core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta},
};
use kube_runtime::watcher::{self, Event};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Pause after an error before the next request.
const PAUSE: Duration = Duration::from_secs(5);
/// Projects per page of a list.
const PAGE: u32 = 500;
/// The same if such a page is too large to be read: tenants decide how large a Project is, and even the largest objects that
/// an API server stores fit in these numbers.
const PAGE_OF_LARGE: u32 = 10;

/// Where Milo says which projects there are, and where their API servers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MiloForm {
    /// Projects of Milo's core API server; each project is a path of the template's address.
    Projects,
    /// `ProjectControlPlanes` of the infrastructure cluster; each project has a host there.
    ControlPlanes,
}

impl MiloForm {
    /// The kind that is watched.
    pub fn resource(self) -> ApiResource {
        let (group, kind, plural) = match self {
            Self::Projects => ("resourcemanager.miloapis.com", "Project", "projects"),
            Self::ControlPlanes => (
                "infrastructure.miloapis.com",
                "ProjectControlPlane",
                "projectcontrolplanes",
            ),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1alpha1", kind), plural)
    }

    /// The condition that is True while the project's API server may be used.
    const fn condition(self) -> &'static str {
        match self {
            Self::Projects => "Ready",
            Self::ControlPlanes => "ControlPlaneReady",
        }
    }

    /// The template's credential for a project; `None` if its name makes no address.
    fn credential(self, template: &Credential, name: &str) -> Option<Credential> {
        match self {
            Self::Projects => template.at_path(&format!(
                "/apis/resourcemanager.miloapis.com/v1alpha1/projects/{name}/control-plane"
            )),
            Self::ControlPlanes => {
                template.at_host(&format!("milo-apiserver.project-{name}.svc.cluster.local:6443"))
            }
        }
    }

    /// UID of the Project: of a control plane it is that of its label.
    fn uid(self, object: &ObjectMeta) -> Option<Arc<str>> {
        let uid = match self {
            Self::Projects => object.uid.as_deref(),
            Self::ControlPlanes => {
                let labels = object.labels.as_ref();
                labels
                    .and_then(|labels| labels.get("resourcemanager.miloapis.com/project-uid"))
                    .map(String::as_str)
            }
        };
        uid.filter(|uid| !uid.is_empty() && is_label_value(uid))
            .map(Arc::from)
    }

    /// True if the project may be used. One that is being deleted may be, too: Milo waits until nothing is left in it, so its
    /// finalizers have to be taken off.
    pub fn is_ready(self, object: &DynamicObject) -> bool {
        is_true(object, self.condition())
    }

    /// True if the project counts as suspended: it is, which a `ProjectControlPlane` does not say, or it is being deleted.
    /// Its tenant may still create objects then, and hold it by finalizers, but nothing of it is to run.
    fn is_suspended(self, object: &DynamicObject) -> bool {
        let is_deleting = object.metadata.deletion_timestamp.is_some();
        is_deleting || (self == Self::Projects && is_true(object, "Suspended"))
    }
}

/// True if the object has this condition with the status `True`.
fn is_true(object: &DynamicObject, condition: &str) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    let mut ours = conditions
        .into_iter()
        .flatten()
        .filter(|of| of["type"] == condition);
    ours.any(|of| of["status"] == "True")
}

/// Source of Milo's projects.
#[derive(Debug, Clone)]
pub struct MiloSource {
    /// The plane that has the Projects.
    pub plane: Connection,
    /// How they are found.
    pub form: MiloForm,
    /// Label selector of the Projects; empty selects all.
    pub selector: String,
    /// The credential of every project, whose address each project changes.
    pub template: CredentialSource,
}

struct State {
    source: MiloSource,
    generation: Receiver<u64>,
    rules: Rules,
    files: FileWatch,
    /// The template as last read.
    credential: Result<Credential, KubeconfigError>,
    projects: Projects,
    /// The projects that may be used, with UID and whether they are suspended.
    ready: BTreeMap<String, (Option<Arc<str>>, bool)>,
    changes: Changes,
    /// Answers whether Projects exist.
    proof: Proof,
    /// Projects per page.
    page: u32,
    /// Names in a list that is not complete yet.
    listed: BTreeSet<String>,
    last_error: Option<String>,
    /// End of the pause after an error.
    paused: Option<Instant>,
}

type Changes = BoxStream<'static, Result<Event<DynamicObject>, watcher::Error>>;

pub(super) fn stream(
    source: MiloSource,
    projects: Projects,
    rules: Rules,
) -> impl Stream<Item = ProjectEvent> + Send {
    let mut files = FileWatch::default();
    files.follow(source.template.kubeconfig.iter().map(PathBuf::as_path));
    let credential = read(&source.template, rules, &mut files);
    if let Err(error) = &credential {
        tracing::warn!(%error, "no project can be used: the kubeconfig of the projects is rejected");
    }
    let state = State {
        generation: source.plane.generation(),
        changes: changes(&source, PAGE),
        proof: Proof::new(),
        page: PAGE,
        source,
        rules,
        files,
        credential,
        projects,
        ready: BTreeMap::new(),
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
                _ = state.generation.changed() => {
                    state.proof.restart();
                    state.relist();
                }
                verdict = state.proof.answer(&state.source.plane, state.source.form) => state.judged(verdict),
                () = state.files.changed() => state.read_template(),
            }
        }
    })
}

/// Reads the template, and again if it refers to files that were not followed during the read. After an error the same files
/// are followed as before.
fn read(
    template: &CredentialSource,
    rules: Rules,
    files: &mut FileWatch,
) -> Result<Credential, KubeconfigError> {
    let mut credential = template.read(rules)?;
    for _ in 0..3 {
        if !files.follow(credential.files().iter().map(PathBuf::as_path)) {
            break;
        }
        credential = template.read(rules)?;
    }
    Ok(credential)
}

fn changes(source: &MiloSource, page: u32) -> Changes {
    let api: Api<DynamicObject> = Api::all_with(source.plane.current().client(), &source.form.resource());
    let config = watcher::Config::default()
        .labels(&source.selector)
        .page_size(page);
    watcher::watcher(api, config).boxed()
}

async fn next<S: Stream + Unpin>(changes: &mut S, paused: Option<Instant>) -> Option<S::Item> {
    if let Some(until) = paused {
        tokio::time::sleep_until(until).await;
    }
    changes.next().await
}

impl State {
    fn relist(&mut self) {
        self.changes = changes(&self.source, self.page);
        self.paused = None;
    }

    fn take(&mut self, change: Option<Result<Event<DynamicObject>, watcher::Error>>) {
        self.paused = None;
        match change {
            Some(Ok(Event::Init)) => self.listed.clear(),
            Some(Ok(Event::InitApply(project))) => {
                self.listed.insert(project.name_any());
                self.put(&project);
                let gone = self.proof.follow(self.source.form, &project.metadata);
                self.report_gone(gone);
            }
            Some(Ok(Event::InitDone)) => {
                self.last_error = None;
                let listed = std::mem::take(&mut self.listed);
                self.ready.retain(|name, _| listed.contains(name));
                self.projects.retain(&listed);
                let gone = self.proof.retain(&listed);
                self.report_gone(gone);
                if let Some(begins) = self.proof.announces() {
                    let inquiry = self.proof.inquiry.clone();
                    self.projects
                        .events
                        .push_back(ProjectEvent::Listed { inquiry, begins });
                }
            }
            Some(Ok(Event::Apply(project))) => {
                self.put(&project);
                let gone = self.proof.follow(self.source.form, &project.metadata);
                self.report_gone(gone);
            }
            Some(Ok(Event::Delete(project))) => {
                self.remove(&project.name_any());
                let gone = self.proof.deleted(self.source.form, &project.metadata);
                self.report_gone(gone);
            }
            Some(Err(watcher::Error::InitialListFailed(error)))
                if is_too_large(&error) && self.page > PAGE_OF_LARGE =>
            {
                self.page = PAGE_OF_LARGE;
                self.relist();
            }
            Some(Err(error)) => {
                self.complain(&error);
                self.proof.doubt();
                self.paused = Some(Instant::now() + PAUSE);
            }
            // A watcher does not end; if it ever does, list again.
            None => self.relist(),
        }
    }

    fn judged(&mut self, verdict: Verdict) {
        match verdict {
            // The list was for the platform's version alone.
            Verdict::Answered(answer) if answer == Answer::default() => {}
            Verdict::Answered(answer) => self.projects.events.push_back(ProjectEvent::Answered(answer)),
            Verdict::Rewound => {
                tracing::warn!(
                    "the platform was restored to an older state; its projects are listed again, and those that it lacks are kept until an operator confirms that they are deleted"
                );
                self.relist();
            }
        }
    }

    fn report_gone(&mut self, uids: impl IntoIterator<Item = Arc<str>>) {
        let gone = uids.into_iter().map(|uid| ProjectEvent::Gone { uid });
        self.projects.events.extend(gone);
    }

    fn put(&mut self, project: &DynamicObject) {
        let (form, name) = (self.source.form, project.name_any());
        if !form.is_ready(project) {
            return self.remove(&name);
        }
        let suspended = form.is_suspended(project);
        self.ready
            .insert(name.clone(), (form.uid(&project.metadata), suspended));
        self.engage(&name);
    }

    fn remove(&mut self, name: &str) {
        self.ready.remove(name);
        self.projects.remove(name);
    }

    /// Passes the project on with the credential of the template, if there is one.
    fn engage(&mut self, name: &str) {
        let (Ok(template), Some((uid, suspended))) = (&self.credential, self.ready.get(name)) else {
            return;
        };
        let Some(credential) = self.source.form.credential(template, name) else {
            return;
        };
        let origin = format!("{} {name}", self.source.form.resource().kind);
        // Another identity, such as that of a namespace in the project, would be another project on the hub.
        let found = match uid {
            Some(_) => Ok(credential),
            None => Err(DiscoveryError::NoUid {
                origin: origin.clone(),
            }),
        };
        self.projects.put_identified(name, || origin, uid.clone(), found);
        self.projects.suspend(name, *suspended);
    }

    /// Reads the template again. One that is rejected leaves the projects on the last good one.
    fn read_template(&mut self) {
        match read(&self.source.template, self.rules, &mut self.files) {
            Ok(new) if self.credential.as_ref().is_ok_and(|old| *old == new) => {}
            Ok(new) => {
                tracing::info!(
                    projects = self.ready.len(),
                    "the kubeconfig of the projects is read again"
                );
                self.credential = Ok(new);
                let names: Vec<String> = self.ready.keys().cloned().collect();
                for name in names {
                    self.engage(&name);
                }
            }
            Err(error) => {
                let text = error.to_string();
                if self.last_error.as_ref() != Some(&text) {
                    tracing::warn!(%error, "the new kubeconfig of the projects is rejected; the last good one is kept");
                    self.last_error = Some(text);
                }
            }
        }
    }

    /// Logs one line per new cause.
    fn complain(&mut self, error: &watcher::Error) {
        let text = error.to_string();
        if self.last_error.as_ref() != Some(&text) {
            let resource = self.source.form.resource();
            tracing::warn!(
                resource = format!("{}.{}", resource.plural, resource.group), error = %text,
                "the projects cannot be read; check that this user may list and watch them, and that the server serves them"
            );
            self.last_error = Some(text);
        }
    }
}

#[cfg(test)]
mod tests;
