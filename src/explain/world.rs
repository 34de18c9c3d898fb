//! The play: the gateway between a project and a hub that exist in this process alone, on a clock that jumps to the next
//! moment at which something is due.

use super::{
    Chapter, ChapterSteps, ExplainError, Explanation,
    example::{Example, NAMESPACE},
    karmada::Karmada,
    planes::{Planes, is_watched, target},
    returned,
    server::{self, Happening, Servers},
    store::{Address, Server},
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    clock::{Clock, Now},
    key::Key,
    metrics::{Metrics, PlaneKind},
    plan::Requeue,
    plane::{discovery::ProjectEvent, lease::LeaseHandle, watch::WatchEvent},
    runtime::{
        Runtime, Setup,
        index::Index,
        queue::{Outcome, Priority},
        role::Role,
    },
};
use fedgate_gateway::{Gateway, context::Context, index::GatewayIndex, settings::Settings};
use fedgate_kinds::{FederatedKind, Kinds, lua::Host};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    cell::OnceCell,
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// The name of the project.
const PROJECT: &str = "demo";
/// The UID of the object's namespace, which names that of the hub.
const NAMESPACE_UID: &str = "a1";
/// When the play begins: 2026-01-01.
const BEGIN: i64 = 1_767_225_600;
/// A chapter is over when nothing has been written for this long.
const QUIET: Duration = Duration::from_mins(15);
/// No chapter takes more steps.
const MOST_STEPS: usize = 20_000;

/// The play; see the module.
struct World<'a> {
    kind: &'a FederatedKind,
    karmada: Karmada<'a>,
    runtime: Arc<Runtime<Gateway>>,
    planes: Arc<Planes>,
    clock: Arc<Mutex<Now>>,
    due: BTreeMap<(Instant, u64), Key>,
    requeued: u64,
    source: Address,
}

/// Plays the chapters.
pub(super) async fn play(
    (kind, all): (&FederatedKind, &[FederatedKind]),
    example: &Example,
    chapters: &[Chapter],
    settings: &Settings,
) -> Result<Explanation, ExplainError> {
    let mut world = World::new((kind, all), example, settings)?;
    let name = example.object["metadata"]["name"].as_str().unwrap_or_default();
    let mut explanation = Explanation {
        kind: kind.resource.kind.clone(),
        api_version: kind.resource.api_version.clone(),
        object: format!("{NAMESPACE}/{name}"),
        at_one: kind.is_exactly_one(),
        members: members(&example.city).map(|(name, _)| name).into(),
        notes: example.origin.clone(),
        chapters: Vec::new(),
    };
    let mut steps = vec![(Chapter::Create, world.start().await?)];
    let object = example.object.clone();
    let created = world.chapter("Create", |world| world.write(object)).await?;
    steps.push((Chapter::Create, created));
    explanation.notes.extend(world.returned(example));
    if chapters.contains(&Chapter::Edit) {
        match edit(&example.object) {
            Some((field, patch)) => {
                let title = format!("Edit of {field}");
                steps.push((
                    Chapter::Edit,
                    world.chapter(&title, |world| world.patch(&patch)).await?,
                ));
            }
            None => explanation
                .notes
                .push("no edit: its spec has no number and no boolean outside of lists".to_owned()),
        }
    }
    if chapters.contains(&Chapter::Suspend) {
        for (title, on) in [("Suspend", true), ("Resume", false)] {
            steps.push((
                Chapter::Suspend,
                world.chapter(title, |world| world.suspend(on)).await?,
            ));
        }
    }
    if chapters.contains(&Chapter::Delete) {
        steps.push((Chapter::Delete, world.chapter("Delete", World::delete).await?));
    }
    let shown = steps
        .into_iter()
        .filter(|(chapter, _)| chapters.contains(chapter));
    explanation.chapters = shown.map(|(_, steps)| steps).collect();
    Ok(explanation)
}

/// Two members of a city: name and city.
fn members(city: &str) -> [(String, String); 2] {
    let stem = city.to_lowercase();
    [1, 2].map(|number| (format!("{stem}-{number}"), city.to_owned()))
}

impl<'a> World<'a> {
    fn new(
        (kind, all): (&'a FederatedKind, &[FederatedKind]),
        example: &Example,
        settings: &Settings,
    ) -> Result<Self, ExplainError> {
        let begin = Timestamp::from_second(BEGIN).unwrap_or_default();
        let clock = Arc::new(Mutex::new(Now {
            wall: begin,
            instant: Instant::now(),
        }));
        let read = clock.clone();
        let setup = Setup {
            lease: LeaseHandle::always(),
            identity: "explain".to_owned(),
            workers: 2,
            sweep_interval: settings.sweep_interval,
            metrics: Metrics::new().map_err(|error| ExplainError::Failed(error.to_string()))?,
            clock: Clock::reading(move || *read.lock()),
        };
        let key = ProjectKey::parse(PROJECT).map_err(|error| ExplainError::Failed(error.to_string()))?;
        let servers = Arc::<Mutex<Servers>>::default();
        let planes = Arc::new(Planes {
            hub: server::client(&servers, &Server::Hub),
            project: server::client(&servers, &Server::Project),
            servers,
            key,
            engagement: AtomicU64::default(),
            runtime: OnceLock::new(),
        });
        let access = planes.clone();
        let kinds = Kinds {
            federated: all.to_vec(),
            platform: Vec::new(),
        };
        let runtime = fedgate_gateway::over(kinds, settings.clone(), setup, &|_| access.clone());
        // It is set here alone.
        let _ = planes.runtime.set(Arc::downgrade(&runtime));
        let name = example.object["metadata"]["name"].as_str().unwrap_or_default();
        let source = Address {
            server: Server::Project,
            ..Address::hub(&kind.resource.group, &kind.resource.plural, NAMESPACE, name)
        };
        let world = Self {
            kind,
            karmada: Karmada {
                kind,
                status: example.status.clone(),
                lua: Host::new(),
                failed: OnceCell::new(),
            },
            runtime,
            planes,
            clock,
            due: BTreeMap::new(),
            requeued: 0,
            source,
        };
        world.furnish(example);
        Ok(world)
    }

    /// Puts the objects there that exist before the gateway starts.
    fn furnish(&self, example: &Example) {
        let mut servers = self.planes.servers.lock();
        let store = &mut servers.store;
        store.now = self.clock.lock().wall;
        let namespace =
            |uid: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"uid": uid}});
        for (name, uid) in [(keys::HUB_IDENTITY, "hub"), (keys::SYSTEM_NAMESPACE, "system")] {
            store.put(&Address::hub("", "namespaces", "", name), namespace(uid));
        }
        for (name, uid) in [(keys::PROJECT_IDENTITY, "project"), (NAMESPACE, NAMESPACE_UID)] {
            let at = Address::hub("", "namespaces", "", name).at(Server::Project);
            store.put(&at, namespace(uid));
        }
        let references = self
            .kind
            .companions
            .iter()
            .flat_map(|section| &section.references);
        let resources = references
            .map(|reference| &reference.resource)
            .chain([&self.kind.resource]);
        let served: Vec<Value> = resources
            .map(|of| json!({"groupVersion": of.api_version, "resources": [{"kind": of.kind, "name": of.plural}]}))
            .collect();
        for (name, city) in members(&example.city) {
            let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"uid": format!("cluster-{name}"), "labels": {&self.kind.placement.label: city}},
                "spec": {"syncMode": "Push", "apiEndpoint": format!("https://{name}"),
                    "impersonatorSecretRef": {"namespace": "karmada-cluster", "name": name}},
                "status": {"apiEnablements": served, "conditions": [
                    {"type": "Ready", "status": "True"}, {"type": "CompleteAPIEnablements", "status": "True"}]}});
            store.put(
                &Address::hub("cluster.karmada.io", "clusters", "", &name),
                cluster,
            );
        }
        for (group, plural, source) in &example.sources {
            let name = source["metadata"]["name"].as_str().unwrap_or_default();
            let at = Address::hub(group, plural, NAMESPACE, name).at(Server::Project);
            store.put(&at, source.clone());
        }
    }

    /// The gateway starts: it lists everything. Of what it writes then, only the kind's own interpreter is shown.
    async fn start(&mut self) -> Result<ChapterSteps, ExplainError> {
        let engagement = {
            let mut index = self.runtime.shared.index.lock();
            index.engage_identified(self.planes.key.clone(), None)
        };
        self.planes.engagement.store(engagement, Ordering::Relaxed);
        self.planes.servers.lock().store.changes();
        let tables = self.runtime.shared.index.lock().tables();
        for (kind, table) in tables {
            let server = match kind {
                PlaneKind::Hub => Server::Hub,
                _ => Server::Project,
            };
            self.list(&server, table);
        }
        let mut steps = self.chapter("Start of the gateway", |_| {}).await?;
        let own = &self.kind.interpreter.name;
        steps.happened.retain(
            |(_, happening)| matches!(happening, Happening::Request(request) if request.name == *own),
        );
        steps.conditions.clear();
        Ok(steps)
    }

    fn list(&self, server: &Server, table: <GatewayIndex as Index>::TableId) {
        let Some((plane, engagement)) = self.planes.plane(server) else {
            return;
        };
        let mut events = vec![WatchEvent::Init];
        let objects: Vec<(Address, Value)> = {
            let servers = self.planes.servers.lock();
            let own = servers.store.iter().filter(|(at, _)| at.server == *server);
            own.map(|(at, object)| (at.clone(), object.clone())).collect()
        };
        let index = self.runtime.shared.index.lock();
        let spec = index.watch_spec(&plane, table);
        for (at, object) in objects {
            let is_listed =
                index.table_of(&target(&plane, &at)) == Some(table) && is_watched(&spec, &at, &object);
            if let Ok(object) = serde_json::from_value(object)
                && is_listed
            {
                events.push(WatchEvent::InitApply(Box::new(object)));
            }
        }
        drop(index);
        for event in events.into_iter().chain([WatchEvent::InitDone]) {
            self.runtime.shared.planes.event(&plane, engagement, table, event);
        }
    }

    /// The tenant does something, and everything follows from it.
    async fn chapter(&mut self, title: &str, act: impl FnOnce(&Self)) -> Result<ChapterSteps, ExplainError> {
        let began = self.clock.lock().wall;
        self.planes.servers.lock().happened.clear();
        act(self);
        self.settle().await?;
        let servers = self.planes.servers.lock();
        let since = |at: Timestamp| Duration::try_from(at.duration_since(began)).unwrap_or_default();
        let happened = servers.happened.iter();
        Ok(ChapterSteps {
            title: title.to_owned(),
            happened: happened.map(|(at, what)| (since(*at), what.clone())).collect(),
            conditions: conditions(servers.store.get(&self.source)),
        })
    }

    /// Goes on until nothing has been written for a while.
    async fn settle(&mut self) -> Result<(), ExplainError> {
        let mut last = self.clock.lock().instant;
        for _ in 0..MOST_STEPS {
            self.planes.feed();
            let before = self.planes.servers.lock().store.version;
            if self.runtime.shared.queue.depth().ready > 0 {
                self.reconcile().await?;
            } else if !self.karmada_steps()? {
                let Some((at, number)) = self.due.keys().next().copied() else {
                    return Ok(());
                };
                if at > last + QUIET {
                    return Ok(());
                }
                self.advance(at);
                if let Some(key) = self.due.remove(&(at, number)) {
                    self.runtime.shared.queue.add(key, Priority::Fresh);
                }
            }
            if self.planes.servers.lock().store.version > before {
                last = self.clock.lock().instant;
            }
        }
        Err(ExplainError::Failed(format!(
            "it does not come to rest in {MOST_STEPS} steps"
        )))
    }

    /// Reconciles the next key.
    async fn reconcile(&mut self) -> Result<(), ExplainError> {
        let Some(taken) = self.runtime.shared.queue.next().await else {
            return Ok(());
        };
        let (key, wrote) = (taken.key, AtomicBool::new(false));
        self.due.retain(|_, due| *due != key);
        let now = self.clock.lock().instant;
        let ctx = Context::new(&self.runtime.shared, now, &wrote);
        let next = self.runtime.role.reconcile(&ctx, &key).await;
        self.runtime.shared.queue.done(&key, Outcome::Done);
        let next = next.map_err(|failure| ExplainError::Failed(failure.to_string()))?;
        if let Requeue::After(after) = next {
            self.requeued += 1;
            self.due.insert((now + after, self.requeued), key);
        }
        Ok(())
    }

    /// Lets Karmada look at everything once; true if it has done something.
    fn karmada_steps(&self) -> Result<bool, ExplainError> {
        let mut servers = self.planes.servers.lock();
        let before = servers.store.version;
        let lines = self.karmada.step(&mut servers.store);
        for (who, line) in lines {
            servers.happens(Happening::Other(who, line));
        }
        if let Some((operation, error)) = self.karmada.failed.get() {
            return Err(ExplainError::of_script(self.kind, *operation, error.clone(), ""));
        }
        Ok(servers.store.version > before)
    }

    /// The lines about Secrets that come back, by the status that the hub has now.
    fn returned(&self, example: &Example) -> Vec<String> {
        let servers = self.planes.servers.lock();
        let copies = servers.store.on_hub(&self.source.group, &self.source.plural);
        let copy = copies.into_iter().find(|(at, _)| at.name == self.source.name);
        returned::notes(self.kind, example, copy.map(|(_, copy)| copy).as_ref())
    }

    fn advance(&self, to: Instant) {
        let mut now = self.clock.lock();
        let by = to.saturating_duration_since(now.instant);
        now.instant += by;
        now.wall = now
            .wall
            .checked_add(SignedDuration::try_from(by).unwrap_or_default())
            .unwrap_or(now.wall);
        self.planes.servers.lock().store.now = now.wall;
    }

    fn write(&self, object: Value) {
        self.planes.servers.lock().store.put(&self.source, object);
    }

    fn patch(&self, patch: &Value) {
        self.planes.servers.lock().store.merge(&self.source, patch);
    }

    fn delete(&self) {
        self.planes.servers.lock().store.delete(&self.source);
    }

    /// The object is suspended by its annotation, or with its project where its kind has none.
    fn suspend(&self, on: bool) {
        if let Some(annotation) = &self.kind.suspend_annotation {
            let value = if on { json!("true") } else { Value::Null };
            self.patch(&json!({"metadata": {"annotations": {annotation: value}}}));
        } else {
            let key = self.planes.key.clone();
            let event = ProjectEvent::Suspension { key, suspended: on };
            self.runtime.role.on_project(&self.runtime.shared, event);
        }
    }
}

/// The conditions of an object, those that its schema keeps out of its status, too: type, status, reason and message of each.
fn conditions(object: Option<&Value>) -> Vec<[String; 4]> {
    let noted = object.and_then(|object| object["metadata"]["annotations"][keys::CONDITIONS].as_str());
    let noted: Vec<Value> = noted
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let list = object.and_then(|object| object["status"]["conditions"].as_array());
    let all = list.into_iter().flatten().chain(&noted);
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    all.map(|one| ["type", "status", "reason", "message"].map(|field| text(one, field)))
        .collect()
}

/// A change of the first number in the spec, else of the first boolean: its path, and the patch.
fn edit(object: &Value) -> Option<(String, Value)> {
    let number = |value: &Value| value.as_i64().map(|number| json!(number + 1));
    let boolean = |value: &Value| value.as_bool().map(|on| json!(!on));
    let spec = &object["spec"];
    let found = changed(spec, "spec", &number).or_else(|| changed(spec, "spec", &boolean));
    found.map(|(path, patch)| (path, json!({"spec": patch})))
}

/// The first change that can be made below a value.
fn changed(value: &Value, path: &str, change: &impl Fn(&Value) -> Option<Value>) -> Option<(String, Value)> {
    if let Some(new) = change(value) {
        return Some((path.to_owned(), new));
    }
    let mut fields = value.as_object()?.iter();
    fields.find_map(|(field, inner)| {
        let (below, new) = changed(inner, &format!("{path}.{field}"), change)?;
        Some((below, json!({field: new})))
    })
}
