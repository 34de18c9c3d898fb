//! The check before every command, the request, and the wait for the provider's decision.

use super::{State, Step, read, verdict};
use crate::{
    error::{Error, Kind},
    output::Output,
    plane::{Follow, ListParams, Plane, Resource},
    prompt::{self, Answer, Question},
    time::sleep,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

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
    if state.step != Step::NotRequested {
        return verdict(plane, &state);
    }
    request(plane, output, "", false).await.map(drop)
}

/// Asks the user, requests compute, and waits a little for the decision; returns the state in which compute can be used.
pub(crate) async fn request(
    plane: &Plane,
    output: &Output,
    message: &str,
    yes: bool,
) -> Result<State, Error> {
    if !yes && !prompt::is_terminal() {
        let state = State::new(Step::NotRequested, None);
        return verdict(plane, &state).map(|()| state);
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
    match plane.write(Resource::Entitlements, entitlement, false).await {
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
    let requested = State::new(Step::Requested, Some(plane.clock.now()));
    let state = match wait(plane, output, requested.clone(), PATIENCE).await {
        // The request stands, also if nothing more is heard of it.
        Ok(state) if state.step != Step::NotRequested => state,
        Ok(_) | Err(_) => requested,
    };
    verdict(plane, &state)?;
    Ok(state)
}

/// Waits until the provider has decided, or the time is over; zero for no limit. The state is known so far.
pub(crate) async fn wait(
    plane: &Plane,
    output: &Output,
    known: State,
    timeout: Duration,
) -> Result<State, Error> {
    let limit = Some(timeout).filter(|timeout| !timeout.is_zero());
    let end = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut follow = Follow::start(plane, &[(Resource::Entitlements, ListParams::default())]);
    let mut state = known;
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        tokio::select! {
            changed = follow.changed(|notice| output.remark(notice)) => changed?,
            () = sleep(left) => return Ok(state),
        }
        state = State::of(follow.objects(Resource::Entitlements));
        if matches!(state.step, Step::Active | Step::Rejected) {
            return Ok(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::tests::in_process;
    use fedgate_simulator::{Fault, Rule, Simulator, Verb, When};

    #[tokio::test(start_paused = true)]
    async fn after_a_request_silence_and_refusals_are_no_decision() {
        for (verb, fault) in [
            (Verb::List, Fault::Hang),
            (Verb::List, Fault::Internal),
            (Verb::List, Fault::Forbidden),
            (Verb::Watch, Fault::Unauthorized),
        ] {
            let simulator = Simulator::new(1);
            let server = simulator.add("p");
            let (group, kind, plural) = (
                "services.miloapis.com",
                "ServiceEntitlement",
                "serviceentitlements",
            );
            server.define_plain(group, "v1alpha1", kind, plural, false, true);
            let text = format!("{verb} {fault:?}");
            let rule = Rule::new(When::Always, fault).kind(plural).verb(verb);
            simulator.faults().add(rule);
            let output = Output::quiet();
            let plane = in_process(&simulator, "p");
            let begun = Instant::now();
            let error = request(&plane, &output, "", true).await.unwrap_err();
            assert_eq!(error.kind, Kind::Activating, "{text}");
            assert!(begun.elapsed() <= PATIENCE + Duration::from_secs(1), "{text}");
            assert_eq!(server.count(kind), 1, "{text}");
        }
    }
}
