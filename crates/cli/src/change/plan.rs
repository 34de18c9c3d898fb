//! The plan of a change, as users see and confirm it.

use super::Intent;
use crate::{
    diff::Change,
    effects::{Effect, Known, effects},
    error::Error,
    output::plural,
    plane::{Plane, Resource},
    prompt::{Answer, Question},
    view::{Joined, Object},
};

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// The changed fields.
    pub(crate) changes: Vec<Change>,
    /// The effects on Instances.
    pub(crate) effects: Vec<Effect>,
}

impl Plan {
    /// The plan to make `stored` of the live Workload; `live` is `None` if it does not exist.
    pub(crate) async fn new(
        plane: &Plane,
        live: Option<&Object>,
        stored: &Object,
        changes: Vec<Change>,
    ) -> Result<Self, Error> {
        let mut joined = match live {
            Some(live) => Some(Joined::of(live.clone(), plane.list(Resource::Deployments).await?)),
            None => None,
        };
        let spec = &stored.0["spec"];
        let known = Known::read(plane, joined.as_mut(), spec).await;
        Ok(Self {
            changes,
            effects: effects(joined.as_ref(), spec, &known),
        })
    }

    /// The lines that show it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let changes = self.changes.iter().map(ToString::to_string);
        changes
            .chain(self.effects.iter().map(ToString::to_string))
            .collect()
    }

    /// The question before it is carried out.
    pub(super) fn question(&self, intent: &Intent, line: &str) -> Question {
        let (mut removed, mut lost) = (Vec::new(), Vec::new());
        for effect in &self.effects {
            match effect {
                Effect::Removes {
                    city,
                    instances: number,
                } => {
                    removed.push(format!("{city} and its {}", plural(*number, "instance")));
                }
                Effect::MayRemove {
                    city,
                    instances: number,
                    ..
                } => {
                    lost.push(format!("{city} and its {}", plural(*number, "instance")));
                }
                _ => {}
            }
        }
        let parts = [("removes", removed), ("may remove", lost)];
        let parts = parts.iter().filter(|(_, cities)| !cities.is_empty());
        let parts: Vec<String> = parts
            .map(|(verb, cities)| format!("{verb} {}", cities.join(", ")))
            .collect();
        let (asks, text, default) = match intent.undone() {
            Some((target, number)) => {
                let text = format!("Apply revision #{} as #{number}?", target.rev);
                ("rollout undo", text, Answer::No)
            }
            None if parts.is_empty() => ("deploy", "Apply?".to_owned(), Answer::Yes),
            None => (
                "deploy",
                format!("This {}. Continue?", parts.join(" and ")),
                Answer::No,
            ),
        };
        Question {
            text,
            default,
            asks,
            line: line.to_owned(),
        }
    }
}
