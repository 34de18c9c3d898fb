//! Requests quota: reads and writes claims in projects.

pub mod decide;

use crate::reason::WriteReason;
use crate::{
    claim::{self, Claim, Claimant, Found, Refused},
    conditions::{Verdict, gates},
    context::{Context, request_project},
    index::{digest, tables::TableId},
    instance::observe::Snapshot,
    writes::{create, delete},
};
use decide::{Act, Again};
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
use std::{sync::Arc, time::Duration};

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
pub async fn ask(ctx: &Context<'_>, snapshot: &Snapshot) -> Answer {
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
        return decided(ctx, snapshot, &Claim::NoIdentity, false, None).0;
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
    snapshot: &'a Snapshot,
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
            uid: &self.snapshot.version.uid,
        }
    }

    fn target(&self) -> Target {
        target(self.project, self.home, &claim::name(&self.snapshot.name))
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
            Act::None => {
                self.record_answer(ctx, !watched, answer.failure.as_ref());
                return answer;
            }
            Act::Create => {
                let spec = self.snapshot.instance.whole_spec();
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
            Act::Delete(uid) => Plan::one(delete(self.target(), &uid, WriteReason::QuotaClaimAnew)),
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
        let found = self.read(ctx).await.ok()?;
        let claim = claim::judge(found.as_ref(), &self.claimant());
        matches!(claim, Claim::AnotherCells(_)).then(|| decided(ctx, self.snapshot, &claim, watched, None).0)
    }

    async fn read(&self, ctx: &Context<'_>) -> Result<Option<Found>, Failure> {
        let found = ctx.executor.get(&self.target()).await?;
        Ok(found.map(|object| Found {
            uid: object.metadata.uid.as_deref().unwrap_or_default().into(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            claim: digest::claim(&object, &mut digest::Strings::default()),
        }))
    }

    async fn look(&self, ctx: &Context<'_>) -> ClaimLookup {
        let now = ctx.now();
        {
            let index = ctx.index.lock();
            if index.unreachable.contains(self.project) {
                let message =
                    "there is no way to the project's control plane; give the cell a kubeconfig of it";
                return ClaimLookup::At(Claim::Refused(Refused::Project, message.to_owned()), false);
            }
            match index.claims.get(self.project) {
                Some(claims) if claims.table.synced() => {
                    let row = claims.table.get(self.home, &claim::name(&self.snapshot.name));
                    let found = row.map(|row| Found {
                        uid: row.uid.clone(),
                        deleting: row.deleting,
                        claim: row.digest.clone(),
                    });
                    return ClaimLookup::At(claim::judge(found.as_ref(), &self.claimant()), true);
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
            Ok(found) => ClaimLookup::At(claim::judge(found.as_ref(), &self.claimant()), false),
            Err(failure) => ClaimLookup::Failed(failure),
        }
    }

    fn is_unavailable(&self) -> bool {
        let said = find(&self.snapshot.instance.conditions, QUOTA_GRANTED);
        said.is_some_and(|c| c.reason == Reason::QuotaBackendUnavailable.as_str())
    }

    fn was_granted(&self) -> bool {
        let instance = &self.snapshot.instance;
        let said = find(&instance.conditions, QUOTA_GRANTED);
        !instance.has_gate(gates::QUOTA) || said.is_some_and(|c| c.status == ConditionStatus::True)
    }

    /// Records whether the project answers quota requests, if one was sent, for the rolling updates that depend on
    /// quota.
    fn record_answer(&self, ctx: &Context<'_>, asked: bool, failure: Option<&Failure>) {
        let away = failure.is_some_and(|failure| {
            failure.category == Category::Forbidden || matches!(refusal(failure), Claim::NoAnswer(_))
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

/// The write target of a claim in a project.
pub fn target(project: &ProjectKey, home: &str, name: &str) -> Target {
    Target::namespaced(
        Plane::Project(project.clone()),
        &TableId::Claims.resource(),
        home,
        name,
    )
}

/// The claim's state that a failure implies.
fn refusal(failure: &Failure) -> Claim {
    let message = failure.message.clone();
    match failure.category {
        Category::NamespaceMissing | Category::NamespaceTerminating => {
            Claim::Refused(Refused::Namespace, message)
        }
        Category::Refused => Claim::Refused(Refused::Misconfigured, message),
        Category::Forbidden if failure.verb == "create" => Claim::Refused(Refused::Misconfigured, message),
        // Constant messages, because server messages may differ with each attempt and would cause a write each time.
        Category::Forbidden | Category::Unauthorized => {
            Claim::NoAnswer("the project's control plane does not let this cell ask for quota".to_owned())
        }
        _ => Claim::NoAnswer("the project's control plane cannot be asked for quota now".to_owned()),
    }
}

fn decided(
    ctx: &Context<'_>,
    snapshot: &Snapshot,
    claim: &Claim,
    watched: bool,
    failure: Option<Failure>,
) -> (Answer, Act) {
    let instance = &snapshot.instance;
    let uid: &Arc<str> = &snapshot.version.uid;
    // From 0 to 99, constant for the lifetime of the Instance.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of one hundred"
    )]
    let spread = (Random::fraction(uid) * 100.0) as u32;
    let seen = decide::Seen {
        conditions: &instance.conditions,
        gated: instance.has_gate(gates::QUOTA),
        created: Timestamp::from_second(instance.created).unwrap_or_default(),
        watched,
        spread,
    };
    let decision = decide::decide(claim, &seen, ctx.now().wall);
    let next = match decision.again {
        Again::OnEvent | Again::BackOff => Requeue::AwaitChange,
        Again::After(after) => Requeue::After(after),
    };
    let answer = Answer {
        verdict: decision.verdict,
        next,
        failure,
    };
    (answer, decision.act)
}
