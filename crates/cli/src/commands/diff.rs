//! `diff -f FILE` and `diff NAME --to-revision N`: what `deploy -f` or `rollout undo` would write. Writes nothing.

use crate::{
    args::DiffArgs,
    change::{self, Intent},
    diff,
    effects::{Known, effects},
    error::{Error, Kind},
    manifest,
    output::{Output, table::escape, write},
    plane::{Plane, Resource},
    retry,
    view::{Object, join},
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
    let Compared {
        name,
        live,
        stored,
        deployments,
    } = compared(plane, args).await?;
    let changes = diff::changes(live.as_ref().map(|live| &live.0), &stored.0);
    if args.unified && output.is_text() {
        write(&unified(live.as_ref(), &stored)?)?;
        return end(changes.is_empty());
    }
    let mut joined = live.and_then(|live| join(vec![live], deployments).pop());
    let spec = &stored.0["spec"];
    let known = Known::read(plane, joined.as_mut(), spec).await;
    let effects = effects(joined.as_ref(), spec, &known);
    if output.is_text() {
        let lines = changes
            .iter()
            .map(|change| escape(&change.to_string()))
            .chain(effects.iter().map(|effect| escape(&effect.to_string())));
        let lines: Vec<String> = lines.map(|line| line + "\n").collect();
        write(&lines.concat())?;
    } else {
        let effects: Vec<String> = effects.iter().map(ToString::to_string).collect();
        output.object(
            &json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Diff", "metadata": {"name": name},
            "changes": changes, "effects": effects}),
        )?;
    }
    end(changes.is_empty())
}

fn end(is_same: bool) -> Result<(), Error> {
    if is_same {
        Ok(())
    } else {
        Err(Error::new(Kind::Different, "").shown())
    }
}

/// A Workload, and the one that would be stored.
struct Compared {
    name: String,
    live: Option<Object>,
    stored: Object,
    deployments: Vec<Object>,
}

/// The other side of a comparison.
enum Wish {
    /// The Workload of a file.
    File(Value),
    /// A revision of the Workload of this name.
    Revision(String, u64),
}

async fn compared(plane: &Plane, args: &DiffArgs) -> Result<Compared, Error> {
    let wish = match (&args.name, &args.file) {
        (Some(name), None) => Wish::Revision(name.clone(), args.to_revision),
        (None, Some(file)) => Wish::File(manifest::read(file, &plane.namespace, "diff").await?),
        _ => return Err(misuse()),
    };
    // Nothing is shown yet, so a write of another user since the read only means to read again.
    let attempt = || compare(plane, &wish);
    let retried = attempt.retry(retry::conflicts());
    retried.when(|error| error.kind == Kind::Conflict).await
}

async fn compare(plane: &Plane, wish: &Wish) -> Result<Compared, Error> {
    let (name, live, intent) = match wish {
        Wish::Revision(name, number) => {
            let live = plane.workload(name).await?;
            let intent = change::undo(plane, &live, *number, false).await?;
            (name.clone(), Some(live), intent)
        }
        Wish::File(file) => {
            let name = file["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let live = plane.find(Resource::Workloads, &name).await?;
            (name, live, Intent::File(file.clone()))
        }
    };
    let wanted = intent.wanted(live.as_ref(), plane.clock.now())?;
    let (stored, deployments) = tokio::try_join!(
        plane.store(&wanted, live.is_some(), true),
        plane.list(Resource::Deployments)
    )?;
    Ok(Compared {
        name,
        live,
        stored,
        deployments,
    })
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
    let lines: Vec<String> = text.lines().map(|line| escape(line) + "\n").collect();
    Ok(lines.concat())
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
