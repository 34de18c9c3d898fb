//! `diff -f FILE` and `diff NAME --to-revision N`: what `deploy -f` or `rollout undo` would write. Writes nothing.

use crate::{
    args::DiffArgs,
    change::{Intent, Plan},
    diff,
    error::{Error, Kind},
    manifest,
    output::{Output, escaped, write},
    plane::{Plane, Resource},
    retry,
    view::Object,
};
use backon::Retryable;
use serde_json::{Value, json};

/// Refuses a line with neither side of a comparison.
pub(crate) fn check(args: &DiffArgs) -> Result<(), Error> {
    if args.name.is_none() && args.file.is_none() {
        Err(misuse())
    } else {
        Ok(())
    }
}

fn misuse() -> Error {
    Error::usage("diff needs -f FILE, or NAME and --to-revision NUMBER").next("kubectl compute diff --help")
}

/// Prints the difference; it is an error of its own kind, so that scripts see it by the exit code.
pub(crate) async fn run(plane: &Plane, output: &Output, args: &DiffArgs) -> Result<(), Error> {
    let file = match &args.file {
        Some(file) => Some(manifest::read(file, &plane.namespace, "diff").await?),
        None => None,
    };
    // Nothing is shown yet, so a write of another user since the read only means to read again.
    let attempt = || compare(plane, args, file.as_ref());
    let retried = attempt.retry(retry::conflicts());
    let is_overtaken = |error: &Error| error.kind == Kind::Conflict;
    let (live, stored) = retried.when(is_overtaken).await?;
    let changes = diff::changes(live.as_ref().map(|live| &live.0), &stored.0);
    let is_same = changes.is_empty();
    if args.unified && output.is_text() {
        write(&unified(live.as_ref(), &stored)?)?;
    } else {
        let plan = Plan::new(plane, live.as_ref(), &stored, changes).await?;
        let effects: Vec<String> = plan.effects.iter().map(|effect| effect.text.clone()).collect();
        let object = json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Diff", "metadata": {"name": stored.name()},
            "changes": plan.changes, "effects": effects});
        output.result(&escaped(&plan.lines()), &object)?;
    }
    if is_same {
        return Ok(());
    }
    Err(Error::new(Kind::Different, "").shown())
}

/// The live Workload, and the one that would be stored.
async fn compare(
    plane: &Plane,
    args: &DiffArgs,
    file: Option<&Value>,
) -> Result<(Option<Object>, Object), Error> {
    let (live, intent) = match (&args.name, file) {
        (Some(name), _) => {
            let live = plane.workload(name).await?;
            let intent = Intent::undo(plane, &live, args.to_revision, false).await?;
            (Some(live), intent)
        }
        (None, Some(file)) => {
            let name = file["metadata"]["name"].as_str().unwrap_or_default();
            let live = plane.find(Resource::Workloads, name).await?;
            (live, Intent::File(file.clone()))
        }
        (None, None) => return Err(misuse()),
    };
    let wanted = intent.wanted(live.as_ref(), plane.clock.now())?;
    let stored = plane.store(&wanted, live.is_some(), true).await?;
    Ok((live, stored))
}

/// The difference as lines of YAML, with three lines around each.
fn unified(live: Option<&Object>, stored: &Object) -> Result<String, Error> {
    let before = live.map(yaml).transpose()?.unwrap_or_default();
    let after = yaml(stored)?;
    let diff = similar::TextDiff::from_lines(&before, &after);
    let text = diff
        .unified_diff()
        .context_radius(3)
        .header("live", "wanted")
        .to_string();
    Ok(escaped(&text.lines().map(str::to_owned).collect::<Vec<_>>()))
}

/// The part of an object that is compared, as YAML.
fn yaml(object: &Object) -> Result<String, Error> {
    let part = |pointer: &str| object.0.pointer(pointer).cloned().unwrap_or(Value::Null);
    let compared = json!({
        "metadata": {"labels": part("/metadata/labels"), "annotations": part("/metadata/annotations")},
        "spec": part("/spec"),
    });
    serde_saphyr::to_string(&compared).map_err(|error| Error::new(Kind::Failed, error.to_string()))
}
