//! The check before every command, the request, and the wait for the provider's decision.

use super::{State, read, verdict};
use crate::{
    error::{Error, Kind},
    output::Output,
    plane::{Follow, Plane, Resource, Selection},
    prompt::{self, Answer, Question},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The longest time that the check may cost: it must not become a new point of failure.
const CHECK: Duration = Duration::from_secs(5);

/// Time for which a request is waited for, before the command ends with it under way.
const PATIENCE: Duration = Duration::from_secs(15);

/// Name of the entitlement that a request makes.
const NAME: &str = "compute";

/// Lets a command go on if the project may use compute, or the platform does not tell; asks to request it otherwise.
pub(crate) async fn gate(plane: &Plane, output: &Output) -> Result<(), Error> {
    let Ok(Ok(state)) = tokio::time::timeout(CHECK, read(plane)).await else {
        return Ok(());
    };
    if state != State::NotRequested {
        return verdict(plane, &state);
    }
    request(plane, output, "", false).await
}

/// Asks the user, requests compute, and waits a little for the decision.
pub(crate) async fn request(plane: &Plane, output: &Output, message: &str, yes: bool) -> Result<(), Error> {
    if !yes && !prompt::is_terminal() {
        return verdict(plane, &State::NotRequested);
    }
    let question = Question {
        text: format!(
            "Compute is not activated for project {:?}. Request it now?",
            plane.project
        ),
        default: Answer::No,
        asks: "activation request",
        line: output.line.clone(),
    };
    question.confirm(yes).await?;
    let mut entitlement = json!({"metadata": {"name": NAME}, "spec": {"serviceRef": {"name": NAME}}});
    if !message.is_empty() {
        entitlement["spec"]["requestMessage"] = Value::from(message);
    }
    match plane.create(Resource::Entitlements, entitlement).await {
        // Another user was faster: it is requested.
        Err(error) if error.kind == Kind::Conflict => {}
        Err(error) if error.kind == Kind::Forbidden => {
            let what = format!("you may not request compute for project {:?}", plane.project);
            return Err(Error { what, ..error }.next("kubectl compute activation"));
        }
        result => {
            result?;
            output.remark("Requested.");
        }
    }
    let state = wait(plane, output, PATIENCE).await?;
    verdict(plane, &state)
}

/// Waits until the provider has decided, or the time is over; zero for no limit.
pub(crate) async fn wait(plane: &Plane, output: &Output, timeout: Duration) -> Result<State, Error> {
    let begun = Instant::now();
    let mut follow = Follow::start(plane, &[(Resource::Entitlements, Selection::All)])?;
    let mut state = State::NotRequested;
    loop {
        let left = timeout.saturating_sub(begun.elapsed());
        let news = tokio::select! {
            news = follow.next() => news?,
            () = tokio::time::sleep(left), if !timeout.is_zero() => return Ok(state),
        };
        if let Some(notice) = news.notice() {
            output.remark(&notice);
            continue;
        }
        state = State::of(&follow.objects(Resource::Entitlements));
        if matches!(state, State::Active { .. } | State::Rejected { .. }) {
            return Ok(state);
        }
    }
}
