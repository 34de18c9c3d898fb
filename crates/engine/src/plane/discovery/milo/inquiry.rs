//! Asks the platform which Projects exist, by a complete list without selector (contract: federation.md §3.2, teardown).
//!
//! A watch with a selector shows a Project that lost its label as deleted, and one of an older state of the platform shows
//! Projects no more that were never deleted. So a deletion is proven by a list that began after the question.
//!
//! A list that is older than what the watch has shown proves that the platform was restored to an older state. Nothing follows
//! from it, and deletions that were observed before count no more.

use super::{MiloForm, PAGE};
use crate::plane::{
    client::{Connection, is_too_large},
    discovery::objects::{PAGE_OF_LARGE, PAUSE},
};
use futures::{FutureExt, future::BoxFuture};
use kube::{
    Api,
    api::ListParams,
    core::{DynamicObject, ObjectMeta},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};
use tokio::{sync::Notify, time::Instant};

/// Maximum number of deletions that are remembered. A forgotten one counts as an absence of unknown cause.
const REMEMBERED: usize = 10_000;

/// UIDs of Projects, each with the name that it had.
pub type Questions = BTreeMap<Arc<str>, Arc<str>>;

/// Questions to the platform whether Projects exist; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Inquiry(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    open: Mutex<Questions>,
    asked: Notify,
}

impl Inquiry {
    /// Asks for Projects; a [`ProjectEvent::Answered`](crate::plane::discovery::ProjectEvent::Answered) follows once the
    /// platform has answered.
    pub fn ask(&self, projects: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) {
        let mut open = self.0.open.lock();
        open.extend(projects);
        if !open.is_empty() {
            self.0.asked.notify_one();
        }
    }

    /// Takes the questions that no list has been begun for.
    pub fn take(&self) -> Questions {
        std::mem::take(&mut self.0.open.lock())
    }

    async fn next(&self) -> Questions {
        loop {
            let open = self.take();
            if !open.is_empty() {
                return open;
            }
            self.0.asked.notified().await;
        }
    }
}

/// Answer of the platform about the Projects that were asked for. A UID of which it proves nothing is in no set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Projects that exist and are not being deleted.
    pub living: BTreeSet<Arc<str>>,
    /// Projects that are being deleted, or whose deletion was observed.
    pub deleted: BTreeSet<Arc<str>>,
    /// Projects that do not exist although nobody saw their deletion.
    pub absent: BTreeSet<Arc<str>>,
    /// Projects that do not exist and whose name another Project has, although nobody saw their deletion.
    pub replaced: BTreeSet<Arc<str>>,
}

/// The reason why a complete list of the platform's Projects is a first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// Lists since the start, or since the address or credential changed.
    Server,
    /// Lists since the platform was restored to an older state: deletions that were observed before may be undone.
    Restored,
}

/// A Project of a complete list.
struct Listed {
    name: String,
    uid: Option<Arc<str>>,
    ends: bool,
}

/// Contents of a list.
struct Found {
    projects: Vec<Listed>,
    /// The platform's version; `None` if it is no number.
    version: Option<u64>,
}

type Listing = BoxFuture<'static, Result<Found, kube::Error>>;

/// Answers questions, one list at a time.
pub(super) struct Proof {
    pub(super) inquiry: Inquiry,
    /// The questions that the list answers.
    asked: Questions,
    listing: Option<Listing>,
    page: u32,
    paused: Option<Instant>,
    last_error: Option<String>,
    /// UIDs of the Projects that the watch shows and that are not being deleted.
    alive: BTreeMap<String, Option<Arc<str>>>,
    /// UIDs whose deletion was observed, the oldest first.
    seen: BTreeSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
    /// Highest version of the platform that was seen.
    version: u64,
    /// True if the platform may have been restored since its last answer.
    in_doubt: bool,
    /// Set if the next complete list of the watch is a first one.
    begins: Option<Beginning>,
}

impl Proof {
    pub(super) fn new() -> Self {
        Self {
            inquiry: Inquiry::default(),
            asked: Questions::new(),
            listing: None,
            page: PAGE,
            paused: None,
            last_error: None,
            alive: BTreeMap::new(),
            seen: BTreeSet::new(),
            order: VecDeque::new(),
            version: 0,
            in_doubt: false,
            begins: Some(Beginning::Server),
        }
    }

    /// The address or credential changed: it may be another platform, whose lists say nothing of deletions that were
    /// observed before.
    pub(super) fn restart(&mut self) {
        self.listing = None;
        self.paused = None;
        self.forget(Beginning::Server);
    }

    /// Forgets what was observed.
    fn forget(&mut self, begins: Beginning) {
        self.seen.clear();
        self.order.clear();
        self.version = 0;
        self.in_doubt = false;
        self.begins = Some(begins);
    }

    /// The watch has failed: a server that was restored meanwhile would let it wait in silence, so its version is asked for.
    pub(super) fn doubt(&mut self) {
        self.in_doubt = true;
        self.listing = None;
    }

    /// Records a Project of an event or of a list; returns the UIDs that may be deleted now.
    pub(super) fn follow(&mut self, form: MiloForm, project: &ObjectMeta) -> Vec<Arc<str>> {
        self.note_version(project);
        let (uid, ends) = (form.uid(project), project.deletion_timestamp.is_some());
        let name = project.name.clone().unwrap_or_default();
        let mut gone = Vec::new();
        let had = self.alive.remove(&name).flatten();
        if let Some(had) = had.filter(|had| uid.as_ref() != Some(had)) {
            // Its deletion would have been an event. A control plane may lose its label, and a restored platform the Project.
            gone.push(had);
        }
        if ends {
            gone.extend(uid.filter(|uid| self.record_deletion(uid)));
        } else {
            // It only had lost its label.
            if let Some(uid) = &uid {
                self.seen.remove(uid);
            }
            self.alive.insert(name, uid);
        }
        gone
    }

    /// Records the event of a deletion; returns the UID although it was being deleted before, since it was engaged until now.
    pub(super) fn deleted(&mut self, form: MiloForm, project: &ObjectMeta) -> Option<Arc<str>> {
        self.note_version(project);
        let had = self.alive.remove(project.name.as_deref().unwrap_or_default());
        let uid = form.uid(project).or(had.flatten())?;
        self.record_deletion(&uid);
        Some(uid)
    }

    /// A list is complete: returns the UIDs that it lacks.
    pub(super) fn retain(&mut self, listed: &BTreeSet<String>) -> Vec<Arc<str>> {
        let lost = self.alive.extract_if(.., |name, _| !listed.contains(name));
        lost.filter_map(|(_, uid)| uid).collect()
    }

    /// The reason why a complete list of the watch is a first one; given once.
    pub(super) fn announces(&mut self) -> Option<Beginning> {
        self.begins.take()
    }

    fn note_version(&mut self, project: &ObjectMeta) {
        let version = project.resource_version.as_deref().and_then(number);
        self.version = self.version.max(version.unwrap_or(0));
    }

    /// Records that a deletion was observed; true if it was not before.
    fn record_deletion(&mut self, uid: &Arc<str>) -> bool {
        if !self.seen.insert(uid.clone()) {
            return false;
        }
        self.order.push_back(uid.clone());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        true
    }

    /// Waits for a question or a doubt and for the list that ends it: the answers to the questions that were asked before it
    /// began. `None` if the platform was restored to an older state; then the questions stay open. A list that fails is
    /// repeated and answers nothing; may be cancelled.
    pub(super) async fn answer(&mut self, plane: &Connection, form: MiloForm) -> Option<Answer> {
        loop {
            if let Some(until) = self.paused {
                tokio::time::sleep_until(until).await;
                self.paused = None;
            }
            if self.listing.is_none() {
                let new = if self.asked.is_empty() && !self.in_doubt {
                    self.inquiry.next().await
                } else {
                    self.inquiry.take()
                };
                self.asked.extend(new);
            }
            let has_all = !self.asked.is_empty();
            let page = if has_all { self.page } else { 1 };
            let listing = self
                .listing
                .get_or_insert_with(|| list(plane.current().client(), form, page, has_all).boxed());
            let found = listing.await;
            self.listing = None;
            match found {
                Ok(found) => {
                    self.last_error = None;
                    self.in_doubt = false;
                    if found.version.is_some_and(|version| version < self.version) {
                        self.forget(Beginning::Restored);
                        self.paused = Some(Instant::now() + PAUSE);
                        return None;
                    }
                    self.version = self.version.max(found.version.unwrap_or(0));
                    return Some(self.judge(&found.projects));
                }
                Err(error) if is_too_large(&error) && self.page > PAGE_OF_LARGE => self.page = PAGE_OF_LARGE,
                Err(error) => {
                    self.paused = Some(Instant::now() + PAUSE);
                    let text = error.to_string();
                    if self.last_error.as_ref() != Some(&text) {
                        tracing::warn!(
                            error = %text,
                            "the projects cannot be listed; nothing of a deleted project is deleted before they are"
                        );
                        self.last_error = Some(text);
                    }
                }
            }
        }
    }

    fn judge(&mut self, listed: &[Listed]) -> Answer {
        let uids = |ends: bool| -> BTreeSet<&Arc<str>> {
            let those = listed.iter().filter(|project| project.ends == ends);
            those.filter_map(|project| project.uid.as_ref()).collect()
        };
        let (living, ending) = (uids(false), uids(true));
        let alive: BTreeSet<&Arc<str>> = self.alive.values().flatten().collect();
        let names: BTreeSet<&str> = listed.iter().map(|project| &*project.name).collect();
        // Any of the UIDs may be that of a control plane without a label.
        let proves = listed.iter().all(|project| project.uid.is_some());
        let mut answer = Answer::default();
        for (uid, name) in std::mem::take(&mut self.asked) {
            let set = if ending.contains(&uid) {
                &mut answer.deleted
            } else if living.contains(&uid) || alive.contains(&uid) {
                self.seen.remove(&uid);
                &mut answer.living
            } else if !proves {
                continue;
            } else if self.seen.contains(&uid) {
                &mut answer.deleted
            } else if names.contains(&*name) {
                &mut answer.replaced
            } else {
                &mut answer.absent
            };
            set.insert(uid);
        }
        answer
    }
}

/// The version of a list or an object as a number.
fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

/// Lists Projects, without their contents, in pages of this size; one page alone if `has_all` is false, for the version
/// of the platform. Each page comes from the same server.
async fn list(client: kube::Client, form: MiloForm, page: u32, has_all: bool) -> Result<Found, kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(client, &form.resource());
    let mut params = ListParams::default().limit(page);
    let mut projects = Vec::new();
    loop {
        let list = api.list_metadata(&params).await?;
        let version = list.metadata.resource_version.as_deref().and_then(number);
        projects.extend(list.items.into_iter().map(|project| Listed {
            uid: form.uid(&project.metadata),
            ends: project.metadata.deletion_timestamp.is_some(),
            name: project.metadata.name.unwrap_or_default(),
        }));
        match list
            .metadata
            .continue_
            .filter(|token| has_all && !token.is_empty())
        {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(Found { projects, version }),
        }
    }
}
