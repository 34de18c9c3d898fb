//! Asking for quota: reads and writes claims in projects.

use super::{
    claim::{self, Claimant, Found},
    observe::Snapshot,
    quota::{self, Act, Again, Claim, Refused},
    ready::{Verdict, gates},
};
use crate::{
    api::{
        ConditionStatus, Reason,
        conditions::{find, types::QUOTA_GRANTED},
        names::ProjectKey,
    },
    cell::{
        context::Turn,
        effects::{create, delete},
        world::{digest, role::Role},
    },
    engine::{
        chance::Chance,
        error::{Category, Failure},
        key::Plane,
        plan::{Next, Plan, Target},
        queue::Urgency,
    },
};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};

/// What came of asking.
#[derive(Debug, Default)]
pub struct Answer {
    /// What is to be said; `None` leaves what was said.
    pub verdict: Option<Verdict>,
    /// When to look again.
    pub next: Next,
    /// What went wrong.
    pub failure: Option<Failure>,
}

/// The first list of a project's claims may take this long, before each is asked for by itself.
const LIST_PATIENCE: Duration = Duration::from_secs(2);

/// Asks for the quota of an Instance.
pub async fn ask(ctx: &Turn<'_>, snapshot: &Snapshot) -> Answer {
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
        let world = ctx.world.lock();
        (world.origin(&snapshot.namespace), world.reading.cell.clone())
    };
    let Some((project, home)) = origin else {
        return decided(ctx, snapshot, &Claim::NoIdentity, false, None).0;
    };
    let asked = Asked {
        snapshot,
        project: &project,
        home: &home,
        cell: &cell,
    };
    asked.answer(ctx).await
}

struct Asked<'a> {
    snapshot: &'a Snapshot,
    project: &'a ProjectKey,
    home: &'a str,
    cell: &'a str,
}

/// The claim as far as it is known.
enum Looked {
    At(Claim, bool),
    /// Nothing is known yet, and something will tell.
    Later(Next),
    Failed(Failure),
}

impl Asked<'_> {
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

    async fn answer(&self, ctx: &Turn<'_>) -> Answer {
        let (claim, watched, failure) = match self.look(ctx).await {
            Looked::Later(next) => {
                if next == Next::OnEvent {
                    self.heard(ctx, false, None);
                }
                return Answer {
                    next,
                    ..Answer::default()
                };
            }
            Looked::At(claim, watched) => (claim, watched, None),
            // Nothing was asked: what was said last still is so.
            Looked::Failed(failure) if failure.category == Category::HeldBack && self.is_unavailable() => {
                return Answer {
                    failure: Some(failure),
                    ..Answer::default()
                };
            }
            Looked::Failed(failure) => (refusal(&failure), false, Some(failure)),
        };
        let (answer, act) = decided(ctx, self.snapshot, &claim, watched, failure);
        let plan = match act {
            Act::None => {
                self.heard(ctx, !watched, answer.failure.as_ref());
                return answer;
            }
            Act::Create => {
                let spec = self.snapshot.instance.whole_spec();
                let footprint = match ctx.settings.sizes.footprint(&spec) {
                    Ok(footprint) => footprint,
                    Err(why) => {
                        self.heard(ctx, false, None);
                        let message = format!("spec.{why}");
                        let verdict = Verdict::of(ConditionStatus::False, Reason::ValidationFailed, message);
                        return Answer {
                            verdict: Some(verdict).filter(|_| !self.was_granted()),
                            ..Answer::default()
                        };
                    }
                };
                let body = claim::render(&self.claimant(), self.project, self.home, footprint.size);
                Plan::one(create(self.target(), body, "quota_claim"))
            }
            Act::Delete(uid) => Plan::one(delete(self.target(), &uid, "quota_claim_anew")),
        };
        match ctx.perform(plan).await {
            Ok(_) => {
                self.heard(ctx, true, None);
                answer
            }
            // Someone was quicker, or the watch is late: what there is decides.
            Err(failure) if matches!(failure.category, Category::AlreadyExists | Category::Conflict) => {
                self.heard(ctx, true, None);
                self.taken(ctx, watched).await.unwrap_or(Answer {
                    failure: Some(failure),
                    ..answer
                })
            }
            Err(failure) => {
                let (answer, _) = decided(ctx, self.snapshot, &refusal(&failure), watched, Some(failure));
                self.heard(ctx, true, answer.failure.as_ref());
                answer
            }
        }
    }

    /// What follows if another cell has the claim's name. Its claims are not watched, so this one is read.
    async fn taken(&self, ctx: &Turn<'_>, watched: bool) -> Option<Answer> {
        let found = self.read(ctx).await.ok()?;
        let claim = claim::judge(found.as_ref(), &self.claimant());
        matches!(claim, Claim::AnotherCells(_)).then(|| decided(ctx, self.snapshot, &claim, watched, None).0)
    }

    async fn read(&self, ctx: &Turn<'_>) -> Result<Option<Found>, Failure> {
        let found = ctx.executor.get(&self.target()).await?;
        Ok(found.map(|object| Found {
            uid: object.metadata.uid.as_deref().unwrap_or_default().into(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            claim: digest::claim(&object, &mut digest::Words::default()),
        }))
    }

    async fn look(&self, ctx: &Turn<'_>) -> Looked {
        let now = ctx.now();
        {
            let world = ctx.world.lock();
            if world.unreachable.contains(self.project) {
                let message =
                    "there is no way to the project's control plane; give the cell a kubeconfig of it";
                return Looked::At(Claim::Refused(Refused::Project, message.to_owned()), false);
            }
            match world.claims.get(self.project) {
                Some(claims) if claims.table.synced() => {
                    let row = claims.table.get(self.home, &claim::name(&self.snapshot.name));
                    let found = row.map(|row| Found {
                        uid: row.uid.clone(),
                        deleting: row.deleting,
                        claim: row.digest.clone(),
                    });
                    return Looked::At(claim::judge(found.as_ref(), &self.claimant()), true);
                }
                Some(claims) => {
                    let left = LIST_PATIENCE.saturating_sub(now.since(claims.since));
                    if !left.is_zero() {
                        return Looked::Later(Next::After(left));
                    }
                }
                None => {
                    ctx.want(self.project);
                    return Looked::Later(Next::After(LIST_PATIENCE));
                }
            }
        }
        if self.was_granted() {
            return Looked::Later(Next::OnEvent);
        }
        match self.read(ctx).await {
            Ok(found) => Looked::At(claim::judge(found.as_ref(), &self.claimant()), false),
            Err(failure) => Looked::Failed(failure),
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

    /// Notes whether the project answers about quota, if it was asked, for the rolls that depend on it.
    fn heard(&self, ctx: &Turn<'_>, asked: bool, failure: Option<&Failure>) {
        let away = failure.is_some_and(|failure| {
            failure.category == Category::Forbidden || matches!(refusal(failure), Claim::NoAnswer(_))
        });
        let key = Role::Instances.key(&self.snapshot.namespace, &self.snapshot.name);
        let keys = {
            let mut world = ctx.world.lock();
            if away {
                world.quota_failed(self.project, key)
            } else if asked {
                world.quota_answered(self.project)
            } else {
                world.quota_unwanted(&key)
            }
        };
        ctx.queue.extend(keys, Urgency::Fresh);
    }
}

/// A claim in a project.
pub fn target(project: &ProjectKey, home: &str, name: &str) -> Target {
    Target::namespaced(
        Plane::Project(project.clone()),
        &Role::Claims.resource(),
        home,
        name,
    )
}

/// What a failure says of the claim.
fn refusal(failure: &Failure) -> Claim {
    let message = failure.message.clone();
    match failure.category {
        Category::NamespaceMissing | Category::NamespaceTerminating => {
            Claim::Refused(Refused::Namespace, message)
        }
        Category::Refused => Claim::Refused(Refused::Misconfigured, message),
        Category::Forbidden if failure.verb == "create" => Claim::Refused(Refused::Misconfigured, message),
        // In words that stay the same while it lasts: what a server says may differ each time.
        Category::Forbidden | Category::Unauthorized => {
            Claim::NoAnswer("the project's control plane does not let this cell ask for quota".to_owned())
        }
        _ => Claim::NoAnswer("the project's control plane cannot be asked for quota now".to_owned()),
    }
}

fn decided(
    ctx: &Turn<'_>,
    snapshot: &Snapshot,
    claim: &Claim,
    watched: bool,
    failure: Option<Failure>,
) -> (Answer, Act) {
    let instance = &snapshot.instance;
    let uid: &Arc<str> = &snapshot.version.uid;
    // From 0 to 99, and the same for the Instance's life.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of one hundred"
    )]
    let spread = (Chance::share(uid) * 100.0) as u32;
    let seen = quota::Seen {
        conditions: &instance.conditions,
        gated: instance.has_gate(gates::QUOTA),
        created: Timestamp::from_second(instance.created).unwrap_or_default(),
        watched,
        spread,
    };
    let decision = quota::decide(claim, &seen, ctx.now().wall);
    let next = match decision.again {
        Again::OnEvent | Again::BackOff => Next::OnEvent,
        Again::After(after) => Next::After(after),
    };
    let answer = Answer {
        verdict: decision.verdict,
        next,
        failure,
    };
    (answer, decision.act)
}
