//! The executor: the only writer. It executes plans effect by effect and reports the returned objects to the index.

mod access;
mod call;
mod events;
mod fights;
mod inspect;
pub mod journal;
pub mod permissions;
pub mod suspension;

use crate::{
    clock::Clock,
    diff,
    error::{Category, Failure, empties_a_list, has_undeclared_field},
    executor::{
        fights::{FightDetector, field_group},
        journal::{Journal, verb_of},
        permissions::{Permission, Permissions},
    },
    key::Plane,
    object::LenientObject,
    plan::{
        Applied, Effect, Endpoint, Event, ExactFields, Plan, Prepared, ReasonLabel, Target, Write,
        WriteResult,
    },
};
pub use access::PlaneAccess;
pub(crate) use call::Call;
use call::InFlightWrite;
use events::EventRecorder;
use futures::{StreamExt, stream};
pub use inspect::{Answer, Listed, Selector, at_member};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, ValidationDirective},
    core::{DynamicObject, Request, TypeMeta},
};
use serde_json::Value;
use std::sync::Arc;
use suspension::Suspensions;
use tokio::time::Instant;

/// The field manager of every write (contract: federation.md §2.1).
pub const FIELD_MANAGER: &str = "fedgate";

/// The words with which an API server refuses a JSON patch that does not fit the object; it does not say why.
const UNFIT: &str = "the server rejected our request due to an error in our request";

/// Maximum number of independent writes in flight.
const CONCURRENT_WRITES: usize = 16;

/// Called for each applied effect of a plan.
pub type OnApplied<'a> = dyn Fn(&Effect) + Send + Sync + 'a;

/// Executes plans: the only component that writes to planes.
pub struct Executor {
    surroundings: Arc<dyn PlaneAccess>,
    notes: EventRecorder,
    fights: FightDetector,
    rights: Permissions,
    journal: Journal,
    suspensions: Suspensions,
    /// True for a write that only takes finalizers off.
    releases: fn(ReasonLabel) -> bool,
}

impl Executor {
    /// An executor that reports Events under `identity`, and writes down when it writes on this clock.
    pub fn new(surroundings: Arc<dyn PlaneAccess>, identity: String, clock: Clock) -> Self {
        Self {
            surroundings,
            notes: EventRecorder::new(identity),
            fights: FightDetector::default(),
            rights: Permissions::default(),
            journal: Journal::new(clock),
            suspensions: Suspensions::default(),
            releases: |_| false,
        }
    }

    /// Executes the effects in order and stops at the first failure, or all if they are independent; then writes the
    /// status, and publishes the events if nothing failed.
    pub async fn execute(&self, plan: Plan<Prepared>) -> Result<Plan<Applied>, Failure> {
        self.execute_each(plan, &|_| {}).await
    }

    /// As [`Executor::execute`]; calls `applied` for each effect as soon as it is applied, whatever becomes of the others.
    pub async fn execute_each(
        &self,
        plan: Plan<Prepared>,
        applied: &OnApplied<'_>,
    ) -> Result<Plan<Applied>, Failure> {
        let written = self.effects(&plan, applied).await;
        let reported = match &plan.status {
            Some(status) => self.effect(status, applied).await,
            None => Ok(None),
        };
        let mut versions = written?;
        versions.extend(reported?);
        for note in &plan.notes {
            self.publish(note).await;
        }
        Ok(plan.applied(versions))
    }

    /// Sends a read. Every read prepares a write, so a standby reads nothing.
    async fn read<T, F: Future<Output = kube::Result<T>>>(
        &self,
        call: Call<'_>,
        request: impl FnOnce(Api<LenientObject>) -> F,
    ) -> Result<T, Failure> {
        let api = self.may_write(call).and_then(|()| self.api(call))?;
        let answer = request(api).await.map_err(|e| call.failure(&e));
        self.ended(call, answer.as_ref().err());
        answer
    }

    /// Gets an object; `None` if it does not exist.
    pub async fn get(&self, target: &Target) -> Result<Option<DynamicObject>, Failure> {
        let get = |api: Api<LenientObject>| async move { api.get_opt(&target.name).await };
        let found = self.read(Call::of(target, "get"), get).await?;
        Ok(found.map(|read| read.object))
    }

    /// Gets a watched object and reports it to the index like a watch event. Returns what `read` takes from it, because a
    /// second copy of a large object could take tens of megabytes.
    pub async fn refresh<T>(
        &self,
        target: &Target,
        read: impl FnOnce(&DynamicObject) -> T,
    ) -> Result<Option<T>, Failure> {
        let engagement = self.surroundings.engagement(&target.plane);
        let Some(object) = self.get(target).await? else {
            return Ok(None);
        };
        let taken = read(&object);
        let answer = WriteResult::Current(Box::new(object));
        self.surroundings.object_observed(target, engagement, answer);
        Ok(Some(taken))
    }

    /// Executes the effects of a plan; returns the resourceVersions of the responses, or the first failure.
    async fn effects(&self, plan: &Plan<Prepared>, applied: &OnApplied<'_>) -> Result<Vec<String>, Failure> {
        let mut versions = Vec::new();
        if !plan.independent {
            for effect in &plan.effects {
                versions.extend(self.effect(effect, applied).await?);
            }
            return Ok(versions);
        }
        let effects = plan.effects.iter();
        let writes: Vec<_> = effects.map(|effect| self.effect(effect, applied)).collect();
        let ends: Vec<_> = stream::iter(writes)
            .buffer_unordered(CONCURRENT_WRITES)
            .collect()
            .await;
        for end in ends {
            versions.extend(end?);
        }
        Ok(versions)
    }

    fn api(&self, call: Call<'_>) -> Result<Api<LenientObject>, Failure> {
        let target = call.target;
        let client = self.surroundings.client(&target.plane);
        let client = client.ok_or_else(|| call.failed(Category::NotEngaged, "the plane is not engaged"))?;
        let held_back = |wait, message: &str| Failure {
            retry_after: wait,
            ..call.failed(Category::CircuitOpen, message)
        };
        self.rights.pass(call).map_err(|(right, wait)| {
            let message = format!("the right to {right} is missing; it is asked for again now and then");
            held_back(wait, &message)
        })?;
        let health = self.surroundings.health(&target.plane);
        let admitted = health.map_or(Ok(()), |health| health.admit_call());
        let message = "the plane does not answer; it is asked again now and then";
        admitted.map_err(|wait| held_back(wait, message))?;
        Ok(match &target.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &target.resource),
            None => Api::all_with(client, &target.resource),
        })
    }

    /// Executes an effect; returns the resourceVersion of the response.
    async fn effect(&self, effect: &Effect, applied: &OnApplied<'_>) -> Result<Option<String>, Failure> {
        let version = self.send_effect(effect).await?;
        applied(effect);
        Ok(version)
    }

    async fn send_effect(&self, effect: &Effect) -> Result<Option<String>, Failure> {
        let Effect {
            target,
            endpoint,
            write,
            reason,
        } = effect;
        let call = Call {
            target,
            endpoint: *endpoint,
            verb: verb_of(write),
        };
        // Checked here as well as in `send`: a write that will not be sent must not use up the plane's next probe.
        self.may_write(call)?;
        self.unless_suspended(effect)?;
        let engagement = self.surroundings.engagement(&target.plane);
        let api = self.api(call)?;
        let began = Instant::now();
        let answer = self.write(&api, call, write).await;
        let version = answer.as_ref().map(WriteResult::version);
        self.journal.record(effect, call.verb, began, version);
        self.note_suspension(effect, answer.as_ref().err());
        match answer {
            Ok(answer) => {
                self.surroundings.wrote(target, *reason);
                self.watch_for_fights(target, *endpoint, write);
                let version = answer.version().map(str::to_owned);
                self.surroundings.object_observed(target, engagement, answer);
                tracing::debug!(plane = %target.plane, kind = %target.kind(), namespace = target.namespace, name = target.name, verb = call.verb, reason = reason.label(), "wrote");
                Ok(version)
            }
            Err(failure) if failure.category == Category::NotFound => {
                if let Some(uid) = write.uid() {
                    let uid = uid.to_owned();
                    self.surroundings
                        .object_observed(target, engagement, WriteResult::Deleted { uid });
                }
                if write.deletes() {
                    return Ok(None);
                }
                Err(failure)
            }
            Err(failure) => Err(failure),
        }
    }

    fn watch_for_fights(&self, target: &Target, endpoint: Endpoint, write: &Write) {
        match write {
            // Only copies are created strictly. Pods and the like may come again under their names.
            Write::Create { body, strict: true }
            | Write::Apply { body, .. }
            | Write::Update { body, .. }
            | Write::Merge { patch: body } => {
                if self.fights.repeats(target, body) {
                    self.surroundings
                        .fight_detected(target, field_group(endpoint, body));
                }
            }
            Write::Delete { .. } | Write::DeleteNamed => self.fights.forget(target),
            Write::Create { .. } | Write::Replace { .. } => {}
        }
    }

    async fn write(
        &self,
        api: &Api<LenientObject>,
        call: Call<'_>,
        write: &Write,
    ) -> Result<WriteResult, Failure> {
        let written = match write {
            Write::Create { body, strict } => self.create(api, call, body, *strict).await?,
            Write::Replace { body } => self.replace(api, call, body).await?,
            Write::Apply { body, exact } => self.apply(api, call, body, exact).await?,
            Write::Update { body, strict } => self.update(api, call, body, *strict).await?,
            Write::Merge { patch } => self.send(call, merge(api, call, patch)).await?,
            Write::Delete { .. } | Write::DeleteNamed => {
                let mut params = DeleteParams::background();
                if let Write::Delete {
                    uid,
                    resource_version,
                } = write
                {
                    params = params.preconditions(Preconditions {
                        uid: Some(uid.clone()),
                        resource_version: resource_version.clone(),
                    });
                }
                let Some(left) = self.send(call, delete(api, &call.target.name, &params)).await? else {
                    let uid = write.uid().unwrap_or_default().to_owned();
                    return Ok(WriteResult::Deleted { uid });
                };
                left
            }
        };
        Ok(answer_of(written))
    }

    fn ended(&self, call: Call<'_>, failure: Option<&Failure>) {
        let (plane, category) = (&call.target.plane, failure.map(|f| f.category));
        if let Some(health) = self.surroundings.health(plane) {
            health.call_ended(category);
        }
        let Some(right) = self.rights.ended(call, category) else {
            return;
        };
        if let Some(Failure { message, .. }) = failure.filter(|f| f.category == Category::Forbidden) {
            let next = format!("apply {} on this plane and bind its roles", plane.roles());
            tracing::warn!(%plane, %right, error = message, next, "permission denied; one request is retried every 5 s");
        } else {
            tracing::info!(%plane, %right, "permission granted again");
            self.surroundings.permission_granted(plane);
        }
    }

    /// The last writes.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The permissions that planes deny.
    pub fn missing_rights(&self) -> Vec<Permission> {
        self.rights.missing()
    }

    /// The denied permission that a failed request lacks, or was held back for.
    pub fn missing_right(&self, failure: &Failure) -> Option<Permission> {
        self.rights.missing_for(failure)
    }

    fn may_write(&self, call: Call<'_>) -> Result<(), Failure> {
        if self.surroundings.may_write() {
            return Ok(());
        }
        let message = "this replica does not hold the Lease, or the process ends";
        Err(call.failed(Category::NotLeader, message))
    }

    /// Sends a write request: checks the write permit again, and cancels the request when the permit expires.
    async fn send<T>(
        &self,
        call: Call<'_>,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failure> {
        self.may_write(call)?;
        let mut under_way = InFlightWrite {
            surroundings: &*self.surroundings,
            target: call.target,
            answered: false,
        };
        let answer = tokio::select! {
            biased;
            // Polled first, so that a process that was suspended and resumes without the Lease sends nothing more.
            () = self.surroundings.permit_expired() => {
                let message = "the right to write ended before the answer came";
                Err(call.failed(Category::NotLeader, message))
            }
            answer = request => answer.map_err(|e| call.failure(&e)),
        };
        under_way.answered = !answer.as_ref().is_err_and(|failure| {
            matches!(
                failure.category,
                Category::NotLeader | Category::Network | Category::Timeout
            )
        });
        self.ended(call, answer.as_ref().err());
        answer
    }

    async fn create(
        &self,
        api: &Api<LenientObject>,
        call: Call<'_>,
        body: &Value,
        strict: bool,
    ) -> Result<LenientObject, Failure> {
        let call = Call {
            verb: "create",
            ..call
        };
        self.send(call, post(api, body, strict)).await
    }

    async fn update(
        &self,
        api: &Api<LenientObject>,
        call: Call<'_>,
        body: &Value,
        strict: bool,
    ) -> Result<LenientObject, Failure> {
        let params = PatchParams {
            field_validation: strict.then_some(ValidationDirective::Strict),
            ..PatchParams::apply(FIELD_MANAGER)
        };
        let first = json_patch(call, diff::update_operations(body))?;
        let updated = match self.send(call, patch(api, call, &params, &first)).await {
            // No operation sets a label or annotation where the object has none.
            Err(failure) if failure.message == UNFIT => {
                let get = Call { verb: "get", ..call };
                let found = Box::pin(self.send(get, api.get(&call.target.name))).await?;
                let mut operations = diff::absent_maps(&found.object);
                operations.extend(diff::update_operations(body));
                let second = json_patch(call, operations)?;
                Box::pin(self.send(call, patch(api, call, &params, &second))).await?
            }
            answer => answer?,
        };
        match diff::other_roots(&updated.object, body) {
            Some(patch) => Box::pin(self.send(call, merge(api, call, &patch))).await,
            None => Ok(updated),
        }
    }

    async fn replace(
        &self,
        api: &Api<LenientObject>,
        call: Call<'_>,
        body: &Value,
    ) -> Result<LenientObject, Failure> {
        let (object, params) = (call.whole(body)?, creation());
        let replaced = api.replace(&call.target.name, &params, &object);
        match self.send(call, replaced).await {
            Err(failure) if failure.category == Category::NotFound => {
                self.create(api, call, body, false).await
            }
            answer => answer,
        }
    }

    async fn apply(
        &self,
        api: &Api<LenientObject>,
        call: Call<'_>,
        body: &Value,
        exact: &ExactFields,
    ) -> Result<LenientObject, Failure> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let mut is_merged = false;
        let request = async {
            let answer = patch(api, call, &params, &Patch::Apply(body)).await;
            is_merged = answer.as_ref().is_err_and(|error| {
                let is_status = call.endpoint == Endpoint::Status;
                empties_a_list(error) || is_status && has_undeclared_field(error)
            });
            answer
        };
        let (object, refusal) = match self.send(call, request).await {
            Err(failure) if is_merged => {
                let get = Call { verb: "get", ..call };
                (self.send(get, api.get(&call.target.name)).await?, Some(failure))
            }
            answer => (answer?, None),
        };
        match diff::exact_patch(&object.object, body, exact) {
            Some(patch) => Box::pin(self.send(call, merge(api, call, &patch))).await,
            None => refusal.map_or(Ok(object), Err),
        }
    }

    /// Publishes an event; a lost event has no further effect.
    async fn publish(&self, note: &Event) {
        let Some(client) = self.surroundings.client(&note.plane) else {
            return;
        };
        let is_down = self
            .surroundings
            .health(&note.plane)
            .is_some_and(|health| !health.admits_all_calls());
        if is_down || !self.surroundings.may_write() || self.suspension(&note.plane).is_some() {
            return;
        }
        tokio::select! {
            biased;
            () = self.notes.publish(client, note) => {}
            () = self.surroundings.permit_expired() => {}
        }
    }

    /// Drops the state of a plane that was removed or has a new credential.
    pub fn forget(&self, plane: &Plane) {
        self.notes.retain(|other| other != plane);
        if let Some(health) = self.surroundings.health(plane) {
            health.admit_all_calls();
        }
        self.rights.retain(|other| other != plane);
        self.suspensions.retain(|other| other != plane, false);
    }

    /// Drops the state of all planes except these.
    pub fn retain(&self, wanted: impl Fn(&Plane) -> bool) {
        self.notes.retain(&wanted);
        self.suspensions.retain(&wanted, true);
        self.rights.retain(wanted);
    }

    /// Number of event recorders.
    #[cfg(any(test, feature = "testing"))]
    pub fn entry_count(&self) -> usize {
        self.notes.entry_count()
    }
}

/// An object that is being deleted and has no finalizer left counts as deleted, whatever its returned state.
fn answer_of(LenientObject { object, .. }: LenientObject) -> WriteResult {
    let meta = &object.metadata;
    let held = meta.finalizers.as_ref().is_some_and(|list| !list.is_empty());
    // A deleted Pod exists until its containers have stopped.
    let stops = meta.deletion_grace_period_seconds.is_some_and(|left| left > 0);
    if meta.deletion_timestamp.is_some() && !held && !stops {
        let uid = object.metadata.uid.unwrap_or_default();
        WriteResult::Deleted { uid }
    } else {
        WriteResult::Current(Box::new(object))
    }
}

/// Deletes an object and returns its remaining state, if any. kube's own `delete` fails on a response that is nested
/// too deeply.
async fn delete(
    api: &Api<LenientObject>,
    name: &str,
    params: &DeleteParams,
) -> Result<Option<LenientObject>, kube::Error> {
    let request = Request::new(api.resource_url()).delete(name, params);
    let request = request.map_err(kube::Error::BuildRequest)?;
    let text = api.clone().into_client().request_text(request).await?;
    let left: LenientObject = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
    let is_status = |types: &TypeMeta| types.kind == "Status" && types.api_version == "v1";
    Ok((!left.object.types.as_ref().is_some_and(is_status)).then_some(left))
}

fn json_patch(call: Call<'_>, operations: Vec<Value>) -> Result<Patch<&'static Value>, Failure> {
    let read = serde_json::from_value(Value::Array(operations));
    let read = read.map_err(|e| call.failed(Category::Refused, &e.to_string()))?;
    Ok(Patch::Json(read))
}

/// Creates an object. kube has no parameter for strict validation.
async fn post(api: &Api<LenientObject>, body: &Value, strict: bool) -> kube::Result<LenientObject> {
    let request = Request::new(api.resource_url()).create(&creation(), body.to_string().into_bytes());
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    if strict {
        let uri = format!("{}&fieldValidation=Strict", request.uri()).parse();
        *request.uri_mut() = uri.map_err(|e| kube::Error::HttpError(http::Error::from(e)))?;
    }
    api.clone().into_client().request(request).await
}

/// Parameters of a creation, and of a replacement.
fn creation() -> PostParams {
    PostParams {
        dry_run: false,
        field_manager: Some(FIELD_MANAGER.to_owned()),
    }
}

async fn merge(api: &Api<LenientObject>, call: Call<'_>, body: &Value) -> kube::Result<LenientObject> {
    patch(api, call, &PatchParams::apply(FIELD_MANAGER), &Patch::Merge(body)).await
}

async fn patch(
    api: &Api<LenientObject>,
    call: Call<'_>,
    params: &PatchParams,
    patch: &Patch<&Value>,
) -> kube::Result<LenientObject> {
    let name = &call.target.name;
    match call.endpoint {
        Endpoint::Main => api.patch(name, params, patch).await,
        Endpoint::Status => api.patch_status(name, params, patch).await,
    }
}

#[cfg(test)]
mod tests;
