//! Annotations of Projects by which a test changes how the stand-in behaves.
//!
//! | annotation | effect |
//! |---|---|
//! | `sandbox.fedgate.dev/not-ready: "true"` | condition `Ready` is False |
//! | `sandbox.fedgate.dev/hang: "true"` | requests to the project are not answered until the annotation goes |
//! | `sandbox.fedgate.dev/initializing: "<n>"` | the first n requests for objects of the project find its storage initializing |
//! | `sandbox.fedgate.dev/suspend: "<reason>"` | the project is suspended |
//! | `sandbox.fedgate.dev/drain: "true"` | its purge forces nothing, and waits for every object |

use kube::{ResourceExt, core::DynamicObject};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::sync::watch;

const NOT_READY: &str = "sandbox.fedgate.dev/not-ready";
const HANG: &str = "sandbox.fedgate.dev/hang";
const INITIALIZING: &str = "sandbox.fedgate.dev/initializing";
const SUSPEND: &str = "sandbox.fedgate.dev/suspend";
const DRAIN: &str = "sandbox.fedgate.dev/drain";

/// The switches of one life of a Project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) not_ready: bool,
    pub(super) hangs: bool,
    /// Whether its purge waits for every object.
    pub(super) drains: bool,
    /// Why it is suspended.
    pub(super) suspended: Option<String>,
    initializing: u32,
}

impl Settings {
    /// Reads the annotations.
    pub(super) fn of(project: &DynamicObject) -> Self {
        let value = |key: &str| project.annotations().get(key).map(String::as_str);
        Self {
            not_ready: value(NOT_READY) == Some("true"),
            hangs: value(HANG) == Some("true"),
            drains: value(DRAIN) == Some("true"),
            suspended: value(SUSPEND).map(str::to_owned),
            initializing: value(INITIALIZING)
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
        }
    }
}

struct Life {
    uid: Option<String>,
    settings: Settings,
    /// Requests that have found the storage initializing.
    refused: u32,
}

/// The switches of all Projects.
pub(super) struct Switches {
    lives: Mutex<BTreeMap<String, Life>>,
    changed: watch::Sender<()>,
}

impl Switches {
    pub(super) fn new() -> Self {
        Self {
            lives: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Takes what the Project says now.
    pub(super) fn put(&self, project: &DynamicObject) {
        let settings = Settings::of(project);
        let mut lives = self.lives.lock();
        let refused = lives
            .get(&project.name_any())
            .filter(|life| life.uid == project.metadata.uid)
            .map_or(0, |life| life.refused);
        let life = Life {
            uid: project.metadata.uid.clone(),
            settings,
            refused,
        };
        lives.insert(project.name_any(), life);
        drop(lives);
        self.changed.send_replace(());
    }

    /// The Project is gone.
    pub(super) fn remove(&self, name: &str) {
        self.lives.lock().remove(name);
        self.changed.send_replace(());
    }

    /// Waits for as long as the project hangs.
    pub(super) async fn answers(&self, name: &str) {
        let hangs = |(): &()| {
            let lives = self.lives.lock();
            !lives.get(name).is_some_and(|life| life.settings.hangs)
        };
        // The sender lives as long as this does.
        let _ = self.changed.subscribe().wait_for(hangs).await;
    }

    /// Whether this request finds the storage initializing; it is counted.
    pub(super) fn initializes(&self, name: &str) -> bool {
        let mut lives = self.lives.lock();
        let Some(life) = lives.get_mut(name) else {
            return false;
        };
        let initializes = life.refused < life.settings.initializing;
        life.refused += u32::from(initializes);
        initializes
    }

    /// Whether the project is suspended.
    pub(super) fn is_suspended(&self, name: &str) -> bool {
        let lives = self.lives.lock();
        lives
            .get(name)
            .is_some_and(|life| life.settings.suspended.is_some())
    }
}
