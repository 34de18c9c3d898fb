//! `workloads describe` and `instances describe`: one object in full, as text for people.

mod instance;
mod runtime;
mod workload;

use super::instances::index;
use crate::{
    error::Error,
    history::active,
    output::{Output, served, table::escape, write},
    plane::{Plane, Resource, nearest},
    rollout::{Cities, Locations},
    view::{Home, Joined, Object},
};
use std::fmt::Write;

/// Describes a Workload.
pub(crate) async fn workload(plane: &Plane, output: &Output, name: &str) -> Result<(), Error> {
    let workload = plane.workload(name).await?;
    if !output.is_text() {
        return output.object(&served(&workload));
    }
    let (deployments, revision) = tokio::join!(plane.list(Resource::Deployments), active(plane, &workload));
    let mut joined = Joined::of(workload, deployments?);
    Locations::default().look_up(plane, &mut joined).await;
    write(&workload::text(&joined, revision.as_ref(), plane.clock.now()))
}

/// Describes an Instance.
pub(crate) async fn instance(plane: &Plane, output: &Output, name: &str) -> Result<(), Error> {
    let Some(instance) = plane.find(Resource::Instances, name).await? else {
        // The name is not there also for a user who may not list the Instances.
        let all = plane.list(Resource::Instances).await.unwrap_or_default();
        let near = nearest(name, all.iter().map(Object::name));
        return Err(plane.not_found("instance", name, near, "kubectl compute instances"));
    };
    if !output.is_text() {
        return output.object(&served(&instance));
    }
    let deployments = plane.list(Resource::Deployments).await?;
    let one = std::slice::from_ref(&instance);
    let index = index(plane, &mut Cities::default(), &[], &deployments, one).await;
    let home = Home::of(&instance, &index);
    write(&instance::text(&instance, &home, plane.clock.now()))
}

/// Lines of a description: names in a column, texts of the server escaped.
#[derive(Debug, Default)]
struct Lines(String);

impl Lines {
    /// A name and its text; `-` if that is empty.
    fn field(&mut self, name: &str, text: &str) {
        let text = if text.is_empty() { "-" } else { text };
        self.line(&format!("{:<12}{text}", format!("{name}:")));
    }

    /// A line.
    fn line(&mut self, line: &str) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.0, "{}", escape(line));
    }

    /// The commands that would do something now.
    fn next_steps(&mut self, commands: &[String]) {
        if commands.is_empty() {
            return;
        }
        self.line("Next steps:");
        for command in commands {
            self.line(&format!("  {command}"));
        }
    }
}

#[cfg(test)]
mod tests;
