//! The wishes of a user, and the Workload that each of them makes of the live one.

use crate::{
    args::DeployFlags,
    error::{Error, Kind},
    history::{self, Revision, Verb},
    manifest::{self, RESTARTED_AT, field_mut},
    plane::Plane,
    view::Object,
};
use jiff::{Timestamp, ToSpan, Unit};
use serde_json::{Value, json};

/// Bounds of the number of Instances in a city (contract: api.md §6).
const REPLICAS: std::ops::RangeInclusive<i64> = 1..=1000;

/// A wish.
#[derive(Debug, Clone)]
pub(crate) enum Intent {
    /// The Workload of a file.
    File(Value),
    /// Fields named by flags, of the Workload of this name and namespace.
    Flags {
        flags: Box<DeployFlags>,
        name: String,
        namespace: String,
    },
    /// A number of Instances in each city of a placement, or of all.
    Scale { minimum: i64, placement: Option<String> },
    /// New Instances with the same template.
    Restart,
    /// Pauses or resumes the rollouts of one placement, or of all placements.
    SetPaused { paused: bool, placement: Option<String> },
    /// The spec of a revision.
    Undo {
        target: Box<Revision>,
        keep_scale: bool,
        /// Number of the revision that undoing makes.
        number: u64,
    },
}

impl Intent {
    /// The wish to go back to a revision; 0 for the newest one that differs from the live Workload.
    pub(crate) async fn undo(
        plane: &Plane,
        workload: &Object,
        to_revision: u64,
        keep_scale: bool,
    ) -> Result<Self, Error> {
        let name = workload.name();
        let history = history::load(plane, workload).await?;
        let target = if to_revision > 0 {
            history.revision(name, to_revision)?
        } else {
            history.previous(workload).ok_or_else(|| {
                let what = format!("workload {name:?} has no earlier revision");
                Error::new(Kind::NotFound, what).next(format!("kubectl compute rollout history {name}"))
            })?
        };
        Ok(Self::Undo {
            target: Box::new(target.clone()),
            keep_scale,
            number: history.next_number(workload),
        })
    }

    /// The verb in the history.
    pub(crate) fn verb(&self) -> Verb {
        match self {
            Self::File(_) => Verb::Apply,
            Self::Flags { .. } => Verb::Deploy,
            Self::Scale { .. } => Verb::Scale,
            Self::Restart => Verb::Restart,
            Self::SetPaused { paused: true, .. } => Verb::Pause,
            Self::SetPaused { paused: false, .. } => Verb::Resume,
            Self::Undo { .. } => Verb::Undo,
        }
    }

    /// The revision that is copied, and the number of the revision that this makes.
    pub(crate) fn undone(&self) -> Option<(&Revision, u64)> {
        match self {
            Self::Undo { target, number, .. } => Some((target, *number)),
            Self::File(_)
            | Self::Flags { .. }
            | Self::Scale { .. }
            | Self::Restart
            | Self::SetPaused { .. } => None,
        }
    }

    /// True if a Workload that does not exist is created.
    pub(crate) fn creates(&self) -> bool {
        matches!(self, Self::File(_) | Self::Flags { .. })
    }

    /// True if the wish holds whatever others have changed meanwhile. Its plan is neither shown nor confirmed.
    pub(crate) fn is_relative(&self) -> bool {
        matches!(self, Self::Scale { .. } | Self::Restart | Self::SetPaused { .. })
    }

    /// The Workload that is wanted. `now` is the server's time.
    pub(crate) fn wanted(&self, live: Option<&Object>, now: Timestamp) -> Result<Value, Error> {
        let Some(live) = live else {
            return match self {
                Self::File(file) => Ok(manifest::created(file)),
                Self::Flags {
                    flags,
                    name,
                    namespace,
                } => flags.created(name, namespace),
                Self::Scale { .. } | Self::Restart | Self::SetPaused { .. } | Self::Undo { .. } => {
                    Err(Error::new(Kind::NotFound, "the workload is gone"))
                }
            };
        };
        let mut wanted = manifest::without_status(live);
        match self {
            Self::File(file) => return Ok(manifest::applied(live, file)),
            Self::Flags { flags, name, .. } => flags.apply(name, &mut wanted)?,
            Self::Scale { minimum, placement } => {
                scale(&mut wanted, live.name(), *minimum, placement.as_deref())?;
            }
            Self::SetPaused { paused, placement } => {
                for placement in named_or_all(&mut wanted, live.name(), placement.as_deref())? {
                    set_paused(placement, *paused);
                }
            }
            Self::Restart => {
                *field_mut(&mut wanted, &manifest::RESTART) = json!(stamp(live, now));
            }
            Self::Undo {
                target, keep_scale, ..
            } => go_back(&mut wanted, live, target, *keep_scale)?,
        }
        Ok(wanted)
    }
}

/// Refuses a minimum that no placement can have.
pub(crate) fn check_minimum(minimum: i64) -> Result<(), Error> {
    if REPLICAS.contains(&minimum) {
        Ok(())
    } else {
        Err(Error::usage(format!("--min {minimum} is not within 1 and 1000")))
    }
}

/// Paths of the lists whose items flags name.
pub(super) const PLACEMENTS: &str = "/spec/placements";
/// The containers of a sandbox.
pub(crate) const CONTAINERS: &str = "/spec/template/spec/runtime/sandbox/containers";

/// The items of a list; none if it does not exist.
pub(super) fn items_mut<'a>(workload: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    let list = workload.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.map(Vec::as_mut_slice).unwrap_or_default()
}

/// Position of the item that `--<noun>` names, or of the only one.
pub(super) fn chosen(
    items: &[Value],
    workload: &str,
    name: Option<&str>,
    noun: &str,
) -> Result<usize, Error> {
    let names: Vec<&str> = items.iter().filter_map(|item| item["name"].as_str()).collect();
    let names = names.join(", ");
    let what = match name {
        _ if items.is_empty() => return Err(none(workload, noun)),
        Some(name) => {
            if let Some(at) = items.iter().position(|item| item["name"] == name) {
                return Ok(at);
            }
            format!("workload {workload:?} has no {noun} {name:?}; it has {names}")
        }
        None if items.len() == 1 => return Ok(0),
        None => format!("workload {workload:?} has several: --{noun} must name one of {names}"),
    };
    Err(Error::usage(what).next(format!("kubectl compute status {workload}")))
}

fn none(workload: &str, noun: &str) -> Error {
    Error::new(Kind::Failed, format!("workload {workload:?} has no {noun}s"))
}

/// Sets the minimum of a placement, or of all.
pub(super) fn scale(
    workload: &mut Value,
    name: &str,
    minimum: i64,
    placement: Option<&str>,
) -> Result<(), Error> {
    check_minimum(minimum)?;
    let mut placements = named_or_all(workload, name, placement)?.iter_mut();
    placements.try_for_each(|placement| set_minimum(placement, minimum))
}

/// The placement of this name, or all.
fn named_or_all<'a>(
    workload: &'a mut Value,
    name: &str,
    placement: Option<&str>,
) -> Result<&'a mut [Value], Error> {
    let placements = items_mut(workload, PLACEMENTS);
    match placement {
        Some(placement) => {
            let at = chosen(placements, name, Some(placement), "placement")?;
            Ok(&mut placements[at..=at])
        }
        None if placements.is_empty() => Err(none(name, "placement")),
        None => Ok(placements),
    }
}

/// Sets or removes `rollout.paused`. A placement without `rollout` also gets `maxSurge: 0`, because an absent `maxSurge` means 1.
fn set_paused(placement: &mut Value, paused: bool) {
    if paused {
        let settings = field_mut(placement, &["scaleSettings", "rollout"]);
        if settings.is_null() {
            *settings = json!({"maxSurge": 0});
        }
        settings["paused"] = json!(true);
    } else if let Some(settings) = placement
        .pointer_mut("/scaleSettings/rollout")
        .and_then(Value::as_object_mut)
    {
        settings.remove("paused");
    }
}

/// Sets the minimum of a placement.
pub(super) fn set_minimum(placement: &mut Value, minimum: i64) -> Result<(), Error> {
    let own = placement["name"].as_str().unwrap_or_default();
    if let Some(maximum) = placement["scaleSettings"]["maxReplicas"].as_i64()
        && minimum > maximum
    {
        let what = format!("placement {own:?} has maxReplicas {maximum}; --min {minimum} is above it");
        return Err(Error::usage(what).next("kubectl compute deploy -f FILE"));
    }
    *field_mut(placement, &["scaleSettings", "minReplicas"]) = json!(minimum);
    Ok(())
}

/// The time of a restart: the server's, or one second after the last one, so that two stamps always differ.
fn stamp(live: &Object, now: Timestamp) -> String {
    let now = now.round(Unit::Second).unwrap_or(now);
    let annotations = live.0.pointer("/spec/template/metadata/annotations");
    let last = annotations.and_then(|all| all[RESTARTED_AT].as_str()?.parse::<Timestamp>().ok());
    let after = last.and_then(|last| last.checked_add(1.second()).ok());
    after.map_or(now, |after| after.max(now)).to_string()
}

/// Takes over the spec of a revision.
fn go_back(wanted: &mut Value, live: &Object, target: &Revision, keep_scale: bool) -> Result<(), Error> {
    let spec = field_mut(wanted, &["spec"]);
    match &target.spec {
        Some(kept) => *spec = kept.clone(),
        // The hash of a spec that is too large is kept.
        None if target.spec_hash == history::hash(spec) => return Ok(()),
        None => {
            let what = format!("revision #{} is too large to undo", target.rev);
            return Err(Error::new(Kind::NotFound, what)
                .next(format!("kubectl compute rollout history {}", live.name())));
        }
    }
    if keep_scale {
        keep_scales(wanted, live);
    }
    Ok(())
}

/// Puts the live scale settings back into placements that both have.
fn keep_scales(wanted: &mut Value, live: &Object) {
    for placement in items_mut(wanted, PLACEMENTS) {
        let mut before = live.list("/spec/placements").iter();
        let before = before.find(|before| before["name"] == placement["name"]);
        let (Some(before), Some(fields)) = (before, placement.as_object_mut()) else {
            continue;
        };
        match before.get("scaleSettings") {
            Some(scale) => fields.insert("scaleSettings".to_owned(), scale.clone()),
            None => fields.remove("scaleSettings"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Object {
        Object(
            json!({"metadata": {"name": "web"}, "spec": {"template": {}, "placements": [
            {"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1, "maxReplicas": 6}},
            {"name": "eu", "cityCodes": ["LHR"], "scaleSettings": {"minReplicas": 1}}]}}),
        )
    }

    fn minima(workload: &Value) -> Vec<i64> {
        let placements = workload["spec"]["placements"].as_array().unwrap();
        placements
            .iter()
            .map(|p| p["scaleSettings"]["minReplicas"].as_i64().unwrap())
            .collect()
    }

    #[test]
    fn scale_sets_one_placement_or_all_and_keeps_to_the_limits() {
        let to = |minimum, placement: Option<&str>| {
            let intent = Intent::Scale {
                minimum,
                placement: placement.map(str::to_owned),
            };
            let wanted = intent.wanted(Some(&live()), Timestamp::UNIX_EPOCH);
            wanted.map(|wanted| minima(&wanted)).map_err(|error| error.what)
        };
        assert_eq!(to(3, None).unwrap(), [3, 3]);
        assert_eq!(to(3, Some("eu")).unwrap(), [1, 3]);
        assert_eq!(
            to(8, None).unwrap_err(),
            "placement \"us\" has maxReplicas 6; --min 8 is above it"
        );
        assert_eq!(to(0, None).unwrap_err(), "--min 0 is not within 1 and 1000");
        assert_eq!(
            to(1, Some("asia")).unwrap_err(),
            "workload \"web\" has no placement \"asia\"; it has us, eu"
        );
    }

    #[test]
    fn a_pause_and_its_end_leave_the_other_settings() {
        let mut live = live();
        live.0["spec"]["placements"][1]["scaleSettings"]["rollout"] = json!({"maxSurge": "50%"});
        let set = |live: &Object, paused, placement: Option<&str>| {
            let placement = placement.map(str::to_owned);
            let intent = Intent::SetPaused { paused, placement };
            intent.wanted(Some(live), Timestamp::UNIX_EPOCH).unwrap()
        };
        let of = |workload: &Value| {
            [0, 1].map(|at| workload["spec"]["placements"][at]["scaleSettings"]["rollout"].clone())
        };
        let paused = set(&live, true, None);
        assert_eq!(
            of(&paused),
            [
                json!({"maxSurge": 0, "paused": true}),
                json!({"maxSurge": "50%", "paused": true})
            ]
        );
        let resumed = set(&Object(paused), false, Some("eu"));
        assert_eq!(
            of(&resumed),
            [json!({"maxSurge": 0, "paused": true}), json!({"maxSurge": "50%"})]
        );
    }

    #[test]
    fn two_restarts_in_a_second_have_two_stamps() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let once = Intent::Restart.wanted(Some(&live()), now).unwrap();
        let twice = Intent::Restart.wanted(Some(&Object(once.clone())), now).unwrap();
        let of = |workload: &Value| {
            workload["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            (of(&once), of(&twice)),
            (
                "2027-01-15T08:00:00Z".to_owned(),
                "2027-01-15T08:00:01Z".to_owned()
            )
        );
    }
}
