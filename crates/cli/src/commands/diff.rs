//! `diff -f FILE` and `diff NAME --to-revision N`: what `deploy -f` or `rollout undo` would write. Writes nothing.

use super::rollout::undo_intent;
use crate::{
    args::DiffArgs,
    change::Intent,
    diff,
    effects::effects,
    error::{Error, Kind},
    manifest,
    output::{Output, table::escape, write},
    plane::{Plane, Resource},
    view::{Object, join},
};
use serde_json::{Value, json};

/// Prints the difference; it is an error of its own kind, so that scripts see it by the exit code.
pub(crate) async fn run(plane: &Plane, output: &Output, args: &DiffArgs) -> Result<(), Error> {
    let compared = compared(plane, args).await.map_err(|error| Error {
        // 1 is a difference.
        kind: match error.kind {
            Kind::Failed | Kind::NotServed => Kind::DiffFailed,
            kind => kind,
        },
        ..error
    })?;
    let Compared {
        name,
        live,
        stored,
        deployments,
    } = compared;
    let changes = diff::changes(live.as_ref().map(|live| &live.0), &stored.0);
    if args.unified && output.is_text() {
        write(&unified(live.as_ref(), &stored)?)?;
        return end(changes.is_empty());
    }
    let joined = live.and_then(|live| join(vec![live], deployments).pop());
    let effects = effects(joined.as_ref(), &stored.0["spec"]);
    if output.is_text() {
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

async fn compared(plane: &Plane, args: &DiffArgs) -> Result<Compared, Error> {
    let (name, live, wanted) = match (&args.name, &args.file) {
        (Some(name), None) => {
            let live = plane.workload(name).await?;
            let undo = undo_intent(plane, &live, args.to_revision, false).await?;
            let wanted = undo.wanted(Some(&live), plane.clock.now())?;
            (name.clone(), Some(live), wanted)
        }
        (None, Some(file)) => {
            let file = manifest::read(file, &plane.namespace, "diff")?;
            let name = file["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let live = plane.find(Resource::Workloads, &name).await?;
            let wanted = Intent::File(file).wanted(live.as_ref(), plane.clock.now())?;
            (name, live, wanted)
        }
        _ => {
            return Err(
                Error::usage("diff needs -f FILE, or NAME and --to-revision NUMBER")
                    .next("kubectl compute diff --help"),
            );
        }
    };
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
    serde_saphyr::to_string(&compared).map_err(|error| Error::new(Kind::DiffFailed, error.to_string()))
}
