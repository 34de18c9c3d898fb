//! Projects of Milo, whose API servers are paths of one address (contract: federation.md §3.2).
//!
//! A Project, not its path, proves that a project exists: the API server answers under any name.

mod inquiry;

pub use inquiry::{Answer, Beginning, Inquiry, Questions};

use super::{
    ProjectEvent, Projects,
    objects::{Change, Objects},
};
use crate::plane::{
    client::Connection,
    credential::{CredentialSource, FollowedCredential},
    kubeconfig::{Credential, KubeconfigError, Rules},
};
use fedgate_api::names::is_label_value;
use futures::{Stream, stream};
use inquiry::Proof;
use kube::{
    Api, ResourceExt,
    core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta},
};
use std::{collections::BTreeMap, sync::Arc};

/// Projects per page of a list.
const PAGE: u32 = 500;

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
    objects: Objects<DynamicObject>,
    template: FollowedCredential,
    /// The template as last read.
    credential: Result<Credential, KubeconfigError>,
    projects: Projects,
    /// The projects that may be used, with UID and whether they are suspended.
    ready: BTreeMap<String, (Option<Arc<str>>, bool)>,
    /// Answers whether Projects exist.
    proof: Proof,
}

pub(super) fn stream(
    source: MiloSource,
    projects: Projects,
    rules: Rules,
) -> impl Stream<Item = ProjectEvent> + Send {
    let mut template = FollowedCredential::new(source.template.clone(), rules);
    let credential = template.read();
    if let Err(error) = &credential {
        tracing::warn!(%error, "no project can be used: the kubeconfig of the projects is rejected");
    }
    let form = source.form;
    let api = move |client| Api::all_with(client, &form.resource());
    let state = State {
        objects: Objects::new(source.plane.clone(), api, &source.selector, PAGE),
        source,
        template,
        credential,
        projects,
        ready: BTreeMap::new(),
        proof: Proof::new(),
    };
    stream::unfold(state, |mut state| async move {
        loop {
            if let Some(event) = state.projects.events.pop_front() {
                return Some((event, state));
            }
            tokio::select! {
                biased;
                change = state.objects.next() => state.take(change),
                answer = state.proof.answer(&state.source.plane, state.source.form) => state.judged(answer),
                new = state.template.next() => state.take_template(new),
            }
        }
    })
}

impl State {
    fn take(&mut self, change: Change<DynamicObject>) {
        match change {
            Change::Apply(project) => {
                self.put(&project);
                let gone = self.proof.follow(self.source.form, &project.metadata);
                self.report_gone(gone);
            }
            Change::Delete(project) => {
                self.remove(&project.name_any());
                let gone = self.proof.deleted(self.source.form, &project.metadata);
                self.report_gone(gone);
            }
            Change::Listed(listed) => {
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
            Change::Failed(error, is_new) => {
                if is_new {
                    let resource = self.source.form.resource();
                    tracing::warn!(
                        resource = format!("{}.{}", resource.plural, resource.group), %error,
                        "the projects cannot be read; check that this user may list and watch them, and that the server serves them"
                    );
                }
                self.proof.doubt();
            }
            Change::Reconnected => self.proof.restart(),
        }
    }

    fn judged(&mut self, answer: Option<Answer>) {
        match answer {
            // The list was for the platform's version alone.
            Some(answer) if answer == Answer::default() => {}
            Some(answer) => self.projects.events.push_back(ProjectEvent::Answered(answer)),
            None => {
                tracing::warn!(
                    "the platform was restored to an older state; its projects are listed again, and those that it lacks are kept until an operator confirms that they are deleted"
                );
                self.objects.relist();
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
        let no_uid = || {
            format!(
                "{origin}: it has no UID that can be the value of a label, which identifies the project on the hub; ask the operators of the platform"
            )
        };
        let found = uid.as_ref().map(|_| credential).ok_or_else(no_uid);
        self.projects.put(name, || origin, uid.clone(), found);
        self.projects.suspend(name, *suspended);
    }

    /// Takes a new template. One that is rejected leaves the projects on the last good one.
    fn take_template(&mut self, new: Result<Credential, KubeconfigError>) {
        match new {
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
                tracing::warn!(%error, "the new kubeconfig of the projects is rejected; the last good one is kept");
            }
        }
    }
}

#[cfg(test)]
mod tests;
