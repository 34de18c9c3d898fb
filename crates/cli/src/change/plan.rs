//! The plan of a change, as users see and confirm it.

use super::Intent;
use crate::{
    diff::Change,
    effects::{Effect, Known, effects, instances},
    error::Error,
    output::table::escape,
    plane::{Plane, Resource},
    prompt::{Answer, Question},
    view::{Object, join},
};

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// The changed fields.
    pub(super) changes: Vec<Change>,
    effects: Vec<Effect>,
}

impl Plan {
    /// The plan to make `stored` of the live Workload; `live` is `None` if it does not exist.
    pub(super) async fn new(
        plane: &Plane,
        live: Option<&Object>,
        stored: &Object,
        changes: Vec<Change>,
    ) -> Result<Self, Error> {
        let mut joined = match live {
            Some(live) => join(vec![live.clone()], plane.list(Resource::Deployments).await?).pop(),
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
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let changes = self.changes.iter().map(ToString::to_string);
        let lines = changes.chain(self.effects.iter().map(ToString::to_string));
        lines.map(|line| escape(&line))
    }

    /// The question before it is carried out, if there is one.
    pub(super) fn question(&self, intent: &Intent, line: &str) -> Option<Question> {
        let removed: Vec<String> = self.effects.iter().filter_map(removal).collect();
        let lost: Vec<String> = self.effects.iter().filter_map(loss).collect();
        let (text, default) = match intent {
            Intent::Scale { .. } | Intent::Restart => return None,
            Intent::Undo { target, number, .. } => (
                format!("Apply revision #{} as #{number}?", target.rev),
                Answer::No,
            ),
            Intent::File(_) | Intent::Flags(_) if removed.is_empty() && lost.is_empty() => {
                ("Apply?".to_owned(), Answer::Yes)
            }
            Intent::File(_) | Intent::Flags(_) => {
                let parts = [("removes", removed), ("may remove", lost)];
                let parts = parts.iter().filter(|(_, cities)| !cities.is_empty());
                let parts: Vec<String> = parts
                    .map(|(verb, cities)| format!("{verb} {}", cities.join(", ")))
                    .collect();
                (format!("This {}. Continue?", parts.join(" and ")), Answer::No)
            }
        };
        Some(Question {
            text,
            default,
            asks: intent.asks(),
            line: line.to_owned(),
        })
    }
}

/// `LHR and its 2 instances`.
fn with_instances(city: &str, number: i64) -> String {
    format!("{city} and its {}", instances(number))
}

/// The city with its instances, if the effect removes it.
fn removal(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Removes {
            city,
            instances: number,
        } => Some(with_instances(city, *number)),
        _ => None,
    }
}

/// The same of an effect that may remove a city.
fn loss(effect: &Effect) -> Option<String> {
    match effect {
        Effect::MayRemove {
            city,
            instances: number,
            ..
        } => Some(with_instances(city, *number)),
        _ => None,
    }
}
