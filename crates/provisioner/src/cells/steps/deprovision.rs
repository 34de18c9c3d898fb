//! The end of a Cell: its cell is drained, what the provisioner has made for it is deleted, and its machines are released.

use super::{Access, Steps, of_member};
use crate::{
    hosts::Machines,
    reason::{Problem, Reason},
    report::{End, STEP_TIMEOUT, Step},
};
use fedgate_api::cell::{CellCluster, Provider};
use fedgate_operator::membership::{
    change::mark,
    cluster::Cluster,
    leave::{ForeignCluster, Leave},
    plane::Plane,
};
use fedgate_terminal::error::Kind;

impl Steps<'_> {
    /// Drains the cell, deletes what the provisioner has made for it, and releases its machines.
    pub(super) async fn deprovision(&mut self, access: Result<Access<'_>, Problem>) {
        let leaving = Problem::new(Reason::Leaving, "the Cell is being deleted");
        self.report.add(Step::Ready, Err(leaving));
        let is_abandoned = self.present.is_abandoned();
        let has_machines = matches!(self.present.spec.provider, Provider::Hosts(_));
        let all = || {
            let machines = has_machines.then(|| "every machine".to_owned());
            machines.into_iter().collect::<Vec<_>>()
        };
        let ended = match access {
            Ok(Access::Member(member)) => self.withdraw(Ok(member)).await.map(|()| Vec::new()),
            Ok(Access::Machines(machines)) => self.release(&machines).await,
            // Nothing was written at the cluster.
            Err(_) if !has_machines && self.present.status.cluster.is_none() => Ok(Vec::new()),
            // Nothing was tried at the machines, for a reason that is the provisioner's own.
            Err(problem) if matches!(problem.reason, Reason::ProviderOff | Reason::RuntimeDirectory) => {
                Err(problem)
            }
            Err(_) if is_abandoned && self.present.is_withdrawn() => Ok(all()),
            Err(problem) => self.withdraw(Err(problem)).await.map(|()| all()),
        };
        let left = match &ended {
            Ok(machines) if is_abandoned => Some(left_behind(machines)),
            _ => None,
        };
        if self.report.add(Step::Drained, ended.map(drop)) {
            self.report.end = End::CleanedUp(left);
        }
    }

    /// Withdraws the cell, then releases its machines; names those that do not answer.
    async fn release(&mut self, machines: &Machines<'_>) -> Result<Vec<String>, Problem> {
        if self.present.status.cluster.is_some() && !self.present.is_withdrawn() {
            self.withdraw(machines.cluster().await).await?;
            let what = "its objects at hub and cluster are deleted; its machines are released next";
            let withdrawn = Problem::new(Reason::Leaving, what);
            self.report.add(Step::Registered, Err(withdrawn.clone()));
            self.report.end = End::Withdrawn;
            return Err(withdrawn);
        }
        machines.release(self.present.is_abandoned()).await
    }

    /// Drains the cell, and deletes what the provisioner has made for it at hub and cluster.
    async fn withdraw(&self, member: Result<Plane, Problem>) -> Result<(), Problem> {
        let is_abandoned = self.present.is_abandoned();
        match (&self.present.status.cluster, member) {
            (_, Err(problem)) if !is_abandoned => Err(problem),
            // Nothing was written for the Cell.
            (None, _) => Ok(()),
            (Some(found), member) => self.leave(found, member.ok().filter(|_| !is_abandoned)).await,
        }
    }

    async fn leave(&self, found: &CellCluster, member: Option<Plane>) -> Result<(), Problem> {
        let is_abandoned = self.present.is_abandoned();
        if let Some(member) = &member {
            self.same_member(&member.id().await.map_err(|error| of_member(&error))?)?;
        }
        let hub = self.hub().await?;
        let clusters = hub.clusters().await;
        let clusters = clusters.map_err(|error| Problem::of(&error, Reason::Leaving))?;
        let is_own = |cluster: &Cluster<'_>| {
            let is_usable = mark(cluster.0).is_some() || cluster.is_adopted();
            cluster.name() == self.name && cluster.id() == found.id && is_usable
        };
        let own = clusters.iter().map(Cluster).find(is_own);
        if own.is_some() {
            let drained = self.drain(member.as_ref(), is_abandoned || self.present.allows_outage());
            match drained.await {
                // The program of a cluster that is gone takes nothing back.
                Err(problem) if is_abandoned && problem.reason == Reason::Emptying => {}
                drained => drained?,
            }
        }
        let leave = Leave {
            name: self.name,
            hub,
            member,
            foreign: match own {
                Some(own) if mark(own.0).is_none() => ForeignCluster::Release,
                Some(_) => ForeignCluster::Refuse,
                None => ForeignCluster::Ignore,
            },
            force: is_abandoned,
            wait: STEP_TIMEOUT,
            kinds: &self.ctx.kinds,
            id: Some(&found.id),
        };
        let left = leave.run(self.executor()).await;
        left.map(drop).map_err(|error| match (error.kind, error.reason) {
            (Kind::Refused, None) => Problem::new(Reason::Emptying, error.message()),
            _ => Problem::of(&error, Reason::Leaving),
        })
    }
}

/// The Event of a Cell that was abandoned: it names the objects and the machines that stay.
fn left_behind(machines: &[String]) -> String {
    let objects = "the Cell was deleted with fedgate.dev/abandon: its objects at the cluster stay, each with annotation \
                   fedgate.dev/cell-uid";
    match machines {
        [] => objects.to_owned(),
        machines => format!("{objects}; kubeadm reset was not run at {}", machines.join(", ")),
    }
}
