//! `destroy`: deletes a Workload and waits until its Instances are gone.

use crate::{
    args::{DestroyArgs, DryRun},
    effects::instances as counted,
    error::{Error, Kind},
    history,
    output::{Output, table::escape, write},
    plane::{Follow, Plane, Resource, Selection},
    prompt::{Answer, Question},
    view::{Counts, Home, Object, join},
};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// The objects that must be gone.
#[derive(Debug)]
struct Doomed {
    name: String,
    uid: String,
    /// UIDs of its Instances.
    instances: BTreeSet<String>,
}

/// Destroys.
pub(crate) async fn run(plane: &Plane, output: &Output, args: &DestroyArgs, yes: bool) -> Result<(), Error> {
    let name = &args.name;
    let workload = if args.ignore_not_found {
        plane.find(Resource::Workloads, name).await?
    } else {
        Some(plane.workload(name).await?)
    };
    let Some(workload) = workload else {
        output.remark(&format!("workload {name:?} does not exist"));
        return Ok(());
    };
    let (deployments, instances) =
        tokio::try_join!(plane.list(Resource::Deployments), plane.list(Resource::Instances))?;
    let own: BTreeSet<String> = instances
        .iter()
        .filter(|instance| Home::of(instance, &deployments).workload == *name)
        .map(|instance| instance.uid().to_owned())
        .collect();
    let doomed = Doomed {
        name: name.clone(),
        uid: workload.uid().to_owned(),
        instances: own,
    };
    let number = i64::try_from(doomed.instances.len()).unwrap_or(i64::MAX);
    show(output, &workload, deployments);
    if args.dry_run != DryRun::None {
        return write(&format!("{} deleted (dry run)\n", title(name)));
    }
    let question = Question {
        text: format!("Delete workload {name:?} and its {}?", counted(number)),
        default: Answer::No,
        asks: "destroy",
        line: output.line.clone(),
    };
    question.confirm(yes).await?;
    plane.delete(&workload).await?;
    if args.wait {
        gone(plane, output, &doomed, args.timeout).await?;
        history::forget(plane, &workload).await;
    }
    write(&format!("{} deleted\n", title(name)))
}

fn title(name: &str) -> String {
    format!("workload.{}/{}", fedgate_api::GROUP, escape(name))
}

fn show(output: &Output, workload: &Object, deployments: Vec<Object>) {
    for joined in join(vec![workload.clone()], deployments) {
        for (city, deployment) in &joined.cities {
            let replicas = deployment.as_ref().map_or(0, |d| Counts::of(d).replicas);
            let line = format!("{}/{}: {}", city.placement, city.city, counted(replicas));
            output.remark(&escape(&line));
        }
    }
}

/// Waits until nothing of the Workload is left.
async fn gone(plane: &Plane, output: &Output, doomed: &Doomed, timeout: Duration) -> Result<(), Error> {
    let begun = Instant::now();
    let mut follow = Follow::start(
        plane,
        &[
            (Resource::Workloads, Selection::Named(doomed.name.clone())),
            (Resource::Deployments, Selection::All),
            (Resource::Instances, Selection::All),
        ],
    )?;
    let mut told = String::new();
    loop {
        let left = timeout.saturating_sub(begun.elapsed());
        let news = tokio::select! {
            news = follow.next() => news?,
            () = tokio::time::sleep(left), if !timeout.is_zero() => {
                let what = format!("workload {:?} is not gone after {timeout:?}: {told}", doomed.name);
                return Err(Error::new(Kind::TimedOut, what)
                    .next(format!("kubectl compute status {}", doomed.name)));
            }
        };
        if let Some(notice) = news.notice() {
            output.remark(&notice);
            continue;
        }
        let Some(text) = doomed.left(&follow) else {
            return Ok(());
        };
        if text != told {
            output.remark(&escape(&text));
            told = text;
        }
    }
}

impl Doomed {
    /// The objects that are left, and the finalizers that hold them; `None` if nothing is.
    fn left(&self, follow: &Follow) -> Option<String> {
        let workloads = follow.objects(Resource::Workloads);
        let workloads = workloads.iter().filter(|workload| workload.uid() == self.uid);
        let deployments = follow.objects(Resource::Deployments);
        let deployments = deployments
            .iter()
            .filter(|deployment| deployment.text("/spec/workloadRef/uid") == self.uid);
        let instances = follow.objects(Resource::Instances);
        let instances = instances
            .iter()
            .filter(|instance| self.instances.contains(instance.uid()));
        let parts = [
            held("workload", workloads),
            held("deployment", deployments),
            held("instance", instances),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("left: {}", parts.join(", ")))
    }
}

/// A number of objects with the finalizers that hold them.
fn held<'a>(noun: &str, objects: impl Iterator<Item = &'a Object>) -> Option<String> {
    let (mut number, mut finalizers) = (0, BTreeSet::new());
    for object in objects {
        number += 1;
        let own = object.list("/metadata/finalizers").iter();
        finalizers.extend(own.filter_map(|finalizer| finalizer.as_str()));
    }
    let s = if number == 1 { "" } else { "s" };
    let held: Vec<&str> = finalizers.into_iter().collect();
    match (number, held.is_empty()) {
        (0, _) => None,
        (_, true) => Some(format!("{number} {noun}{s}")),
        (_, false) => Some(format!("{number} {noun}{s} held by {}", held.join(", "))),
    }
}
