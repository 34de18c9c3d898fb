//! Requests quota: reads and writes claims in projects.

pub mod claim;
pub mod decide;

use crate::{
    conditions::{Verdict, gates},
    context::{Context, request_project},
    index::{
        digest::{self, claim_name},
        tables::TableId,
    },
    instance::observe::InstanceSnapshot,
    reason::WriteReason,
    writes::{create, delete, read},
};
use claim::{Claim, Claimant};
use decide::ClaimAction;
use fedgate_api::{
    ConditionStatus, Reason,
    conditions::{find, types::QUOTA_GRANTED},
    names::ProjectKey,
};
use fedgate_engine::{
    error::{Category, Failure},
    key::Plane,
    plan::{Plan, Requeue, Target},
    random::Random,
    runtime::queue::Priority,
};
use jiff::Timestamp;
use std::time::Duration;

/// Result of a quota request.
#[derive(Debug, Default)]
pub struct Answer {
    /// The value of the condition `QuotaGranted`; `None` leaves the condition unchanged.
    pub verdict: Option<Verdict>,
    /// When to reconcile again.
    pub next: Requeue,
    /// The failure of the request, if any.
    pub failure: Option<Failure>,
}

/// Time limit for the first list of a project's claims; after it, each claim is read individually.
const LIST_PATIENCE: Duration = Duration::from_secs(2);

/// Requests the quota of an Instance.
pub async fn ask(ctx: &Context<'_>, snapshot: &InstanceSnapshot) -> Answer {
    if !ctx.settings.quota {
        let verdict = Verdict::of(
            ConditionStatus::True,
            Reason::QuotaDisabled,
            "no quota is asked for at this cell",
        );
        return Answer {
            verdict: Some(verdict),
            ..Answer::default()
        };
    }
    let (origin, cell) = {
        let index = ctx.index.lock();
        (index.origin(&snapshot.namespace), index.reading.cell.clone())
    };
    let Some((project, home)) = origin else {
        let message = "the namespace does not name the project it belongs to".to_owned();
        let unknown = Claim::Refused(Reason::QuotaProjectIDUnresolvable, message);
        return decided(ctx, snapshot, &unknown, false, None).0;
    };
    let asked = ClaimRequest {
        snapshot,
        project: &project,
        home: &home,
        cell: &cell,
    };
    asked.answer(ctx).await
}

struct ClaimRequest<'a> {
    snapshot: &'a InstanceSnapshot,
    project: &'a ProjectKey,
    home: &'a str,
    cell: &'a str,
}

/// Result of a claim lookup.
enum ClaimLookup {
    At(Claim, bool),
    /// No result yet; a list, a watch event or this requeue continues the lookup.
    Later(Requeue),
    Failed(Failure),
}

impl ClaimRequest<'_> {
    fn claimant(&self) -> Claimant<'_> {
        Claimant {
            cell: self.cell,
            namespace: &self.snapshot.namespace,
            name: &self.snapshot.name,
            uid: &self.snapshot.row.uid,
        }
    }

    fn target(&self) -> Target {
        Target::namespaced(
            Plane::Project(self.project.clone()),
            &TableId::Claims.resource(),
            self.home,
            &claim_name(&self.snapshot.name),
        )
    }

    async fn answer(&self, ctx: &Context<'_>) -> Answer {
        let (claim, watched, failure) = match self.look(ctx).await {
            ClaimLookup::Later(next) => {
                if next == Requeue::AwaitChange {
                    self.record_answer(ctx, false, None);
                }
                return Answer {
                    next,
                    ..Answer::default()
                };
            }
            ClaimLookup::At(claim, watched) => (claim, watched, None),
            // No request was sent, so the condition that the last failure wrote still applies.
            ClaimLookup::Failed(failure)
                if failure.category == Category::CircuitOpen && self.is_unavailable() =>
            {
                return Answer {
                    failure: Some(failure),
                    ..Answer::default()
                };
            }
            ClaimLookup::Failed(failure) => (refusal(&failure), false, Some(failure)),
        };
        let (answer, act) = decided(ctx, self.snapshot, &claim, watched, failure);
        let plan = match act {
            ClaimAction::None => {
                self.record_answer(ctx, !watched, answer.failure.as_ref());
                return answer;
            }
            ClaimAction::Create => {
                let spec = self.snapshot.row.digest.whole_spec();
                let footprint = match ctx.settings.sizes.footprint(&spec) {
                    Ok(footprint) => footprint,
                    Err(why) => {
                        self.record_answer(ctx, false, None);
                        let message = format!("spec.{why}");
                        let verdict = Verdict::of(ConditionStatus::False, Reason::ValidationFailed, message);
                        return Answer {
                            verdict: Some(verdict).filter(|_| !self.was_granted()),
                            ..Answer::default()
                        };
                    }
                };
                let body = claim::render(&self.claimant(), self.project, self.home, footprint.size);
                Plan::one(create(self.target(), body, WriteReason::QuotaClaim))
            }
            ClaimAction::Delete(uid) => Plan::one(delete(self.target(), &uid, WriteReason::QuotaClaimAnew)),
        };
        match ctx.execute(plan).await {
            Ok(_) => {
                self.record_answer(ctx, true, None);
                answer
            }
            // Another writer was faster, or the watch lags behind: the claim on the server decides.
            Err(failure) if matches!(failure.category, Category::AlreadyExists | Category::Conflict) => {
                self.record_answer(ctx, true, None);
                self.taken(ctx, watched).await.unwrap_or(Answer {
                    failure: Some(failure),
                    ..answer
                })
            }
            Err(failure) => {
                let (answer, _) = decided(ctx, self.snapshot, &refusal(&failure), watched, Some(failure));
                self.record_answer(ctx, true, answer.failure.as_ref());
                answer
            }
        }
    }

    /// The answer if another cell holds the claim's name. The watch does not select claims of other cells, so this
    /// claim is read.
    async fn taken(&self, ctx: &Context<'_>, watched: bool) -> Option<Answer> {
        let claim = self.read(ctx).await.ok()?;
        matches!(claim, Claim::AnotherCells(_)).then(|| decided(ctx, self.snapshot, &claim, watched, None).0)
    }

    async fn read(&self, ctx: &Context<'_>) -> Result<Claim, Failure> {
        let found = ctx.executor.get(&self.target()).await?;
        let found =
            found.map(|object| read(&object, digest::claim(&object, &mut digest::Strings::default())));
        Ok(claim::judge(found.as_ref(), &self.claimant()))
    }

    async fn look(&self, ctx: &Context<'_>) -> ClaimLookup {
        let now = ctx.now();
        {
            let index = ctx.index.lock();
            if index.unreachable.contains(self.project) {
                let message =
                    "there is no way to the project's control plane; give the cell a kubeconfig of it";
                return ClaimLookup::At(
                    Claim::Refused(Reason::QuotaProjectNotFound, message.to_owned()),
                    false,
                );
            }
            match index.claims.get(self.project) {
                Some(claims) if claims.table.synced() => {
                    let row = claims.table.get(self.home, &claim_name(&self.snapshot.name));
                    return ClaimLookup::At(claim::judge(row, &self.claimant()), true);
                }
                Some(claims) => {
                    let left = LIST_PATIENCE.saturating_sub(now.since(claims.since));
                    if !left.is_zero() {
                        return ClaimLookup::Later(Requeue::After(left));
                    }
                }
                None => {
                    request_project(ctx, self.project);
                    return ClaimLookup::Later(Requeue::After(LIST_PATIENCE));
                }
            }
        }
        if self.was_granted() {
            return ClaimLookup::Later(Requeue::AwaitChange);
        }
        match self.read(ctx).await {
            Ok(claim) => ClaimLookup::At(claim, false),
            Err(failure) => ClaimLookup::Failed(failure),
        }
    }

    fn is_unavailable(&self) -> bool {
        let said = find(&self.snapshot.row.digest.conditions, QUOTA_GRANTED);
        said.is_some_and(|c| c.reason == Reason::QuotaBackendUnavailable.as_str())
    }

    fn was_granted(&self) -> bool {
        let instance = &self.snapshot.row.digest;
        let said = find(&instance.conditions, QUOTA_GRANTED);
        !instance.has_gate(gates::QUOTA) || said.is_some_and(|c| c.status == ConditionStatus::True)
    }

    /// Records whether the project answers quota requests, if one was sent, for the rolling updates that depend on
    /// quota.
    fn record_answer(&self, ctx: &Context<'_>, asked: bool, failure: Option<&Failure>) {
        let away = failure.is_some_and(|failure| {
            failure.category == Category::Forbidden
                || matches!(
                    refusal(failure),
                    Claim::Refused(Reason::QuotaBackendUnavailable, _)
                )
        });
        let key = TableId::Instances.key(&self.snapshot.namespace, &self.snapshot.name);
        let keys = {
            let mut index = ctx.index.lock();
            if away {
                index.quota_failed(self.project, key)
            } else if asked {
                index.quota_answered(self.project)
            } else {
                index.quota_unwanted(&key)
            }
        };
        ctx.queue.extend(keys, Priority::Fresh);
    }
}

/// The claim's state that a failure implies.
fn refusal(failure: &Failure) -> Claim {
    let (reason, message) = match failure.category {
        Category::NamespaceMissing | Category::NamespaceTerminating => {
            (Reason::QuotaNamespaceNotFound, &*failure.message)
        }
        Category::Refused => (Reason::QuotaMisconfigured, &*failure.message),
        Category::Forbidden if failure.verb == "create" => (Reason::QuotaMisconfigured, &*failure.message),
        // Constant messages, because server messages may differ with each attempt and would cause a write each time.
        Category::Forbidden | Category::Unauthorized => (
            Reason::QuotaBackendUnavailable,
            "the project's control plane does not let this cell ask for quota",
        ),
        _ => (
            Reason::QuotaBackendUnavailable,
            "the project's control plane cannot be asked for quota now",
        ),
    };
    Claim::Refused(reason, message.to_owned())
}

fn decided(
    ctx: &Context<'_>,
    snapshot: &InstanceSnapshot,
    claim: &Claim,
    watched: bool,
    failure: Option<Failure>,
) -> (Answer, ClaimAction) {
    let instance = &snapshot.row.digest;
    // From 0 to 99, constant for the lifetime of the Instance.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of one hundred"
    )]
    let spread = (Random::fraction(&snapshot.row.uid) * 100.0) as u32;
    let seen = decide::QuotaInputs {
        conditions: &instance.conditions,
        gated: instance.has_gate(gates::QUOTA),
        created: Timestamp::from_second(instance.created).unwrap_or_default(),
        watched,
        spread,
    };
    let decision = decide::decide(claim, &seen, ctx.now().wall);
    let answer = Answer {
        verdict: decision.verdict,
        next: decision.next,
        failure,
    };
    (answer, decision.act)
}
