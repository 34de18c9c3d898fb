//! Interpreter emitter: the hub's `ResourceInterpreterCustomizations` are those of the federated kinds' folders
//! (contract: federation.md §3.7).

use super::{
    context::{PASSES, Turn},
    world::Role,
};
use crate::engine::{
    diff::Digest,
    error::Failure,
    key::Plane,
    plan::{Effect, Endpoint, Exact, Next, Plan, Target, Write},
};
use parking_lot::Mutex;
use serde_json::Value;
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};
use tokio::time::Instant;

/// Someone who keeps changing an interpreter is answered at most this often.
const RESTORE_EVERY: Duration = Duration::from_mins(1);

/// See the module.
#[derive(Debug, Default)]
pub struct Interpreters {
    restored: Mutex<HashMap<String, Instant>>,
    drift: Mutex<BTreeSet<String>>,
    rivals: Mutex<BTreeSet<String>>,
}

impl Interpreters {
    /// How many interpreters differ from ours or stand beside them.
    pub fn drift(&self) -> usize {
        self.drift.lock().len() + self.rivals.lock().len()
    }

    /// One turn of an interpreter's key.
    pub async fn reconcile(&self, ctx: &Turn<'_>, name: &str) -> Result<Next, Failure> {
        for _ in 0..PASSES {
            let (object, differs, exists, resource) = {
                let world = ctx.world.lock();
                if !world.hub.interpreters.synced() {
                    return Ok(Next::OnEvent);
                }
                let row = world.hub.interpreters.get("", name);
                let Some(kind) = world.kinds.iter().find(|k| k.interpreter.name == name) else {
                    self.rival(&world, name);
                    return Ok(Next::OnEvent);
                };
                let object = kind.interpreter_object();
                let wanted = Digest::of(object.get("spec").unwrap_or(&Value::Null));
                let differs = row.is_none_or(|r| !r.deleting && r.digest.content != wanted);
                (object, differs, row.is_some(), world.resource(Role::Interpreters))
            };
            if !differs {
                self.drift.lock().remove(name);
                return Ok(Next::OnEvent);
            }
            if exists && self.drift.lock().insert(name.to_owned()) {
                tracing::warn!(
                    plane = "hub",
                    controller = "interpreters",
                    name,
                    "interpreter differs from its kind's folder"
                );
            }
            if !ctx.settings.manage_interpreters {
                return Ok(Next::OnEvent);
            }
            if exists && let Some(wait) = self.wait(ctx, name) {
                return Ok(Next::After(wait));
            }
            let effect = Effect {
                target: Target::cluster(Plane::Hub, &resource, name),
                endpoint: Endpoint::Main,
                write: Write::Apply {
                    body: object,
                    exact: Exact::roots(["spec"]),
                },
                reason: if exists {
                    "restore_interpreter"
                } else {
                    "create_interpreter"
                },
            };
            ctx.perform(Plan::one(effect)).await?;
            if exists {
                self.restored.lock().insert(name.to_owned(), ctx.now().instant);
            }
            tracing::info!(
                plane = "hub",
                controller = "interpreters",
                name,
                "interpreter written"
            );
        }
        Ok(Next::OnEvent)
    }

    fn wait(&self, ctx: &Turn<'_>, name: &str) -> Option<Duration> {
        let last = self.restored.lock().get(name).copied()?;
        let wait = RESTORE_EVERY.saturating_sub(ctx.now().since(last));
        (!wait.is_zero()).then_some(wait)
    }

    /// Another interpreter with one of our operations for one of our kinds: reported, never touched.
    fn rival(&self, world: &super::world::World, name: &str) {
        let row = world.hub.interpreters.get("", name);
        let ours = row.and_then(|r| {
            let kind = &world.kinds[r.digest.kind?];
            kind.interpreter
                .scripts
                .iter()
                .any(|(op, _)| r.digest.operations.iter().any(|o| **o == **op))
                .then_some(kind)
        });
        let mut rivals = self.rivals.lock();
        match ours {
            Some(kind) => {
                if rivals.insert(name.to_owned()) {
                    tracing::warn!(
                        plane = "hub",
                        controller = "interpreters",
                        name,
                        kind = kind.resource.kind,
                        "a second interpreter for the kind: remove it, or Karmada may use it instead of ours"
                    );
                }
            }
            None => drop(rivals.remove(name)),
        }
    }
}
