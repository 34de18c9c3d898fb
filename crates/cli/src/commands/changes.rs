//! `scale` and `restart`, and the end that all changes have: a wait for the rollout.

use crate::{
    args::{RestartArgs, ScaleArgs, WaitArgs},
    change::{Intent, Outcome, Session},
    error::Error,
    output::Output,
    plane::Plane,
    rollout::{Target, header, wait},
};

/// Scales.
pub(crate) async fn scale(plane: &Plane, output: &Output, args: ScaleArgs, yes: bool) -> Result<(), Error> {
    let intent = Intent::Scale {
        minimum: args.min,
        placement: args.placement,
    };
    let session = Session::new(plane, output, &args.write, yes);
    let live = plane.workload(&args.name).await?;
    let outcome = session.change(&args.name, Some(live), intent).await?;
    follow_up(plane, output, &args.name, outcome, &args.wait).await
}

/// Refuses the restart of a city alone.
pub(crate) fn check(args: &RestartArgs) -> Result<(), Error> {
    let Some(city) = &args.city else {
        return Ok(());
    };
    let what = format!(
        "a city alone cannot be restarted: the stamp of {city} would be overwritten by the workload's, and {city} would \
         restart twice"
    );
    Err(Error::usage(what).next(format!("kubectl compute restart {}", args.name)))
}

/// Restarts.
pub(crate) async fn restart(
    plane: &Plane,
    output: &Output,
    args: RestartArgs,
    yes: bool,
) -> Result<(), Error> {
    let session = Session::new(plane, output, &args.write, yes);
    let live = plane.workload(&args.name).await?;
    let outcome = session.change(&args.name, Some(live), Intent::Restart).await?;
    follow_up(plane, output, &args.name, outcome, &args.wait).await
}

/// Waits for the rollout of a change, unless nobody wants to.
pub(crate) async fn follow_up(
    plane: &Plane,
    output: &Output,
    name: &str,
    outcome: Outcome,
    args: &WaitArgs,
) -> Result<(), Error> {
    let object = match outcome {
        Outcome::DryRun => return Ok(()),
        Outcome::Unchanged(object) => object,
        Outcome::Written {
            object,
            from,
            revision,
        } => {
            if args.wait {
                output.remark(&header(name, from, revision));
            }
            object
        }
    };
    if !args.wait {
        output.remark(&format!("To follow it: kubectl compute rollout status {name}"));
        return Ok(());
    }
    let target = Target {
        name: name.to_owned(),
        uid: object.uid().to_owned(),
        generation: Some(object.generation()),
    };
    wait(plane, output, &target, args.flags(), false).await
}
