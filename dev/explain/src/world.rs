//! The play: the gateway between a project and a hub that exist in this process alone, on a clock that jumps to the next
//! moment at which something is due.

use super::{
    Chapter, ChapterSteps, Explanation, Happening,
    example::{Example, NAMESPACE},
    planes::Planes,
    returned, script_error,
    scripts::Scripts,
};
use anyhow::{anyhow, bail};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    clock::{Clock, Now},
    key::Key,
    metrics::Metrics,
    plan::Requeue,
    plane::{discovery::ProjectEvent, lease::LeaseHandle},
    runtime::{Runtime, Setup, queue::Priority, role::Role},
};
use fedgate_gateway::{Gateway, context::Context, settings::Settings};
use fedgate_karmada::Object;
use fedgate_kinds::FederatedKind;
use fedgate_simulator::{
    Status,
    karmada::{Cluster, Karmada, KarmadaOptions},
};
use jiff::{SignedDuration, Timestamp};
use kube::core::ApiResource;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
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
    example: &'a Example,
    /// The kind, as the simulator's planes call it.
    word: String,
    karmada: Karmada,
    scripts: Arc<Scripts>,
    runtime: Arc<Runtime<Gateway>>,
    planes: Arc<Planes>,
    clock: Arc<Mutex<Now>>,
    due: BTreeMap<(Instant, u64), Key>,
    requeued: u64,
}

/// Plays the chapters.
pub(super) async fn play(
    (kind, all): (&FederatedKind, &[FederatedKind]),
    example: &Example,
    chapters: &[Chapter],
    settings: &Settings,
) -> anyhow::Result<Explanation> {
    let mut world = World::new((kind, all), example, settings)?;
    let mut explanation = Explanation {
        kind: kind.resource.kind.clone(),
        api_version: kind.resource.api_version.clone(),
        object: format!("{NAMESPACE}/{}", example.object.name()),
        at_one: kind.is_exactly_one(),
        members: members(&example.city).map(|(name, _)| name).into(),
        notes: example.origin.clone(),
        chapters: Vec::new(),
    };
    let mut steps = vec![(Chapter::Create, world.start().await?)];
    let object = example.object.clone();
    let create = |world: &World<'_>| world.planes.project.create(object).map(drop);
    let created = world.chapter("Create", create).await?;
    steps.push((Chapter::Create, created));
    explanation.notes.extend(world.returned());
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
        example: &'a Example,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
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
            metrics: Metrics::new()?,
            clock: Clock::reading(move || *read.lock()),
        };
        let key = ProjectKey::parse(PROJECT)?;
        let planes = Arc::new(Planes::new(key, begin));
        let access = planes.clone();
        let runtime =
            fedgate_gateway::over(all.to_vec().into(), settings.clone(), setup, &|_| access.clone());
        // It is set here alone.
        let _ = planes.runtime.set(Arc::downgrade(&runtime));
        let on_demand = KarmadaOptions {
            on_demand: true,
            ..KarmadaOptions::default()
        };
        let resource = &kind.resource;
        let world = Self {
            kind,
            example,
            word: format!("{}.{}", resource.plural, resource.group),
            karmada: Karmada::attach(&planes.hub, on_demand),
            scripts: Arc::new(Scripts::of(kind)),
            runtime,
            planes,
            clock,
            due: BTreeMap::new(),
            requeued: 0,
        };
        world.furnish()?;
        Ok(world)
    }

    /// Makes the members, and the objects that exist before the gateway starts.
    fn furnish(&self) -> Result<(), Status> {
        let Planes { hub, project, .. } = &*self.planes;
        let members = members(&self.example.city);
        for (name, _) in &members {
            self.planes.simulator.add(name);
        }
        let references = self
            .kind
            .companions
            .iter()
            .flat_map(|section| &section.references);
        let others = references.filter(|reference| !reference.is_core());
        let others = others.map(|reference| &reference.resource);
        let resources: Vec<&ApiResource> = others.chain([&self.kind.resource]).collect();
        for plane in self.planes.all() {
            plane.stop_clock();
            for of in &resources {
                plane.define_plain(&of.group, &of.version, &of.kind, &of.plural, true, true);
            }
        }
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": keys::SYSTEM_NAMESPACE}});
        hub.create(namespace)?;
        hub.set_uid("Namespace", "", keys::HUB_IDENTITY, "hub");
        project.set_uid("Namespace", "", keys::PROJECT_IDENTITY, "project");
        project.set_uid("Namespace", "", NAMESPACE, NAMESPACE_UID);
        self.karmada.interpret(&self.word, self.scripts.clone());
        for (name, city) in &members {
            self.karmada
                .join(&Cluster::new(name, &self.kind.placement.label, city));
            if let Some(plane) = self.planes.simulator.plane(name) {
                self.karmada.member(name, &plane);
            }
        }
        let mut sources = self.example.sources.iter();
        sources.try_for_each(|source| project.create(source.clone()).map(drop))
    }

    /// The gateway starts: it lists everything. Of what it writes then, only the kind's own interpreter is shown.
    async fn start(&mut self) -> anyhow::Result<ChapterSteps> {
        let engagement = {
            let mut index = self.runtime.shared.index.lock();
            index.engage_identified(self.planes.key.clone(), None)
        };
        self.planes.engagement.store(engagement, Ordering::Relaxed);
        self.planes.feed();
        let mut steps = self.chapter("Start of the gateway", |_| Ok(())).await?;
        let own = &self.kind.interpreter.name;
        steps.happened.retain(
            |(_, happening)| matches!(happening, Happening::Request(request) if request.name == *own),
        );
        steps.conditions.clear();
        Ok(steps)
    }

    /// The tenant does something, and everything follows from it.
    async fn chapter(
        &mut self,
        title: &str,
        act: impl FnOnce(&Self) -> Result<(), Status>,
    ) -> anyhow::Result<ChapterSteps> {
        let began = self.clock.lock().wall;
        self.planes.record.lock().happened.clear();
        act(self)?;
        self.settle().await?;
        let since = |at: Timestamp| Duration::try_from(at.duration_since(began)).unwrap_or_default();
        let record = self.planes.record.lock();
        let happened = record.happened.iter();
        let object = self
            .planes
            .project
            .get(&self.word, NAMESPACE, self.example.object.name());
        Ok(ChapterSteps {
            title: title.to_owned(),
            happened: happened.map(|(at, what)| (since(*at), what.clone())).collect(),
            conditions: conditions(object.as_deref()),
        })
    }

    /// Goes on until nothing has been written for a while.
    async fn settle(&mut self) -> anyhow::Result<()> {
        let mut last = self.clock.lock().instant;
        for _ in 0..MOST_STEPS {
            self.planes.feed();
            let before = self.planes.version();
            if self.runtime.shared.queue.depth().ready > 0 {
                self.reconcile().await?;
            } else if !self.karmada_acts()? {
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
            if self.planes.version() > before {
                last = self.clock.lock().instant;
            }
        }
        bail!("the gateway cannot go on: it does not come to rest in {MOST_STEPS} steps")
    }

    /// Reconciles the next key.
    async fn reconcile(&mut self) -> anyhow::Result<()> {
        let Some(taken) = self.runtime.shared.queue.next().await else {
            return Ok(());
        };
        let (key, wrote) = (taken.key, AtomicBool::new(false));
        self.due.retain(|_, due| *due != key);
        let now = self.clock.lock().instant;
        let ctx = Context::new(&self.runtime.shared, now, &wrote);
        let next = self.runtime.role.reconcile(&ctx, &key).await;
        self.runtime.shared.queue.done(&key, Ok(Requeue::AwaitChange));
        let next = next.map_err(|failure| anyhow!("the gateway cannot go on: {failure}"))?;
        if let Requeue::After(after) = next {
            self.requeued += 1;
            self.due.insert((now + after, self.requeued), key);
        }
        Ok(())
    }

    /// Lets Karmada and the members act until they have nothing to do; true if they have done something.
    fn karmada_acts(&self) -> anyhow::Result<bool> {
        let before = self.planes.version();
        loop {
            let version = self.planes.version();
            self.karmada.step();
            self.report()?;
            if self.planes.version() == version {
                break;
            }
        }
        if let Some((operation, error)) = self.scripts.failed.get() {
            return Err(script_error(self.kind, *operation, error, ""));
        }
        Ok(self.planes.version() > before)
    }

    /// The kind's controller at each member reports the status of the example.
    fn report(&self) -> Result<(), Status> {
        let status = json!({"status": self.example.status});
        if self.example.status.is_null() {
            return Ok(());
        }
        let members = members(&self.example.city);
        for plane in members
            .iter()
            .filter_map(|(name, _)| self.planes.simulator.plane(name))
        {
            for object in plane.list(&self.word) {
                plane.merge_status(&self.word, object.namespace(), object.name(), status.clone())?;
            }
        }
        Ok(())
    }

    /// The lines about Secrets that come back, by the status that the hub has now.
    fn returned(&self) -> Vec<String> {
        let copies = self.planes.hub.list(&self.word);
        let name = self.example.object.name();
        let copy = copies.iter().find(|copy| copy.name() == name);
        returned::notes(self.kind, self.example, copy.map(|copy| &**copy))
    }

    fn advance(&self, to: Instant) {
        let mut now = self.clock.lock();
        let (by, before) = (to.saturating_duration_since(now.instant), now.wall);
        now.instant += by;
        now.wall = now
            .wall
            .checked_add(SignedDuration::try_from(by).unwrap_or_default())
            .unwrap_or(now.wall);
        self.planes.record.lock().now = now.wall;
        // The clocks of planes show whole seconds.
        let seconds = now.wall.as_second().saturating_sub(before.as_second());
        let jump = Duration::from_secs(seconds.unsigned_abs());
        self.planes.all().for_each(|plane| plane.jump(jump, true));
    }

    fn patch(&self, patch: &Value) -> Result<(), Status> {
        let name = self.example.object.name();
        let patched = self
            .planes
            .project
            .merge(&self.word, NAMESPACE, name, patch.clone());
        patched.map(drop)
    }

    fn delete(&self) -> Result<(), Status> {
        let name = self.example.object.name();
        self.planes.project.delete(&self.word, NAMESPACE, name)
    }

    /// The object is suspended by its annotation, or with its project where its kind has none.
    fn suspend(&self, on: bool) -> Result<(), Status> {
        if let Some(annotation) = &self.kind.suspend_annotation {
            let value = if on { json!("true") } else { Value::Null };
            return self.patch(&json!({"metadata": {"annotations": {annotation: value}}}));
        }
        let key = self.planes.key.clone();
        let event = ProjectEvent::Suspension { key, suspended: on };
        self.runtime.role.on_project(&self.runtime.shared, event);
        Ok(())
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
