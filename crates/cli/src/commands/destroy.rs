//! `destroy`: deletes a Workload and waits until its Instances are gone.

use crate::{
    args::{DestroyArgs, DryRun},
    change::print,
    error::{Error, Kind},
    history,
    output::{Output, plural, table::escape},
    plane::{Follow, Plane, Resource},
    prompt::{Answer, Question},
    time::prose,
    view::{Counts, Home, Index, Joined, Object},
};
use fedgate_api::keys::WORKLOAD_UID;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// The objects that must be gone.
#[derive(Debug)]
struct Doomed {
    name: String,
    uid: String,
    /// UIDs of the Instances that the user was shown.
    listed: BTreeSet<String>,
    /// Deployments that were seen. They may be gone before their Instances.
    deployments: Vec<Object>,
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
        output.say(&format!("workload {name:?} does not exist"));
        return Ok(());
    };
    let (deployments, instances) =
        tokio::try_join!(plane.list(Resource::Deployments), plane.list(Resource::Instances))?;
    let mut doomed = Doomed::new(&workload, &deployments, &instances);
    show(output, &workload, deployments);
    let done = format!("deleted{}", args.dry_run.note());
    match args.dry_run {
        DryRun::None => {
            doomed.question(output).confirm(yes).await?;
            let _write = output.writes.begin();
            plane.delete(Resource::Workloads, &workload, false).await?;
        }
        DryRun::Client => return print(output, &workload, &done),
        DryRun::Server => {
            plane.delete(Resource::Workloads, &workload, true).await?;
            return print(output, &workload, &done);
        }
    }
    if args.wait {
        gone(plane, output, &mut doomed, args.timeout).await?;
        history::forget(plane, &workload).await;
    }
    print(output, &workload, &done)
}

fn show(output: &Output, workload: &Object, deployments: Vec<Object>) {
    let joined = Joined::of(workload.clone(), deployments);
    for (city, deployment) in joined.cities.iter().filter(|(city, _)| city.is_known()) {
        let replicas = deployment.as_ref().map_or(0, |d| Counts::of(d).replicas);
        output.say(&escape(&format!("{city}: {}", plural(replicas, "instance"))));
    }
}

/// Waits until nothing of the Workload is left.
async fn gone(plane: &Plane, output: &Output, doomed: &mut Doomed, timeout: Duration) -> Result<(), Error> {
    let begun = Instant::now();
    let mut follow = Follow::workload(plane, &doomed.name);
    let mut reported = String::new();
    loop {
        let left = timeout.saturating_sub(begun.elapsed());
        tokio::select! {
            changed = follow.changed(|notice| output.remark(notice)) => changed?,
            () = tokio::time::sleep(left), if !timeout.is_zero() => {
                let what = format!("workload {:?} is not gone after {}: {reported}", doomed.name, prose(timeout));
                return Err(Error::new(Kind::TimedOut, what)
                    .next(format!("kubectl compute status {}", doomed.name)));
            }
        }
        let Some(text) = doomed.left(&follow) else {
            return Ok(());
        };
        if text != reported {
            output.remark(&escape(&text));
            reported = text;
        }
    }
}

impl Doomed {
    fn new(workload: &Object, deployments: &[Object], instances: &[Object]) -> Self {
        let index = Index::new(&[], deployments);
        let own = instances
            .iter()
            .filter(|instance| Home::of(instance, &index).workload == workload.name());
        let mut doomed = Self {
            name: workload.name().to_owned(),
            uid: workload.uid().to_owned(),
            listed: own.map(|instance| instance.uid().to_owned()).collect(),
            deployments: Vec::new(),
        };
        doomed.see(deployments);
        doomed
    }

    fn question(&self, output: &Output) -> Question {
        let instances = plural(self.listed.len(), "instance");
        Question {
            text: format!("Delete workload {:?} and its {instances}?", self.name),
            default: Answer::No,
            asks: "destroy",
            line: output.line.clone(),
        }
    }

    /// The objects that are left, and the finalizers that hold them; `None` if nothing is.
    fn left(&mut self, follow: &Follow) -> Option<String> {
        let all = follow.all(Resource::Deployments);
        self.see(&all);
        let workloads = follow.all(Resource::Workloads);
        let is_alone = workloads.iter().all(|workload| workload.uid() == self.uid);
        let index = Index::new(&[], &self.deployments);
        let instances = follow.all(Resource::Instances);
        let parts = [
            held(
                "workload",
                workloads.iter().filter(|workload| workload.uid() == self.uid),
            ),
            held("deployment", all.iter().filter(|deployment| self.has(deployment))),
            held(
                "instance",
                instances
                    .iter()
                    .filter(|instance| self.owns(instance, &index, is_alone)),
            ),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("left: {}", parts.join(", ")))
    }

    /// Remembers the Workload's deployments.
    fn see(&mut self, deployments: &[Object]) {
        for deployment in deployments {
            let is_new = self.deployments.iter().all(|seen| seen.uid() != deployment.uid());
            if is_new && self.has(deployment) {
                self.deployments.push(deployment.clone());
            }
        }
    }

    fn has(&self, deployment: &Object) -> bool {
        deployment.text("/spec/workloadRef/uid") == self.uid
    }

    /// True if an Instance is the Workload's. Its deployment or a label tells that; without both it counts by name, unless a
    /// new Workload has that name (`is_alone` is false).
    fn owns(&self, instance: &Object, index: &Index<'_>, is_alone: bool) -> bool {
        if self.listed.contains(instance.uid()) {
            return true;
        }
        let owners = instance.list("/metadata/ownerReferences");
        if !owners.is_empty() {
            let mut uids = owners.iter().filter_map(|owner| owner["uid"].as_str());
            return uids.any(|uid| self.deployments.iter().any(|deployment| deployment.uid() == uid));
        }
        match instance.label(WORKLOAD_UID) {
            "" => is_alone && Home::of(instance, index).workload == self.name,
            uid => uid == self.uid,
        }
    }
}

/// A number of objects with the finalizers that hold them; `None` without objects.
fn held<'a>(noun: &str, objects: impl Iterator<Item = &'a Object>) -> Option<String> {
    let (mut number, mut finalizers) = (0, BTreeSet::new());
    for object in objects {
        number += 1;
        let own = object.list("/metadata/finalizers").iter();
        finalizers.extend(own.filter_map(|finalizer| finalizer.as_str()));
    }
    let finalizers: Vec<&str> = finalizers.into_iter().collect();
    let held = if finalizers.is_empty() { "" } else { " held by " };
    (number > 0).then(|| format!("{}{held}{}", plural(number, noun), finalizers.join(", ")))
}
