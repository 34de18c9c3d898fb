//! `activation`: whether the project may use compute, and the request for it.

use crate::{
    activation::{State, Step, read, request, verdict, wait},
    args::{ActivationArgs, ActivationCommand},
    error::{Error, Kind},
    output::{Output, escaped},
    plane::Plane,
    time::{age, prose},
};
use serde_json::json;

/// Shows the state, waits for it, or requests compute.
pub(crate) async fn run(
    plane: &Plane,
    output: &Output,
    args: &ActivationArgs,
    yes: bool,
) -> Result<(), Error> {
    let state = match read(plane).await {
        Ok(state) => state,
        // A platform without entitlements lets every project use compute.
        Err(error) if error.kind == Kind::NotServed => {
            output.say("This control plane knows no activation: compute can be used.");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if let Some(ActivationCommand::Request { message }) = &args.command {
        if state.step == Step::NotRequested {
            let state = request(plane, output, message, yes).await?;
            return show(plane, output, &state);
        }
        show(plane, output, &state)?;
        return verdict(plane, &state);
    }
    if !args.wait || state.step == Step::NotRequested {
        show(plane, output, &state)?;
        return if args.wait { verdict(plane, &state) } else { Ok(()) };
    }
    let state = wait(plane, output, state, args.timeout).await?;
    show(plane, output, &state)?;
    if state.step != Step::Requested {
        return verdict(plane, &state);
    }
    let (project, time) = (&plane.project, prose(args.timeout));
    let what = format!("compute is not active for project {project:?} after {time}");
    Err(Error::new(Kind::TimedOut, what).next("kubectl compute activation"))
}

fn show(plane: &Plane, output: &Output, state: &State) -> Result<(), Error> {
    let now = plane.clock.now();
    let since = state.since.map(|since| format!("{} ago", age(since, now)));
    let message = match &*state.message {
        "" => "-",
        message => message,
    };
    let lines = [
        format!("Project  {}", plane.project),
        format!("State    {}", state.word()),
        format!("Since    {}", since.as_deref().unwrap_or("-")),
        format!("Message  {message}"),
    ];
    let object = json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Activation", "metadata": {"name": plane.project},
        "project": plane.project, "state": state.word(), "since": state.since, "message": state.message});
    output.result(&escaped(&lines), &object)
}
