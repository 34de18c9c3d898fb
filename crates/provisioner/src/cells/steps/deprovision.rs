//! The end of a Cell: its cell is drained, what the provisioner has made for it is deleted, and its machines, or the Cluster of Cluster API that
//! was created for it, are released.

use super::{Access, Steps, of_member};
use crate::{
    hosts,
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
    /// Drains the cell, deletes what the provisioner has made for it, and releases its machines or its Cluster of Cluster API.
    pub(super) async fn deprovision(&mut self, access: Result<Access<'_>, Problem>) {
        let leaving = Problem::new(Reason::Leaving, "the Cell is being deleted");
        self.report.add(Step::Ready, Err(leaving));
        let is_abandoned = self.present.is_abandoned();
        let ctx = self.ctx;
        let is_existing = matches!(self.present.spec.provider, Provider::Existing(_));
        let has_machines = matches!(self.present.spec.provider, Provider::Hosts(_));
        let every = || has_machines.then(|| hosts::not_reset("every machine"));
        let ended = match access {
            Ok(Access::Member(member)) => self.withdraw(Ok(member)).await.map(|()| None),
            Ok(Access::ClusterApi(of)) => {
                let released = of.release(ctx, is_abandoned);
                Box::pin(self.release(of.connect(ctx), released)).await
            }
            Ok(Access::Machines(of)) => Box::pin(self.release(of.cluster(), of.release(is_abandoned))).await,
            // Nothing was written at the cluster.
            Err(_) if is_existing && self.present.status.cluster.is_none() => Ok(None),
            // Flags or the disk of the provisioner prevent each request.
            Err(problem) if matches!(problem.reason, Reason::ProviderOff | Reason::RuntimeDirectory) => {
                Err(problem)
            }
            Err(_) if is_abandoned && self.present.is_withdrawn() => Ok(every()),
            Err(problem) => self.withdraw(Err(problem)).await.map(|()| every()),
        };
        let left = match &ended {
            Ok(left) if is_abandoned => Some(left_behind(left.as_deref())),
            Ok(left) => left.clone(),
            Err(_) => None,
        };
        if self.report.add(Step::Drained, ended.map(drop)) {
            self.report.end = End::CleanedUp(left);
        }
    }

    /// Withdraws the cell, then releases its machines or its Cluster of Cluster API. Returns what stays.
    async fn release(
        &mut self,
        member: impl Future<Output = Result<Plane, Problem>>,
        released: impl Future<Output = Result<Option<String>, Problem>>,
    ) -> Result<Option<String>, Problem> {
        if self.present.status.cluster.is_some() && !self.present.is_withdrawn() {
            self.withdraw(member.await).await?;
            let what = "the objects of the cell at hub and cluster are deleted; its machines, or the Cluster that was created for it, are next";
            let withdrawn = Problem::new(Reason::Leaving, what);
            self.report.add(Step::Registered, Err(withdrawn.clone()));
            self.report.end = End::Withdrawn;
            return Err(withdrawn);
        }
        released.await
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

/// The message of the Event for a Cell that was deleted with `fedgate.dev/abandon`.
fn left_behind(left: Option<&str>) -> String {
    let objects = "the Cell was deleted with fedgate.dev/abandon: its objects at the cluster stay, each with annotation \
                   fedgate.dev/cell-uid";
    match left {
        None => objects.to_owned(),
        Some(left) => format!("{objects}; {left}"),
    }
}
