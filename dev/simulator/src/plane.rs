//! One plane, and the direct access that a test has to it.

use crate::{
    definition::Definition,
    faults::Faults,
    garbage::{Controllers, Deletion},
    journal::{CONTROLLERS, DIRECT, Journal},
    karmada::Told,
    log::Log,
    meta,
    prepare::Endpoint,
    random::Random,
    route::Verb,
    state::{Down, State},
    status::{Status, Subject},
    write::{Outcome, Patch, Target},
};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    fmt,
    mem::take,
    ops::RangeInclusive,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// What all planes of a simulator share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) log: Log,
    pub(crate) journal: Journal,
    pub(crate) faults: Faults,
    pub(crate) latency: Mutex<Latency>,
}

/// How long answers and events take.
#[derive(Debug)]
pub(crate) struct Latency {
    pub(crate) range: Option<RangeInclusive<Duration>>,
    pub(crate) random: Random,
}

/// A plane, as requests and watches hold it.
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) common: Arc<Common>,
    pub(crate) state: Mutex<State>,
    changed: OnceLock<watch::Sender<u64>>,
    counts: [AtomicU64; Verb::ALL.len()],
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plane").field(&self.name).finish()
    }
}

/// What controllers do to a plane.
type Act = Box<dyn FnOnce(&mut State) + Send>;
/// The same, after a while.
type Later = (Duration, Act);

impl Shared {
    pub(crate) fn new(name: &str, common: Arc<Common>, state: State) -> Self {
        Self {
            name: name.into(),
            common,
            state: Mutex::new(state),
            changed: OnceLock::new(),
            counts: Default::default(),
        }
    }

    /// Works on the state, then lets the controllers act and wakes whoever waits.
    pub(crate) fn with<T>(self: &Arc<Self>, act: impl FnOnce(&mut State) -> T) -> T {
        self.with_as(DIRECT, act)
    }

    /// The same; what `act` changes, this author changes.
    pub(crate) fn with_as<T>(self: &Arc<Self>, author: &str, act: impl FnOnce(&mut State) -> T) -> T {
        let (result, told) = self.change(author, act);
        for told in told {
            told.tell(CONTROLLERS);
        }
        result
    }

    /// The same, without telling hubs of which the plane is a member what changed.
    pub(crate) fn change<T>(
        self: &Arc<Self>,
        author: &str,
        act: impl FnOnce(&mut State) -> T,
    ) -> (T, Vec<Told>) {
        let mut state = self.state.lock();
        let before = state.revision;
        state.author = author.into();
        let result = act(&mut state);
        state.author = CONTROLLERS.into();
        let mut later = Self::controllers(&mut state);
        later.extend(Self::karmada(&mut state));
        let (wakes, revision) = (take(&mut state.wakes), state.revision);
        let told = state.take_told();
        drop(state);
        if revision != before
            && let Some(changed) = self.changed.get()
        {
            changed.send_replace(revision);
        }
        wakes.into_iter().for_each(std::task::Waker::wake);
        for (delay, act) in later {
            self.act_later(delay, act);
        }
        (result, told)
    }

    /// Lets Karmada act. The answer is what it does later.
    fn karmada(state: &mut State) -> Vec<Later> {
        while let Some(actor) = &mut state.karmada
            && !actor.is_idle()
            && !actor.waits
        {
            if !actor.is_immediate() && tokio::runtime::Handle::try_current().is_ok() {
                let later = actor.put_off().into_iter();
                let later = later.map(|(delay, place)| -> Later {
                    (delay, Box::new(move |state| state.karmada_step_at(&place)))
                });
                return later.collect();
            }
            state.karmada_step();
            if state.controllers == Controllers::AtOnce {
                state.do_chores();
            }
        }
        Vec::new()
    }

    /// Lets the controllers act. The answer is what they do later.
    fn controllers(state: &mut State) -> Vec<Later> {
        let asynchronous = tokio::runtime::Handle::try_current().is_ok();
        match state.controllers {
            Controllers::Off => state.chores.clear(),
            Controllers::After(delay) if asynchronous => {
                let asked = state.deferred || state.chores.is_empty();
                state.deferred |= !asked;
                if !asked {
                    return vec![(delay, Box::new(State::deferred_chores))];
                }
            }
            Controllers::Within(longest) if asynchronous => {
                let later = state.put_off_chores(longest).into_iter();
                let later = later.map(|(delay, chore)| -> Later {
                    (delay, Box::new(move |state| state.do_chore(&chore)))
                });
                return later.collect();
            }
            Controllers::AtOnce | Controllers::After(_) | Controllers::Within(_) => state.do_chores(),
        }
        Vec::new()
    }

    fn act_later(self: &Arc<Self>, delay: Duration, act: Act) {
        let plane = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(plane) = plane.upgrade() {
                plane.with_as(CONTROLLERS, act);
            }
        });
    }

    /// How long the next answer or event takes.
    pub(crate) fn draw_delay(&self) -> Option<Duration> {
        let mut latency = self.common.latency.lock();
        let range = latency.range.clone()?;
        Some(latency.random.duration(&range))
    }

    pub(crate) fn count(&self, verb: Verb) {
        self.counts[verb as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// A handle to one plane: an API server of its own.
#[derive(Debug, Clone)]
pub struct Plane(pub(crate) Arc<Shared>);

/// The manager of fields that a test writes directly.
const MANAGER: &str = "test";

impl Plane {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Adds a kind that a `CustomResourceDefinition` (v1) describes.
    pub fn define(&self, crd: &Value) {
        self.define_all(&[Arc::new(Definition::parse(crd))]);
    }

    /// Adds kinds that were parsed before, once for any number of planes.
    pub fn define_all(&self, definitions: &[Arc<Definition>]) {
        self.0
            .with(|state| definitions.iter().for_each(|one| state.define(one.clone())));
    }

    /// Adds a kind without a schema: all fields are kept, maps merge by key and lists are replaced whole.
    pub fn define_plain(
        &self,
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        namespaced: bool,
        status: bool,
    ) {
        let definition = Definition::plain(group, version, kind, plural, namespaced, status);
        self.define_all(&[Arc::new(definition)]);
    }

    /// Creates an object; the kind and the namespace are in it.
    pub fn create(&self, mut object: Value) -> Result<Value, Status> {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let group = object["apiVersion"].as_str().unwrap_or_default();
        let word = match group.rsplit_once('/') {
            Some((group, _)) => format!("{kind}.{group}"),
            None => kind,
        };
        let namespace = meta::namespace(&object).to_owned();
        let object = move |state: &mut State, target: &Target<'_>| state.create(target, object.take());
        self.write(&word, &namespace, "", Endpoint::Main, object)
    }

    /// An object, by the name or the plural of its kind; `.group` may follow.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let state = self.0.state.lock();
        let table = state.called(kind)?;
        state.get(table, &meta::key(namespace, name)).cloned()
    }

    /// All objects of a kind, by namespace and name.
    pub fn list(&self, kind: &str) -> Vec<Arc<Value>> {
        let state = self.0.state.lock();
        let table = state.called(kind).map(|table| &state.tables[table]);
        table
            .map(|table| table.objects.values().cloned().collect())
            .unwrap_or_default()
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: &str) -> usize {
        let state = self.0.state.lock();
        state
            .called(kind)
            .map_or(0, |table| state.tables[table].objects.len())
    }

    /// Lays a merge patch over an object.
    pub fn merge(&self, kind: &str, namespace: &str, name: &str, patch: Value) -> Result<Value, Status> {
        self.patch(kind, namespace, name, Endpoint::Main, patch)
    }

    /// Lays a merge patch over an object through its status endpoint.
    pub fn merge_status(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Value, Status> {
        self.patch(kind, namespace, name, Endpoint::Status, patch)
    }

    fn patch(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        endpoint: Endpoint,
        patch: Value,
    ) -> Result<Value, Status> {
        self.write(kind, namespace, name, endpoint, move |state, target| {
            state.patch(target, Patch::Merge, &patch)
        })
    }

    /// Writes an object in the version in which it is kept.
    fn write(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        endpoint: Endpoint,
        act: impl FnOnce(&mut State, &Target<'_>) -> Result<Outcome, Status>,
    ) -> Result<Value, Status> {
        self.0.with(|state| {
            let table = state.called(kind).ok_or_else(Status::no_such_path)?;
            let definition = state.tables[table].definition.clone();
            let version = definition.storage().ok_or_else(Status::no_such_path)?;
            let target = Target {
                table,
                definition: &definition,
                version,
                namespace,
                name,
                endpoint,
                manager: MANAGER,
                dry_run: false,
            };
            act(state, &target).map(|outcome| Value::clone(&outcome.object))
        })
    }

    /// Deletes an object.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> Result<(), Status> {
        self.0.with(|state| {
            let subject = Subject {
                group: "",
                resource: kind,
                name,
            };
            let table = state.called(kind).ok_or_else(|| Status::not_found(&subject))?;
            state
                .delete(table, &meta::key(namespace, name), &Deletion::default())
                .map(drop)
        })
    }

    /// Gives an object another UID, as if it had been made anew in this very state.
    pub fn set_uid(&self, kind: &str, namespace: &str, name: &str, uid: &str) {
        self.0.with(|state| {
            let key = meta::key(namespace, name);
            let table = state.called(kind);
            let found = table.and_then(|table| Some((table, Value::clone(state.get(table, &key)?))));
            if let Some((table, mut object)) = found {
                meta::set(&mut object, "uid", uid.into());
                state.commit(table, &key, object);
            }
        });
    }

    /// The name of the kind that has a plural in a group.
    pub fn kind_of(&self, group: &str, plural: &str) -> Option<String> {
        let state = self.0.state.lock();
        let table = state.table(group, plural)?;
        Some(state.tables[table].definition.kind.to_string())
    }

    /// Removes a Namespace and nothing in it, as Kubernetes does with one that is deleted before its API server names all kinds.
    pub fn forget_namespace(&self, name: &str) {
        self.0
            .with(|state| drop(state.remove(crate::state::NAMESPACES, name)));
    }

    /// The version of the newest write.
    pub fn revision(&self) -> u64 {
        self.0.state.lock().revision
    }

    /// The oldest revision that is not compacted.
    pub fn oldest(&self) -> u64 {
        self.0.state.lock().compacted
    }

    /// The revision after each write.
    pub fn changed(&self) -> watch::Receiver<u64> {
        let revision = self.revision();
        self.0
            .changed
            .get_or_init(|| watch::Sender::new(revision))
            .subscribe()
    }

    /// Writes that changed something since the plane was added, those of its controllers included.
    pub fn writes(&self) -> u64 {
        self.0.state.lock().writes
    }

    /// Requests of a verb since the plane was added, whether or not the log keeps them.
    pub fn requests(&self, verb: Verb) -> u64 {
        self.0.counts[verb as usize].load(Ordering::Relaxed)
    }

    /// When garbage is collected and namespaces are emptied. They are within the write that leads to it by default.
    pub fn controllers(&self, when: Controllers) {
        self.0.with(|state| state.controllers = when);
    }

    /// How many changes each kind keeps: 1,000 unless set.
    pub fn keep_history(&self, changes: usize) {
        self.0.with(|state| state.history = changes);
    }

    /// Forgets all older versions: who lists or watches from one is told that it is gone.
    pub fn compact(&self) {
        self.0.with(State::compact);
    }

    /// How a watch from a version that is gone is refused: with an ERROR event in a stream (`true`, as API servers do),
    /// or with the status 410.
    pub fn gone_in_stream(&self, in_stream: bool) {
        self.0.with(|state| state.streams.gone_inside = in_stream);
    }

    /// Whether watches tell each event twice from now on.
    pub fn repeat_events(&self, repeat: bool) {
        self.0.with(|state| state.streams.repeats = repeat);
    }

    /// Lets the wall clock of the plane jump, forth or back.
    pub fn jump(&self, by: Duration, forth: bool) {
        self.0.with(|state| state.clock.jump(by, forth));
    }

    /// Stops the wall clock of the plane: from now on only jumps move it.
    pub fn stop_clock(&self) {
        self.0.with(|state| state.clock.stop());
    }

    /// Ends all open watches, or those of a kind, without an error.
    pub fn close_watches(&self, kind: Option<&str>) {
        self.each(kind, |state, table| state.tables[table].epoch += 1);
    }

    /// Holds the events of a kind back.
    pub fn pause_watches(&self, kind: &str) {
        self.each(Some(kind), |state, table| {
            state.tables[table].paused = Some(state.revision);
        });
    }

    /// Lets the events of a kind come again, those that were held back first.
    pub fn resume_watches(&self, kind: &str) {
        self.each(Some(kind), |state, table| state.tables[table].paused = None);
    }

    /// Lets lists and watches of a kind show an older version, as an API server does whose cache lags. Gets, lists
    /// of one name and writes are current. The history must still hold the version.
    pub fn serve_stale(&self, kind: &str, revision: u64) {
        self.each(Some(kind), |state, table| {
            state.tables[table].stale = Some(revision);
        });
    }

    /// Lets lists and watches of a kind show the current version again.
    pub fn serve_fresh(&self, kind: &str) {
        self.each(Some(kind), |state, table| state.tables[table].stale = None);
    }

    /// Does something to the tables of a kind, or to all, and wakes their watches.
    fn each(&self, kind: Option<&str>, act: impl Fn(&mut State, usize)) {
        self.0.with(|state| {
            for table in 0..state.tables.len() {
                if kind.is_none_or(|kind| state.tables[table].definition.is_called(kind)) {
                    act(state, table);
                    state.wake(table);
                }
            }
        });
    }

    /// Puts everything back to what it was at a revision, as an etcd that is restored from a snapshot: versions are given
    /// anew, and all watches end. The history must still hold the revision.
    pub fn restore(&self, revision: u64) {
        self.0.with(|state| state.restore(revision));
    }

    /// The same with the next versions above all that were ever given, as `etcdutl snapshot restore --bump-revision
    /// --mark-compacted` does: objects keep the versions that they had.
    pub fn restore_bumped(&self, revision: u64) {
        self.0.with(|state| {
            let given = state.revision;
            state.restore(revision);
            state.revision = given + 1_000_000;
            state.compact();
        });
    }

    /// Takes the plane down, or brings it up again.
    pub fn set_down(&self, down: Option<Down>) {
        self.0.with(|state| {
            state.down = down;
            state.tell_answers();
            state.wake_all();
        });
    }
}
