//! What the planes hold, kept by watches. Every change goes into a file; those that a tenant sees, and Pods, are told.

use super::{
    kinds::Kind,
    words::{self, News},
};
use crate::{PlaneRole, Progress, SandboxError};
use futures::StreamExt;
use kube::{Api, Client, api::DynamicObject};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::watch, task::JoinSet};

const FILE: &str = "demo-journal.log";
const LISTED_WITHIN: Duration = Duration::from_secs(30);

/// Plane, kind, name.
type Key = (String, &'static str, String);

/// What a watch has told, when it came.
pub(super) struct Change {
    pub(super) at: Instant,
    key: Key,
    /// Nothing: it is gone.
    object: Option<Value>,
}

impl Change {
    /// The object as it became, if it is this one.
    pub(super) fn of(&self, plane: &str, kind: &Kind, name: &str) -> Option<&Value> {
        let ours = self.key.0 == plane && self.key.1 == kind.kind && self.key.2 == name;
        self.object.as_ref().filter(|_| ours)
    }
}

/// What the planes hold, as far as it is followed.
#[derive(Default)]
pub(super) struct Seen {
    now: BTreeMap<Key, Value>,
    /// In the order in which they came, from all planes.
    changes: Vec<Change>,
    /// What was there when the watches began.
    first: BTreeSet<Key>,
    /// First lists that are complete.
    listed: usize,
}

impl Seen {
    /// The object, if it is there.
    pub(super) fn get(&self, plane: &str, kind: &Kind, name: &str) -> Option<&Value> {
        self.now.get(&(plane.to_owned(), kind.kind, name.to_owned()))
    }

    /// All objects of the kind on that plane.
    pub(super) fn of<'a>(&'a self, plane: &'a str, kind: &'a Kind) -> impl Iterator<Item = &'a Value> {
        self.now
            .iter()
            .filter(move |((at, of, _), _)| at == plane && *of == kind.kind)
            .map(|(_, object)| object)
    }

    /// Whether nothing is on the plane that was not there when the watches began.
    pub(super) fn as_at_first(&self, plane: &str) -> bool {
        self.now
            .keys()
            .filter(|key| key.0 == plane)
            .all(|key| self.first.contains(key))
    }

    /// All changes, the oldest first.
    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Where every Workload, deployment, Instance and Pod is, and in which state.
    fn summary(&self) -> String {
        const SHOWN: [&str; 4] = ["Workload", "WorkloadDeployment", "Instance", "Pod"];
        let shown = self.now.iter().filter(|(key, _)| SHOWN.contains(&key.1));
        shown.fold(String::new(), |all, ((plane, kind, name), object)| {
            format!("{all}\n  {plane}: {kind} {name}: {}", words::facts(kind, object))
        })
    }
}

/// One plane to follow.
pub(super) struct Followed<'a> {
    pub(super) plane: &'a str,
    pub(super) role: PlaneRole,
    pub(super) client: Client,
    /// The demonstration's namespace there.
    pub(super) namespace: &'a str,
    pub(super) kinds: &'a [&'static Kind],
}

/// Watches on all planes, and what they have seen.
pub(super) struct Journal {
    seen: watch::Sender<Seen>,
    since: Arc<Mutex<Instant>>,
    out: Progress,
    file: Arc<File>,
    watches: JoinSet<()>,
}

/// Where the journal of a sandbox with this folder of logs is written.
pub(super) fn path(logs: &Path) -> PathBuf {
    logs.join(FILE)
}

impl Journal {
    /// Starts the watches and waits until every first list is complete; those lists are not told.
    pub(super) async fn start(
        planes: &[Followed<'_>],
        out: Progress,
        path: &Path,
    ) -> Result<Self, SandboxError> {
        let file = Arc::new(File::create(path).map_err(SandboxError::io("create", path))?);
        let (seen, _) = watch::channel(Seen::default());
        let since = Arc::new(Mutex::new(Instant::now()));
        let width = planes.iter().map(|p| p.plane.len()).max().unwrap_or_default();
        let mut watches = JoinSet::new();
        for plane in planes {
            for kind in plane.kinds {
                let teller = Teller {
                    seen: seen.clone(),
                    since: Arc::clone(&since),
                    out: out.clone(),
                    file: Arc::clone(&file),
                    plane: plane.plane.to_owned(),
                    role: plane.role,
                    kind,
                    namespace: plane.namespace.to_owned(),
                    width,
                };
                watches.spawn(teller.follow(kind.api(plane.client.clone(), plane.namespace)));
            }
        }
        let journal = Self {
            seen,
            since,
            out,
            file,
            watches,
        };
        let all = journal.watches.len();
        journal
            .until("all planes have been listed", LISTED_WITHIN, |seen| {
                seen.listed == all
            })
            .await?;
        Ok(journal)
    }

    /// A heading; times are told from here on.
    pub(super) fn step(&self, title: &str) {
        *self.since.lock() = Instant::now();
        let heading = format!("\n== {title}");
        record(&self.file, &heading);
        self.out.say(&heading);
    }

    /// What has been seen, and when the last heading was.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Seen, Instant) -> T) -> T {
        let since = *self.since.lock();
        read(&self.seen.borrow(), since)
    }

    /// A line between the events.
    pub(super) fn say(&self, text: &str) {
        let passed = self.since.lock().elapsed().as_secs_f64();
        self.out.say(&format!("{passed:8.3} s  {text}"));
    }

    /// Waits for what `test` finds, woken by the watches.
    pub(super) async fn find<T>(
        &self,
        what: &str,
        limit: Duration,
        mut test: impl FnMut(&Seen) -> Option<T>,
    ) -> Result<T, SandboxError> {
        let mut seen = self.seen.subscribe();
        let search = async {
            loop {
                if let Some(found) = test(&seen.borrow_and_update()) {
                    return found;
                }
                // The sender lives as long as `self`.
                let _ = seen.changed().await;
            }
        };
        tokio::time::timeout(limit, search).await.map_err(|_| {
            let last = self.seen.borrow().summary();
            let seconds = limit.as_secs();
            SandboxError::Demo(format!(
                "waited {seconds} s in vain until {what}; this is what the planes have instead:{last}"
            ))
        })
    }

    /// Waits until `test` holds, woken by the watches.
    pub(super) async fn until(
        &self,
        what: &str,
        limit: Duration,
        mut test: impl FnMut(&Seen) -> bool,
    ) -> Result<(), SandboxError> {
        self.find(what, limit, |seen| test(seen).then_some(())).await
    }
}

/// A hub namespace's name is `ns-` and a UID, too long for a line of many.
fn short(namespace: &str) -> String {
    match namespace.char_indices().nth(11) {
        Some((end, _)) if namespace.starts_with("ns-") => format!("{}…", &namespace[..end]),
        _ => namespace.to_owned(),
    }
}

/// A line that cannot be written is missed by nobody while the story goes well.
fn record(mut file: &File, line: &str) {
    let _ = writeln!(file, "{line}");
}

/// Follows one kind on one plane.
struct Teller {
    seen: watch::Sender<Seen>,
    since: Arc<Mutex<Instant>>,
    out: Progress,
    file: Arc<File>,
    plane: String,
    role: PlaneRole,
    kind: &'static Kind,
    namespace: String,
    width: usize,
}

impl Teller {
    async fn follow(self, api: Api<DynamicObject>) {
        let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
        let mut told = false;
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    if let Some(key) = self.is(object, told) {
                        listed.insert(key);
                    }
                }
                Ok(Event::InitDone) => {
                    self.only(&listed);
                    if !told {
                        told = true;
                        self.seen.send_modify(|seen| seen.listed += 1);
                    }
                }
                Ok(Event::Apply(object)) => {
                    self.is(object, true);
                }
                Ok(Event::Delete(object)) => {
                    if let Some((key, _)) = self.read(object) {
                        self.gone(&key);
                    }
                }
                // The watcher lists again after a pause; if the plane stays away, the wait that needs it says so.
                Err(_) => {}
            }
        }
    }

    /// Key and body, unless the object is none of the demonstration's.
    fn read(&self, object: DynamicObject) -> Option<(Key, Value)> {
        let name = object.metadata.name.clone()?;
        let ours = match self.kind.kind {
            "Namespace" => name == self.namespace,
            "ClusterPropagationPolicy" => name.starts_with("cities-"),
            "ClusterResourceBinding" => name.starts_with(&self.namespace),
            _ => true,
        };
        let body = serde_json::to_value(object).ok()?;
        ours.then(|| ((self.plane.clone(), self.kind.kind, name), body))
    }

    fn is(&self, object: DynamicObject, told: bool) -> Option<Key> {
        let (key, body) = self.read(object)?;
        let facts = words::facts(self.kind.kind, &body);
        self.seen.send_modify(|seen| {
            let old = seen.now.insert(key.clone(), body.clone());
            if !told {
                seen.first.insert(key.clone());
                return;
            }
            seen.changes.push(Change {
                at: Instant::now(),
                key: key.clone(),
                object: Some(body.clone()),
            });
            let news = match old {
                None => News::Arrival,
                Some(old) if words::facts(self.kind.kind, &old) != facts => News::Change,
                Some(_) => return,
            };
            self.tell(&key.2, news, &body);
        });
        Some(key)
    }

    /// A list after a break shows by absence what was deleted meanwhile.
    fn only(&self, listed: &BTreeSet<Key>) {
        let absent: Vec<Key> = self
            .seen
            .borrow()
            .now
            .keys()
            .filter(|key| key.0 == self.plane && key.1 == self.kind.kind && !listed.contains(*key))
            .cloned()
            .collect();
        for key in absent {
            self.gone(&key);
        }
    }

    fn gone(&self, key: &Key) {
        self.seen.send_modify(|seen| {
            if let Some(last) = seen.now.remove(key) {
                seen.changes.push(Change {
                    at: Instant::now(),
                    key: key.clone(),
                    object: None,
                });
                self.tell(&key.2, News::Gone, &last);
            }
        });
    }

    fn tell(&self, name: &str, news: News, object: &Value) {
        let passed = self.since.lock().elapsed().as_secs_f64();
        let kind = self.kind.kind;
        let what = match news {
            News::Arrival => format!(" {}", words::arrival(self.role, kind, object)),
            News::Change => String::new(),
            News::Gone => " is gone".to_owned(),
        };
        let facts = match words::facts(kind, object) {
            facts if facts.is_empty() || news == News::Gone => String::new(),
            facts => format!(": {facts}"),
        };
        let line = format!(
            "{passed:8.3} s  {:<width$}  {kind} {name}{what}{facts}",
            self.plane,
            width = self.width
        );
        let line = line.replace(&self.namespace, &short(&self.namespace));
        record(&self.file, &line);
        if words::is_told(self.role, kind, news, object) {
            self.out.say(&line);
        }
    }
}
