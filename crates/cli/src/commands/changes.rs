//! `scale` and `restart`, and the end that all changes have: a wait for the rollout.

use crate::{
    args::{RestartArgs, ScaleArgs, WaitArgs},
    change::{Intent, Outcome, Session},
    error::Error,
    output::Output,
    plane::Plane,
    rollout::{Target, wait},
};

/// Scales.
pub(crate) async fn scale(plane: &Plane, output: &Output, args: ScaleArgs, yes: bool) -> Result<(), Error> {
    let intent = Intent::Scale {
        minimum: args.min,
        placement: args.placement,
    };
    let session = Session {
        plane,
        output,
        yes,
        dry_run: args.write.dry_run,
        reason: &args.write.reason,
        stdin_used: false,
        save: None,
    };
    let outcome = session.change(&args.name, &intent).await?;
    follow_up(plane, output, &args.name, outcome, &args.wait).await
}

/// Restarts.
pub(crate) async fn restart(
    plane: &Plane,
    output: &Output,
    args: RestartArgs,
    yes: bool,
) -> Result<(), Error> {
    if let Some(city) = &args.city {
        let what = format!(
            "a city alone cannot be restarted: the stamp of {city} would be overwritten by the workload's, and {city} \
             would restart twice"
        );
        return Err(Error::usage(what).next(format!("kubectl compute restart {}", args.name)));
    }
    let session = Session {
        plane,
        output,
        yes,
        dry_run: args.write.dry_run,
        reason: &args.write.reason,
        stdin_used: false,
        save: None,
    };
    let outcome = session.change(&args.name, &Intent::Restart).await?;
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
                let numbers = match (from, revision) {
                    (Some(from), Some(to)) => format!("  rev #{from} -> #{to}"),
                    (None, Some(to)) => format!("  rev #{to}"),
                    (_, None) => String::new(),
                };
                output.remark(&format!("Rolling out workload {name:?}{numbers}"));
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
    wait(plane, output, &target, args.flags()).await
}
