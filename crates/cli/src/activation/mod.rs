//! Whether the platform lets the project use compute (contract: cli.md §8). A platform that does not tell lets everybody.

mod gate;
mod state;

pub(crate) use gate::{gate, request, wait};
pub(crate) use state::State;

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
    match state {
        State::Active { .. } => Ok(()),
        State::NotRequested => Err(Error::new(
            Kind::NotActivated,
            format!("compute is not activated for project {project:?}"),
        )
        .next("kubectl compute activation request --yes")),
        State::Requested { since } => {
            let time = since
                .map(|since| format!(" (requested {} ago)", age(since, plane.clock.now())))
                .unwrap_or_default();
            let what = format!(
                "Compute is being activated for project {project:?}{time}. Try again shortly, or run: kubectl compute \
                 activation --wait"
            );
            Err(Error::new(Kind::Activating, what))
        }
        State::Rejected { message, .. } => {
            let error = Error::new(
                Kind::Rejected,
                format!("compute was refused for project {project:?}"),
            );
            let error = error.next("kubectl compute activation");
            Err(if message.is_empty() {
                error
            } else {
                error.because(message)
            })
        }
    }
}
