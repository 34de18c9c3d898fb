//! `diff -f FILE`: what `deploy -f` would write. Writes nothing.

use crate::{
    args::DiffArgs,
    diff,
    effects::effects,
    error::{Error, Kind},
    manifest,
    output::{Format, Output, table::escape, write},
    plane::{Compute, Plane},
    view::join,
};
use serde_json::json;

/// Prints the difference; it is an error of its own kind, so that scripts see it by the exit code.
pub(crate) async fn run(plane: &Plane, output: &Output, args: &DiffArgs) -> Result<(), Error> {
    let failed = |error: Error| Error {
        kind: if error.kind == Kind::Failed {
            Kind::DiffFailed
        } else {
            error.kind
        },
        ..error
    };
    let file = manifest::read(&args.file, &plane.namespace, "diff")?;
    let name = file["metadata"]["name"].as_str().unwrap_or_default();
    let (live, deployments) = tokio::try_join!(
        plane.find(Compute::Workloads, name),
        plane.list(Compute::Deployments)
    )
    .map_err(failed)?;
    let wanted = match &live {
        Some(live) => manifest::applied(live, &file),
        None => manifest::created(&file),
    };
    let stored = plane.store(&wanted, live.is_some(), true).await.map_err(failed)?;
    let changes = diff::changes(live.as_ref().map(|live| &live.0), &stored.0);
    let joined = live.and_then(|live| join(vec![live], deployments).pop());
    let effects = effects(joined.as_ref(), &stored.0["spec"]);
    if matches!(output.format, Format::Table | Format::Wide) {
        let lines = changes
            .iter()
            .map(|change| escape(&change.to_string()))
            .chain(effects.iter().map(ToString::to_string));
        let lines: Vec<String> = lines.map(|line| line + "\n").collect();
        write(&lines.concat())?;
    } else {
        let effects: Vec<String> = effects.iter().map(ToString::to_string).collect();
        output.object(
            &json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Diff", "metadata": {"name": name},
            "changes": changes, "effects": effects}),
        )?;
    }
    if changes.is_empty() {
        Ok(())
    } else {
        Err(Error::new(Kind::Different, ""))
    }
}
