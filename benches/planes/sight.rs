//! What arrives at a plane, and when: watches of the bench itself, so that no measurement polls.

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt,
    core::{ApiResource, DynamicObject},
};
use kube_runtime::{WatchStreamExt, watcher};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, task::JoinHandle};

/// After this long something has gone wrong, whatever is measured.
const LIMIT: Duration = Duration::from_mins(10);

type Test = Box<dyn Fn(Option<&DynamicObject>) -> bool + Send>;
type Name = (String, String);

struct Waiter {
    test: Test,
    tell: oneshot::Sender<Instant>,
}

type Waiters = Arc<Mutex<HashMap<Name, Vec<Waiter>>>>;

/// A watch over all objects of one kind on one plane.
pub(crate) struct Sight {
    label: String,
    waiters: Waiters,
    task: JoinHandle<()>,
}

/// Something that has to be seen.
pub(crate) struct Expected {
    what: String,
    seen: oneshot::Receiver<Instant>,
}

impl Drop for Sight {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sight {
    /// Watches; answers once the first list is complete.
    pub(crate) async fn new(plane: &str, client: Client, resource: &ApiResource) -> Result<Self> {
        let label = format!("{plane}: {}", resource.kind);
        let waiters = Waiters::default();
        let (ready, listed) = oneshot::channel();
        let api: Api<DynamicObject> = Api::all_with(client, resource);
        let held = waiters.clone();
        let task = tokio::spawn(async move {
            let mut ready = Some(ready);
            let mut stream = watcher(api, watcher::Config::default()).default_backoff().boxed();
            while let Some(item) = stream.next().await {
                let now = Instant::now();
                match item {
                    Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                        tell(&held, &object, Some(&object), now);
                    }
                    Ok(watcher::Event::Delete(object)) => tell(&held, &object, None, now),
                    Ok(watcher::Event::InitDone) => {
                        if let Some(ready) = ready.take() {
                            // Nobody listens only while the bench ends.
                            let _ = ready.send(());
                        }
                    }
                    Ok(watcher::Event::Init) | Err(_) => {}
                }
            }
        });
        let listed = tokio::time::timeout(LIMIT, listed).await;
        listed
            .ok()
            .and_then(Result::ok)
            .with_context(|| format!("the bench's own watch of {label} does not start"))?;
        Ok(Self { label, waiters, task })
    }

    /// Announces that the object (`None`: its absence) will be seen in a state that passes `test`. Call it before
    /// whatever leads there.
    pub(crate) fn expect(
        &self,
        namespace: &str,
        name: &str,
        test: impl Fn(Option<&DynamicObject>) -> bool + Send + 'static,
    ) -> Expected {
        let (tell, seen) = oneshot::channel();
        let waiter = Waiter {
            test: Box::new(test),
            tell,
        };
        let key = (namespace.to_owned(), name.to_owned());
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.entry(key).or_default().push(waiter);
        Expected {
            what: format!("{} {namespace}/{name}", self.label),
            seen,
        }
    }
}

fn tell(waiters: &Waiters, about: &DynamicObject, state: Option<&DynamicObject>, now: Instant) {
    let key = (about.namespace().unwrap_or_default(), about.name_any());
    let mut waiters = waiters.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(list) = waiters.get_mut(&key) else { return };
    let (passed, kept): (Vec<Waiter>, Vec<Waiter>) = list.drain(..).partition(|w| (w.test)(state));
    *list = kept;
    if list.is_empty() {
        waiters.remove(&key);
    }
    for waiter in passed {
        let _ = waiter.tell.send(now);
    }
}

impl Expected {
    /// When it was seen.
    pub(crate) async fn seen(self) -> Result<Instant> {
        match tokio::time::timeout(LIMIT, self.seen).await {
            Ok(Ok(at)) => Ok(at),
            Ok(Err(_)) => bail!("the bench's own watch ended before it saw {}", self.what),
            Err(_) => bail!("not seen within {LIMIT:?}: {}", self.what),
        }
    }

    /// How long after `start` it was seen; zero if the event was faster than the answer to the request before it.
    pub(crate) async fn after(self, start: Instant) -> Result<Duration> {
        Ok(self.seen().await?.saturating_duration_since(start))
    }
}
