//! Whether the platform lets the project use compute (contract: cli.md §8). A platform that does not tell lets everybody.

use crate::{
    args::{ActivationArgs, ActivationCommand},
    error::{Error, Kind},
    output::{Output, escaped},
    plane::{Follow, ListParams, Plane, Resource},
    prompt::{self, Answer, Question},
    time::{age, prose, sleep},
    view::Object,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Names of the service in the reference of an entitlement.
const SERVICE: [&str; 2] = ["compute", "compute.datumapis.com"];

fedgate_api::words! {
    /// The way of a request, in the order of preference.
    enum Step {
        /// Compute was not asked for.
        NotRequested = "NotRequested",
        /// The provider has refused compute.
        Rejected = "Rejected",
        /// Compute was asked for, and nobody has decided.
        Requested = "Requested",
        /// The project may use compute.
        Active = "Active",
    }
}

/// The state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// The step that the request has reached.
    step: Step,
    /// Begin of the state.
    since: Option<Timestamp>,
    /// The provider's words about a refusal.
    message: String,
}

impl State {
    /// A state without words of the provider.
    fn new(step: Step, since: Option<Timestamp>) -> Self {
        Self {
            step,
            since,
            message: String::new(),
        }
    }

    /// The state that these entitlements make; of several the best one counts.
    fn of<'a>(entitlements: impl IntoIterator<Item = &'a Object>) -> Self {
        let own = entitlements
            .into_iter()
            .filter(|entitlement| SERVICE.contains(&entitlement.text("/spec/serviceRef/name")));
        let best = own.map(Self::one).max();
        best.unwrap_or_else(|| Self::new(Step::NotRequested, None))
    }

    fn one(entitlement: &Object) -> Self {
        let ready = entitlement.condition("Ready");
        let decided = ready.and_then(|ready| ready.since);
        let phase = entitlement.text("/status/phase");
        if phase == "Active" || ready.is_some_and(|ready| ready.holds()) {
            return Self::new(Step::Active, decided);
        }
        if phase != "Rejected" {
            return Self::new(Step::Requested, entitlement.created());
        }
        let message = match entitlement.text("/status/message") {
            "" => ready.map(|ready| ready.message).unwrap_or_default(),
            own => own,
        };
        Self {
            message: message.to_owned(),
            ..Self::new(Step::Rejected, decided)
        }
    }
}

/// Reads the state.
async fn read(plane: &Plane) -> Result<State, Error> {
    let entitlements = plane.list(Resource::Entitlements).await?;
    Ok(State::of(&entitlements))
}

/// The state as the end of a command that needs compute.
fn verdict(plane: &Plane, state: &State) -> Result<(), Error> {
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
async fn request(plane: &Plane, output: &Output, message: &str, yes: bool) -> Result<State, Error> {
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
async fn wait(plane: &Plane, output: &Output, known: State, timeout: Duration) -> Result<State, Error> {
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
        format!("State    {}", state.step.as_str()),
        format!("Since    {}", since.as_deref().unwrap_or("-")),
        format!("Message  {message}"),
    ];
    let object = json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Activation", "metadata": {"name": plane.project},
        "project": plane.project, "state": state.step.as_str(), "since": state.since, "message": state.message});
    output.result(&escaped(&lines), &object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::tests::in_process;
    use fedgate_simulator::{Fault, Rule, Simulator, Verb, When};

    fn entitlement(service: &str, status: &Value) -> Object {
        Object(
            json!({"metadata": {"name": "compute", "creationTimestamp": "2030-01-01T00:00:00Z"},
            "spec": {"serviceRef": {"name": service}}, "status": status}),
        )
    }

    #[test]
    fn each_row_of_the_table_of_states() {
        let word = |status: Value| State::of(&[entitlement("compute", &status)]).step.as_str();
        assert_eq!(State::of([]).step.as_str(), "NotRequested");
        assert_eq!(word(json!({})), "Requested", "also without a phase");
        assert_eq!(word(json!({"phase": "PendingApproval"})), "Requested");
        assert_eq!(word(json!({"phase": "Active"})), "Active");
        assert_eq!(
            word(json!({"conditions": [{"type": "Ready", "status": "True"}]})),
            "Active"
        );
        let rejected = State::of(&[entitlement(
            "compute.datumapis.com",
            &json!({"phase": "Rejected", "conditions": [{"type": "Ready", "status": "False", "message": "no credit"}]}),
        )]);
        assert_eq!(
            (rejected.step.as_str(), &*rejected.message),
            ("Rejected", "no credit")
        );
    }

    #[test]
    fn other_services_do_not_count_and_the_best_of_several_does() {
        let active = json!({"phase": "Active"});
        assert_eq!(State::of(&[entitlement("dns", &active)]).step, Step::NotRequested);
        let two = [
            entitlement("compute", &json!({"phase": "Rejected"})),
            entitlement("compute.datumapis.com", &active),
        ];
        assert_eq!(State::of(&two).step.as_str(), "Active");
    }

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
            let output = Output {
                quiet: true,
                ..Output::default()
            };
            let plane = in_process(&simulator, "p");
            let begun = Instant::now();
            let error = request(&plane, &output, "", true).await.unwrap_err();
            assert_eq!(error.kind, Kind::Activating, "{text}");
            assert!(begun.elapsed() <= PATIENCE + Duration::from_secs(1), "{text}");
            assert_eq!(server.count(kind), 1, "{text}");
        }
    }
}
