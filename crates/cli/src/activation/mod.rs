//! Whether the platform lets the project use compute (contract: cli.md §8). A platform that does not tell lets everybody.

mod gate;
mod state;

pub(crate) use gate::{gate, request, wait};
pub(crate) use state::{State, Step};

use crate::{
    error::{Error, Kind},
    plane::{Plane, Resource},
    time::age,
};

/// Reads the state.
pub(crate) async fn read(plane: &Plane) -> Result<State, Error> {
    let entitlements = plane.list(Resource::Entitlements).await?;
    Ok(State::of(&entitlements))
}

/// The state as the end of a command that needs compute.
pub(crate) fn verdict(plane: &Plane, state: &State) -> Result<(), Error> {
    let project = &plane.project;
    let error = match state.step {
        Step::Active => return Ok(()),
        Step::NotRequested => {
            let what = format!("compute is not activated for project {project:?}");
            Error::new(Kind::NotActivated, what).next("kubectl compute activation request --yes")
        }
        Step::Requested => {
            let time = state
                .since
                .map(|since| format!(" (requested {} ago)", age(since, plane.clock.now())))
                .unwrap_or_default();
            let what = format!(
                "Compute is being activated for project {project:?}{time}. Try again shortly, or run: kubectl compute \
                 activation --wait"
            );
            Error::new(Kind::Activating, what)
        }
        Step::Rejected => Error {
            cause: Some(state.message.clone()).filter(|message| !message.is_empty()),
            ..Error::new(
                Kind::Rejected,
                format!("compute was refused for project {project:?}"),
            )
            .next("kubectl compute activation")
        },
    };
    Err(error)
}
