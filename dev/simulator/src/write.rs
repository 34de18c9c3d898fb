//! The writing verbs: create, update, patch and apply.

use crate::{
    definition::{Definition, Version},
    garbage::Chore,
    karmada,
    managed::{Managers, Operation, Reach, Writer, refusal},
    merge, meta,
    prepare::{self, Endpoint},
    state::{NAMESPACES, State},
    status::Status,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// What a write is about, and who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) table: usize,
    pub(crate) definition: &'a Definition,
    /// The version that the request speaks.
    pub(crate) version: &'a Version,
    pub(crate) namespace: &'a str,
    /// Empty for a create.
    pub(crate) name: &'a str,
    pub(crate) endpoint: Endpoint,
    pub(crate) manager: &'a str,
    pub(crate) dry_run: bool,
}

/// What a write did.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) object: Arc<Value>,
    pub(crate) changed: bool,
    pub(crate) created: bool,
}

/// The ways to patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patch {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Server-side apply.
    Apply {
        /// Fields are taken from other managers.
        force: bool,
    },
}

impl Target<'_> {
    fn key(&self) -> String {
        meta::key(self.namespace, self.name)
    }

    fn writer<'a>(&'a self, operation: Operation, now: &'a str) -> Writer<'a> {
        Writer {
            manager: self.manager,
            operation,
            version: &self.version.full_name,
            subresource: match self.endpoint {
                Endpoint::Main => None,
                Endpoint::Status => Some("status"),
                Endpoint::Finalize => Some("finalize"),
            },
            now,
        }
    }

    fn reach(&self) -> Reach {
        match self.endpoint {
            Endpoint::Status => Reach::Status,
            Endpoint::Main if self.version.status => Reach::NotStatus,
            Endpoint::Main | Endpoint::Finalize => Reach::Whole,
        }
    }

    fn check_name(&self, name: &str) -> Result<(), Status> {
        if name == self.name {
            return Ok(());
        }
        let message = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            self.name
        );
        Err(Status::bad_request(message))
    }

    /// The kind and the place that a body names must be those of the request.
    fn check_body(&self, body: &Value) -> Result<(), Status> {
        if !body.is_object() {
            return Err(Status::bad_request("the body of the request is not an object"));
        }
        let (api_version, kind) = (&body["apiVersion"], &body["kind"]);
        if *api_version != self.version.full_name.as_str() || *kind != *self.definition.kind {
            let message = format!(
                "the object provided is unrecognized (must be of type {}): {kind} of {api_version}",
                self.definition.kind
            );
            return Err(Status::bad_request(message));
        }
        let namespace = meta::namespace(body);
        if !namespace.is_empty() && namespace != self.namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }
}

impl State {
    /// Creates an object; the name is in the body.
    pub(crate) fn create(&mut self, target: &Target<'_>, mut body: Value) -> Result<Outcome, Status> {
        target.check_body(&body)?;
        if meta::name(&body).is_empty() && !meta::text(&body, "generateName").is_empty() {
            let name = format!("{}{}", meta::text(&body, "generateName"), self.random.suffix());
            meta::set(&mut body, "name", json!(name));
        }
        let name = meta::name(&body).to_owned();
        let target = Target {
            name: &name,
            ..*target
        };
        meta::set(&mut body, "managedFields", Value::Null);
        self.admit(&target, &body)?;
        Ok(self.insert(&target, body, None))
    }

    /// Whether a new object may come.
    fn admit(&self, target: &Target<'_>, body: &Value) -> Result<(), Status> {
        let subject = self.subject(target.table, target.name);
        if target.definition.namespaced {
            let Some(namespace) = self.get(NAMESPACES, target.namespace) else {
                return Err(Status::not_found(&self.subject(NAMESPACES, target.namespace)));
            };
            if meta::is_ending(namespace) {
                return Err(Status::terminating(&subject, target.namespace));
            }
        }
        if !meta::text(body, "resourceVersion").is_empty() {
            return Err(Status::plain(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let invalid = |reason, message| {
            let cause = (reason, "metadata.name", message);
            Err(Status::invalid(&target.definition.kind, &subject, &[cause]))
        };
        if target.name.is_empty() {
            return invalid(
                "FieldValueRequired",
                "Required value: name or generateName is required",
            );
        }
        if !prepare::may_be_called(target.definition, target.name) {
            return invalid(
                "FieldValueInvalid",
                "Invalid value: a lowercase RFC 1123 subdomain is needed",
            );
        }
        if self.get(target.table, &target.key()).is_some() {
            return Err(Status::already_exists(&subject));
        }
        Ok(())
    }

    /// Brings a new object in. `managers` is what an apply says about its fields.
    fn insert(&mut self, target: &Target<'_>, mut body: Value, managers: Option<Managers>) -> Outcome {
        let now = self.clock.now();
        prepare::forget(&mut body);
        prepare::prepare(target.definition, target.version, &mut body);
        if !target.namespace.is_empty() {
            meta::set(&mut body, "namespace", json!(target.namespace));
        }
        let managers = managers.unwrap_or_else(|| {
            let empty = prepare::empty(target.definition, target.version);
            let mut managers = Managers::default();
            let writer = target.writer(Operation::Update, &now);
            managers.update(&target.version.schema, &empty, &body, &writer, target.reach());
            managers
        });
        if self.karmada.is_some() {
            karmada::complete(target.definition, None, &mut body, &mut self.random);
        }
        let uid = self.random.uuid();
        prepare::on_create(target.definition, target.version, &mut body, &uid, &now);
        if !managers.is_empty() {
            meta::set(&mut body, "managedFields", managers.render());
        }
        self.keep_version(target, &mut body);
        if target.dry_run {
            return Outcome {
                object: Arc::new(body),
                changed: false,
                created: true,
            };
        }
        let object = self.commit(target.table, &target.key(), body);
        self.look_after(target.table, &target.key(), &object);
        Outcome {
            object,
            changed: true,
            created: true,
        }
    }

    /// Objects are kept in one version, whichever was written.
    fn keep_version(&self, target: &Target<'_>, object: &mut Value) {
        if let Some(storage) = self.tables[target.table].definition.storage() {
            meta::put(object, "apiVersion", json!(storage.full_name));
        }
    }

    /// The controllers look at an object's owners.
    fn look_after(&mut self, table: usize, key: &str, object: &Value) {
        if !meta::list(object, "ownerReferences").is_empty() {
            self.chores.push_back(Chore::Owners(table, key.into()));
        }
    }

    fn current(&self, target: &Target<'_>) -> Result<Arc<Value>, Status> {
        let found = self.get(target.table, &target.key()).cloned();
        found.ok_or_else(|| Status::not_found(&self.subject(target.table, target.name)))
    }

    /// Replaces an object whole.
    pub(crate) fn update(&mut self, target: &Target<'_>, body: Value) -> Result<Outcome, Status> {
        target.check_body(&body)?;
        target.check_name(meta::name(&body))?;
        if prepare::comes_by_update(target.definition) && self.get(target.table, &target.key()).is_none() {
            self.admit(target, &body)?;
            return Ok(self.insert(target, body, None));
        }
        let old = self.current(target)?;
        if prepare::needs_version(target.definition) && meta::text(&body, "resourceVersion").is_empty() {
            let message = "Invalid value: 0: must be specified for an update";
            let cause = ("FieldValueInvalid", "metadata.resourceVersion", message);
            let subject = self.subject(target.table, target.name);
            return Err(Status::invalid(&target.definition.plural, &subject, &[cause]));
        }
        let uid = meta::uid(&body);
        if !uid.is_empty() && uid != meta::uid(&old) {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                meta::uid(&old)
            );
            return Err(Status::conflict(&self.subject(target.table, target.name), &why));
        }
        self.replace(target, &old, body)
    }

    /// Patches an object; an apply may create it.
    pub(crate) fn patch(
        &mut self,
        target: &Target<'_>,
        patch: Patch,
        body: &Value,
    ) -> Result<Outcome, Status> {
        if let Patch::Apply { force } = patch {
            return self.apply(target, body, force);
        }
        let old = self.current(target)?;
        let mut new = Value::clone(&old);
        meta::put(&mut new, "apiVersion", json!(target.version.full_name));
        if patch == Patch::Merge {
            if !body.is_object() {
                return Err(Status::bad_request("a merge patch is an object"));
            }
            merge::merge(&mut new, body);
        } else {
            // A server does not say why.
            let words = "the server rejected our request due to an error in our request";
            merge::patch(&mut new, body).map_err(|_| Status::plain(422, "Invalid", words))?;
        }
        target.check_body(&new)?;
        target.check_name(meta::name(&new))?;
        self.replace(target, &old, new)
    }

    /// Replaces `old` by what a request made of it.
    fn replace(&mut self, target: &Target<'_>, old: &Arc<Value>, mut new: Value) -> Result<Outcome, Status> {
        self.check_preconditions(target, old, &new)?;
        let now = self.clock.now();
        let sent = meta::take(&mut new, "managedFields");
        prepare::prepare(target.definition, target.version, &mut new);
        prepare::on_update(target.definition, target.version, old, &mut new, target.endpoint);
        meta::take(&mut new, "managedFields");
        let mut managers = Managers::sent(&sent)
            .filter(|_| target.endpoint == Endpoint::Main)
            .unwrap_or_else(|| Managers::parse(&old["metadata"]["managedFields"]));
        // Where nobody manages anything, nobody begins to by an update.
        if !managers.is_empty() {
            let writer = target.writer(Operation::Update, &now);
            managers.update(&target.version.schema, old, &new, &writer, target.reach());
        }
        self.finish(target, old, new, managers)
    }

    fn check_preconditions(&self, target: &Target<'_>, old: &Value, new: &Value) -> Result<(), Status> {
        let subject = self.subject(target.table, target.name);
        let version = meta::text(new, "resourceVersion");
        if !version.is_empty() && version != meta::text(old, "resourceVersion") {
            return Err(Status::stale(&subject));
        }
        let uid = meta::uid(new);
        if !uid.is_empty() && uid != meta::uid(old) {
            let message = format!("Invalid value: \"{uid}\": field is immutable");
            let cause = ("FieldValueInvalid", "metadata.uid", message.as_str());
            return Err(Status::invalid(&target.definition.kind, &subject, &[cause]));
        }
        Ok(())
    }

    /// Applies a configuration.
    fn apply(&mut self, target: &Target<'_>, config: &Value, force: bool) -> Result<Outcome, Status> {
        target.check_body(config)?;
        if !meta::name(config).is_empty() {
            target.check_name(meta::name(config))?;
        }
        if !config["metadata"]["managedFields"].is_null() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let now = self.clock.now();
        let writer = target.writer(Operation::Apply, &now);
        let schema = &target.version.schema;
        let subject = self.subject(target.table, target.name);
        let refused = |conflicts: Vec<_>| refusal(&subject, &conflicts);
        let Some(old) = self.get(target.table, &target.key()).cloned() else {
            if target.endpoint != Endpoint::Main {
                return Err(Status::not_found(&subject));
            }
            if !meta::uid(config).is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {}, and no existing object was found",
                    meta::uid(config)
                );
                return Err(Status::conflict(&subject, &why));
            }
            let mut managers = Managers::default();
            let empty = prepare::empty(target.definition, target.version);
            let mut object = managers
                .apply(schema, &empty, config, &writer, target.reach(), force)
                .map_err(refused)?;
            meta::set(&mut object, "name", json!(target.name));
            self.admit(target, &object)?;
            return Ok(self.insert(target, object, Some(managers)));
        };
        self.check_preconditions(target, &old, config)?;
        let mut live = Value::clone(&old);
        meta::put(&mut live, "apiVersion", json!(target.version.full_name));
        let mut managers = Managers::parse(&meta::take(&mut live, "managedFields"));
        if managers.is_empty() {
            let empty = prepare::empty(target.definition, target.version);
            managers = Managers::before_first_apply(schema, &empty, &live, &writer);
        }
        let mut new = managers
            .apply(schema, &live, config, &writer, target.reach(), force)
            .map_err(refused)?;
        if let Some(field) = schema.null(&new).filter(|_| target.definition.custom) {
            let cause = ("FieldValueTypeInvalid", field.as_str(), "Invalid value: \"null\"");
            return Err(Status::invalid(&target.definition.kind, &subject, &[cause]));
        }
        prepare::prepare(target.definition, target.version, &mut new);
        prepare::on_update(target.definition, target.version, &old, &mut new, target.endpoint);
        meta::take(&mut new, "managedFields");
        self.finish(target, &old, new, managers)
    }

    /// Keeps the new version of an object, if it is one.
    fn finish(
        &mut self,
        target: &Target<'_>,
        old: &Arc<Value>,
        mut new: Value,
        managers: Managers,
    ) -> Result<Outcome, Status> {
        if self.karmada.is_some() {
            karmada::complete(target.definition, Some(old), &mut new, &mut self.random);
        }
        prepare::count_generation(target.definition, target.version, old, &mut new);
        prepare::check_update(
            target.definition,
            &self.subject(target.table, target.name),
            old,
            &new,
        )?;
        if !managers.is_empty() {
            meta::set(&mut new, "managedFields", managers.render());
        }
        self.keep_version(target, &mut new);
        let outcome = |object, changed| Outcome {
            object,
            changed,
            created: false,
        };
        if new == **old {
            return Ok(outcome(old.clone(), false));
        }
        if target.dry_run {
            return Ok(outcome(Arc::new(new), false));
        }
        if is_over(target.definition, &new) {
            // The state without finalizers is answered and never kept: watches see the last state that was.
            self.remove(target.table, &target.key());
            return Ok(outcome(Arc::new(new), true));
        }
        let object = self.commit(target.table, &target.key(), new);
        if object["metadata"]["ownerReferences"] != old["metadata"]["ownerReferences"] {
            self.look_after(target.table, &target.key(), &object);
        }
        Ok(outcome(object, true))
    }
}

/// True if nothing holds an object that is to be deleted.
pub(crate) fn is_over(definition: &Definition, object: &Value) -> bool {
    let held_by_content = prepare::is_namespace(definition)
        && object["spec"]["finalizers"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
    meta::is_ending(object) && !meta::has_finalizers(object) && !held_by_content
}
