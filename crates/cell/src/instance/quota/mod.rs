//! Requests quota: reads and writes claims in projects.

pub mod claim;
pub mod decide;

use crate::{
    conditions::Verdict,
    context::Context,
    index::{
        digest::{self, claim_name},
        release_records::Record,
        watches::Command,
    },
    instance::{
        decide::{has_claimed, may_claim},
        observe::InstanceSnapshot,
        orphaned,
    },
    reason::WriteReason,
    release,
    writes::{create, delete, read},
};
use claim::{Claim, Claimant};
use decide::{Answer, ClaimAction, last_reason, was_granted};
use fedgate_api::{ConditionStatus, Reason, keys, names::ProjectKey};
use fedgate_engine::{
    diff::Digest,
    error::{Category, Failure},
    key::Key,
    plan::{Plan, Requeue},
    random::Random,
    runtime::queue::Priority,
};
use std::time::Duration;

/// Time limit for the first list of a project's claims; after it, each claim is read individually.
const LIST_PATIENCE: Duration = Duration::from_secs(2);

/// Requests the quota of an Instance.
pub async fn ask(ctx: &Context<'_>, key: &Key, snapshot: &InstanceSnapshot) -> Answer {
    if snapshot.row.deleting {
        withdraw(ctx, key);
        return Answer::default();
    }
    if !ctx.settings.quota {
        return switched_off(ctx, snapshot).await;
    }
    if !may_claim(snapshot) {
        // Finalizers come first, so that no claim is leaked; that write enqueues the key again.
        return Answer::default();
    }
    let Some((project, home)) = &snapshot.origin else {
        let message = "the namespace does not name the project it belongs to".to_owned();
        let unknown = Claim::Refused(Reason::QuotaProjectIDUnresolvable, message);
        return decide_claim(ctx, snapshot, &unknown, false);
    };
    let cell = &ctx.settings.cell;
    let claimant = Claimant {
        cell,
        project,
        home,
        namespace: &snapshot.namespace,
        name: &snapshot.name,
        uid: &snapshot.row.uid,
    };
    let (answer, was_sent) = answer(ctx, snapshot, &claimant).await;
    record_answer(ctx, project, key, was_sent, answer.failure.as_ref());
    answer
}

/// The answer of a cell that requests no quota. An earlier claim is recorded before the condition `QuotaGranted` changes,
/// because that condition is the only trace of it; the claim is released once its project answers.
async fn switched_off(ctx: &Context<'_>, snapshot: &InstanceSnapshot) -> Answer {
    if has_claimed(snapshot) {
        let recorded = match &snapshot.origin {
            None => {
                orphaned(ctx, snapshot).await;
                Ok(())
            }
            Some((project, home)) => {
                let claim = Record::of_claim(project, home, &snapshot.name);
                release::record(ctx, &snapshot.namespace, &snapshot.row.uid, &[claim]).await
            }
        };
        if let Err(failure) = recorded {
            return Answer {
                failure: Some(failure),
                ..Answer::default()
            };
        }
    }
    let message = "no quota is asked for at this cell";
    Answer {
        verdict: Some(Verdict::of(ConditionStatus::True, Reason::QuotaDisabled, message)),
        ..Answer::default()
    }
}

/// Result of a claim lookup.
enum ClaimLookup {
    /// The claim, and true if it is watched.
    Found(Claim, bool),
    /// No result yet; a list, a watch event or this requeue continues the lookup.
    Later(Requeue),
}

/// The answer, and true if a request was sent for it.
async fn answer(ctx: &Context<'_>, snapshot: &InstanceSnapshot, claimant: &Claimant<'_>) -> (Answer, bool) {
    let instance = &snapshot.row.digest;
    let (claim, watched, failure) = match look_up_claim(ctx, snapshot, claimant).await {
        Ok(ClaimLookup::Later(next)) => {
            let later = Answer {
                next,
                ..Answer::default()
            };
            return (later, false);
        }
        Ok(ClaimLookup::Found(claim, watched)) => (claim, watched, None),
        // No request was sent, so the condition that the last failure wrote still applies.
        Err(failure)
            if failure.category == Category::CircuitOpen
                && last_reason(instance) == Some(Reason::QuotaBackendUnavailable) =>
        {
            let silent = Answer {
                failure: Some(failure),
                ..Answer::default()
            };
            return (silent, false);
        }
        Err(failure) => (refusal(&failure), false, Some(failure)),
    };
    let mut answer = decide_claim(ctx, snapshot, &claim, watched);
    answer.failure = failure;
    let effect = match &answer.action {
        ClaimAction::None => return (answer, !watched),
        ClaimAction::Create => match ctx.settings.sizes.footprint(&instance.whole_spec()) {
            Ok(footprint) => create(
                claimant.target(),
                claimant.render(footprint.size),
                WriteReason::QuotaClaim,
            ),
            Err(why) => {
                let message = format!("spec.{why}");
                let verdict = Verdict::of(ConditionStatus::False, Reason::ValidationFailed, message);
                let invalid = Answer {
                    verdict: Some(verdict).filter(|_| !was_granted(instance)),
                    ..Answer::default()
                };
                return (invalid, false);
            }
        },
        ClaimAction::Delete(uid) => delete(claimant.target(), uid, None, WriteReason::QuotaClaimAnew),
    };
    let answer = match ctx.execute(Plan::one(effect)).await {
        Ok(_) => answer,
        // Another writer was faster, or the watch lags behind: the claim on the server decides. The watch does not select
        // claims of other cells, so the claim is read.
        Err(failure) if is_overtaken(&failure) => match read_claim(ctx, claimant).await {
            Ok(claim @ Claim::AnotherCells { .. }) => decide_claim(ctx, snapshot, &claim, watched),
            _ => Answer {
                failure: Some(failure),
                ..answer
            },
        },
        Err(failure) => Answer {
            failure: Some(failure.clone()),
            ..decide_claim(ctx, snapshot, &refusal(&failure), watched)
        },
    };
    (answer, true)
}

fn is_overtaken(failure: &Failure) -> bool {
    matches!(failure.category, Category::AlreadyExists | Category::Conflict)
}

async fn read_claim(ctx: &Context<'_>, claimant: &Claimant<'_>) -> Result<Claim, Failure> {
    let found = ctx.executor.get(&claimant.target()).await?;
    let found = found.map(|object| read(&object, digest::claim(&object, &mut digest::Strings::default())));
    Ok(claimant.judge(found.as_ref()))
}

/// Looks the claim up in the index; reads it if the list of the project's claims takes too long.
async fn look_up_claim(
    ctx: &Context<'_>,
    snapshot: &InstanceSnapshot,
    claimant: &Claimant<'_>,
) -> Result<ClaimLookup, Failure> {
    {
        let index = ctx.index.lock();
        if index.unreachable.contains(claimant.project) {
            let message = "there is no way to the project's control plane; give the cell a kubeconfig of it";
            let refused = Claim::Refused(Reason::QuotaProjectNotFound, message.to_owned());
            return Ok(ClaimLookup::Found(refused, false));
        }
        match index.claims.get(claimant.project) {
            Some(claims) if claims.table.synced() => {
                let row = claims.table.get(claimant.home, &claim_name(claimant.name));
                return Ok(ClaimLookup::Found(claimant.judge(row), true));
            }
            Some(claims) => {
                let left = LIST_PATIENCE.saturating_sub(ctx.now().since(claims.since));
                if !left.is_zero() {
                    return Ok(ClaimLookup::Later(Requeue::After(left)));
                }
            }
            None => {
                ctx.send(Command::ConnectProject(claimant.project.clone()));
                return Ok(ClaimLookup::Later(Requeue::After(LIST_PATIENCE)));
            }
        }
    }
    if was_granted(&snapshot.row.digest) {
        return Ok(ClaimLookup::Later(Requeue::AwaitChange));
    }
    Ok(ClaimLookup::Found(read_claim(ctx, claimant).await?, false))
}

/// Records whether the project answers quota requests, if one was sent, for the rolling updates that depend on quota.
fn record_answer(
    ctx: &Context<'_>,
    project: &ProjectKey,
    key: &Key,
    was_sent: bool,
    failure: Option<&Failure>,
) {
    let away = failure.is_some_and(|failure| {
        failure.category == Category::Forbidden
            || !is_overtaken(failure)
                && matches!(
                    refusal(failure),
                    Claim::Refused(Reason::QuotaBackendUnavailable, _)
                )
    });
    let keys = {
        let mut index = ctx.index.lock();
        if away {
            index.quota_failed(project, key.clone())
        } else if was_sent {
            index.quota_answered(project)
        } else {
            index.quota_unwanted(key)
        }
    };
    ctx.queue.extend(keys, Priority::Fresh);
}

/// Removes an Instance that needs no quota from the requests of its project, and enqueues the deployments that this concerns.
pub fn withdraw(ctx: &Context<'_>, key: &Key) {
    let keys = ctx.index.lock().quota_unwanted(key);
    ctx.queue.extend(keys, Priority::Fresh);
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

fn decide_claim(ctx: &Context<'_>, snapshot: &InstanceSnapshot, claim: &Claim, watched: bool) -> Answer {
    // From 0 to 99, constant for the lifetime of the Instance.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of one hundred"
    )]
    let spread = (Random::fraction(&snapshot.row.uid) * 100.0) as u32;
    let seen = decide::QuotaInputs {
        // Only another cell's claim is compared, so that no other pass reads the whole spec for it.
        moved_here: match claim {
            Claim::AnotherCells { .. } => requests_if_moved_here(ctx, snapshot),
            _ => None,
        },
        instance: &snapshot.row.digest,
        watched,
        spread,
    };
    decide::decide(claim, &seen, ctx.now().wall)
}

/// Requests of the Instance, if the copy of its deployment names this cell.
fn requests_if_moved_here(ctx: &Context<'_>, snapshot: &InstanceSnapshot) -> Option<Digest> {
    let instance = &snapshot.row.digest;
    let deployment = instance.labels.get(keys::WORKLOAD_DEPLOYMENT_NAME)?;
    let is_moved_here = {
        let index = ctx.index.lock();
        let of = index.hub_deployment(&snapshot.namespace, deployment)?;
        of.digest.is_moved_to(&ctx.settings.cell)
    };
    let footprint = ctx.settings.sizes.footprint(&instance.whole_spec()).ok();
    let footprint = footprint.filter(|_| is_moved_here)?;
    Some(Digest::of(&claim::requests(footprint.size)))
}
