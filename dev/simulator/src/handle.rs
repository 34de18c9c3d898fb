//! Requests and their answers, without the ways that lead here.

use crate::{
    definition::Version,
    discovery::discover,
    garbage::{Deleted, Deletion},
    list,
    plane::Shared,
    prepare::{self, Endpoint},
    route::{Call, Verb},
    select::Selector,
    state::State,
    status::Status,
    view::View,
    watch::{Asked, Watch},
    write::{Outcome, Patch, Target},
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// What a request gets.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) content: Content,
    pub(crate) changed: bool,
    pub(crate) uid_precondition: bool,
    /// The name of the object, where the request had none.
    pub(crate) name: Option<String>,
    pub(crate) media_type: &'static str,
    /// Seconds of the `Retry-After` header.
    pub(crate) retry_after: Option<u32>,
}

/// What is in an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Whole(Bytes),
    Watch(Box<Watch>),
}

impl Answer {
    pub(crate) fn new(code: u16, bytes: impl Into<Bytes>) -> Self {
        Self {
            code,
            content: Content::Whole(bytes.into()),
            changed: false,
            uid_precondition: false,
            name: None,
            media_type: "application/json",
            retry_after: None,
        }
    }

    pub(crate) fn refusal(status: &Status) -> Self {
        Self::new(status.code, status.to_value().to_string())
    }

    fn object(code: u16, view: &View, object: &Value, changed: bool) -> Self {
        Self {
            changed,
            ..Self::new(code, view.object(object))
        }
    }
}

/// Carries a request out.
pub(crate) fn handle(plane: &Arc<Shared>, user: &str, call: &Call, body: &[u8]) -> Answer {
    if call.resource.is_empty() {
        return about(plane, call);
    }
    if let Some(answer) = review(call, body) {
        return answer;
    }
    let answer = plane.with_as(user, |state| match Request::read(state, call) {
        Ok(request) => request.carry_out(plane, state, body),
        Err(status) => Err(status),
    });
    answer.unwrap_or_else(|status| match status {
        status if status == Status::no_such_path() && !call.group.is_empty() => nothing_here(),
        status => Answer::refusal(&status),
    })
}

/// The few pages that are no resources.
fn about(plane: &Shared, call: &Call) -> Answer {
    match call.path.trim_end_matches('/') {
        "/version" => {
            let version =
                json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0", "platform": "simulator"});
            Answer::new(200, version.to_string())
        }
        "/healthz" | "/livez" | "/readyz" => Answer::new(200, "ok"),
        path => match discover(&plane.state.lock(), path) {
            Some(page) => Answer::new(200, page.to_string()),
            None if path.starts_with("/apis/") => nothing_here(),
            None => Answer::refusal(&Status::no_such_path()),
        },
    }
}

/// Nobody knows the group or the kind; for groups of custom kinds that is no Status.
fn nothing_here() -> Answer {
    Answer {
        media_type: "text/plain",
        ..Answer::new(404, "404 page not found\n")
    }
}

/// Reviews of one's own name, and of one's own rights: everything is allowed.
fn review(call: &Call, body: &[u8]) -> Option<Answer> {
    let status = match (&*call.group, &*call.resource, call.verb) {
        ("authentication.k8s.io", "selfsubjectreviews", Verb::Create) if !call.manager().is_empty() => {
            json!({"userInfo": {"username": call.manager()}})
        }
        ("authorization.k8s.io", "selfsubjectaccessreviews", Verb::Create) => json!({"allowed": true}),
        ("authorization.k8s.io", "selfsubjectrulesreviews", Verb::Create) => json!({
            "incomplete": false,
            "resourceRules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
            "nonResourceRules": [{"nonResourceURLs": ["*"], "verbs": ["*"]}],
        }),
        _ => return None,
    };
    let mut review: Value = serde_json::from_slice(body).unwrap_or_else(|_| json!({}));
    review["status"] = status;
    Some(Answer::new(201, review.to_string()))
}

/// A request to a kind that the plane has.
struct Request<'a> {
    call: &'a Call,
    table: usize,
    definition: Arc<crate::definition::Definition>,
    view: View,
    endpoint: Endpoint,
}

impl<'a> Request<'a> {
    fn read(state: &State, call: &'a Call) -> Result<Self, Status> {
        let table = state
            .table(&call.group, &call.resource)
            .ok_or_else(Status::no_such_path)?;
        let definition = state.tables[table].definition.clone();
        let version = definition
            .version(&call.version)
            .ok_or_else(Status::no_such_path)?;
        let endpoint = match call.subresource.as_deref() {
            None => Endpoint::Main,
            Some("status") if version.status => Endpoint::Status,
            Some("finalize") if prepare::is_namespace(&definition) => Endpoint::Finalize,
            Some(_) => return Err(Status::not_found(&state.subject(table, &call.name))),
        };
        let whole_kind = matches!(call.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        let misplaced = call.namespace.is_empty() == definition.namespaced;
        if misplaced && !(whole_kind && call.namespace.is_empty()) {
            return Err(Status::no_such_path());
        }
        Ok(Self {
            call,
            table,
            view: View {
                api_version: version.full_name.clone(),
                metadata_only: call.metadata_only,
            },
            endpoint,
            definition,
        })
    }

    fn version(&self) -> Result<&Version, Status> {
        self.definition
            .version(&self.call.version)
            .ok_or_else(Status::no_such_path)
    }

    fn target(&self) -> Result<Target<'_>, Status> {
        Ok(Target {
            table: self.table,
            definition: &self.definition,
            version: self.version()?,
            namespace: &self.call.namespace,
            name: &self.call.name,
            endpoint: self.endpoint,
            manager: self.call.manager(),
            dry_run: self.call.query.get("dryRun") == "All",
        })
    }

    fn key(&self) -> String {
        crate::meta::key(&self.call.namespace, &self.call.name)
    }

    fn selector(&self) -> Result<Selector, Status> {
        let query = &self.call.query;
        Selector::parse(
            &self.call.namespace,
            query.get("labelSelector"),
            query.get("fieldSelector"),
        )
    }

    fn carry_out(&self, plane: &Arc<Shared>, state: &mut State, body: &[u8]) -> Result<Answer, Status> {
        match self.call.verb {
            Verb::Get => {
                let subject = state.subject(self.table, &self.call.name);
                let found = state.get(self.table, &self.key());
                let object = found.ok_or_else(|| Status::not_found(&subject))?;
                Ok(Answer::object(200, &self.view, object, false))
            }
            Verb::List => {
                let bytes = list::list(state, self.table, self.call, &self.selector()?, &self.view)?;
                Ok(Answer::new(200, bytes))
            }
            Verb::Watch => self.watch(plane, state),
            Verb::Create => Ok(self.written(&state.create(&self.target()?, json_body(body)?)?)),
            Verb::Update => {
                let body = json_body(body)?;
                let carried = carries_uid(&body);
                let answer = self.written(&state.update(&self.target()?, body)?);
                Ok(Answer {
                    uid_precondition: carried,
                    ..answer
                })
            }
            Verb::Patch | Verb::Apply => self.patch(state, body),
            Verb::Delete => self.delete(state, body),
            Verb::DeleteCollection => self.delete_all(state, body),
        }
    }

    fn written(&self, outcome: &Outcome) -> Answer {
        let code = if outcome.created { 201 } else { 200 };
        Answer {
            name: Some(crate::meta::name(&outcome.object).to_owned()),
            ..Answer::object(code, &self.view, &outcome.object, outcome.changed)
        }
    }

    fn patch(&self, state: &mut State, body: &[u8]) -> Result<Answer, Status> {
        let content_type = self.call.content_type.split(';').next().unwrap_or_default();
        let patch = match content_type.trim() {
            "application/merge-patch+json" => Patch::Merge,
            "application/json-patch+json" => Patch::Json,
            "application/apply-patch+yaml" => Patch::Apply {
                force: self.call.query.is("force"),
            },
            _ => return Err(Status::media_type()),
        };
        if matches!(patch, Patch::Apply { .. }) && self.call.query.get("fieldManager").is_empty() {
            let cause = (
                "FieldValueRequired",
                "fieldManager",
                "Required value: is required for apply patch",
            );
            let subject = crate::status::Subject {
                group: "meta.k8s.io",
                resource: "",
                name: "",
            };
            return Err(Status::invalid("PatchOptions", &subject, &[cause]));
        }
        let body = json_body(body)?;
        let answer = self.written(&state.patch(&self.target()?, patch, &body)?);
        Ok(Answer {
            uid_precondition: carries_uid(&body),
            ..answer
        })
    }

    fn delete(&self, state: &mut State, body: &[u8]) -> Result<Answer, Status> {
        let how = self.deletion(body)?;
        let deleted = state.delete(self.table, &self.key(), &how)?;
        let uid_precondition = how.uid.is_some();
        let answer = if deleted.gone && !prepare::is_namespace(&self.definition) {
            self.gone(&deleted)
        } else {
            Answer::object(200, &self.view, &deleted.object, deleted.changed)
        };
        Ok(Answer {
            uid_precondition,
            ..answer
        })
    }

    fn gone(&self, deleted: &Deleted) -> Answer {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {
                "name": self.call.name,
                "kind": self.call.resource,
                "uid": crate::meta::uid(&deleted.object),
            },
        });
        if !self.call.group.is_empty() {
            status["details"]["group"] = json!(self.call.group);
        }
        Answer {
            changed: deleted.changed,
            ..Answer::new(200, status.to_string())
        }
    }

    fn deletion(&self, body: &[u8]) -> Result<Deletion, Status> {
        let options = if body.is_empty() {
            Value::Null
        } else {
            json_body(body)?
        };
        let query = &self.call.query;
        let propagation = Some(query.get("propagationPolicy")).filter(|policy| !policy.is_empty());
        Ok(Deletion::parse(
            &options,
            propagation,
            query.get("dryRun") == "All",
        ))
    }

    fn delete_all(&self, state: &mut State, body: &[u8]) -> Result<Answer, Status> {
        let (how, selector) = (self.deletion(body)?, self.selector()?);
        // What is answered is the selection as it was.
        let bytes = list::list(state, self.table, self.call, &selector, &self.view)?;
        let all = state.tables[self.table].objects.iter();
        let chosen = all.filter(|(_, object)| selector.matches(object));
        let keys: Vec<Box<str>> = chosen.map(|(key, _)| key.clone()).collect();
        let mut changed = false;
        for key in keys {
            changed |= state.delete(self.table, &key, &how)?.changed;
        }
        Ok(Answer {
            changed,
            ..Answer::new(200, bytes)
        })
    }

    fn watch(&self, plane: &Arc<Shared>, state: &mut State) -> Result<Answer, Status> {
        let query = &self.call.query;
        let from = query.number("resourceVersion")?.filter(|revision| *revision > 0);
        let bookmarks = query.is("allowWatchBookmarks");
        let initial = query.is("sendInitialEvents");
        list::check(query, true)?;
        let asked = Asked {
            table: self.table,
            selector: self.selector()?,
            view: self.view.clone(),
            from: from.filter(|_| !initial),
            bookmarks,
            initial_end: initial && bookmarks,
            timeout: query.number("timeoutSeconds")?.map(Duration::from_secs),
        };
        let watch = Watch::open(plane, state, asked)?;
        Ok(Answer {
            content: Content::Watch(Box::new(watch)),
            ..Answer::new(200, Bytes::new())
        })
    }
}

fn carries_uid(body: &Value) -> bool {
    let mut operations = body.as_array().into_iter().flatten();
    !crate::meta::uid(body).is_empty() || operations.any(|operation| operation["path"] == "/metadata/uid")
}

fn json_body(body: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(body)
        .map_err(|error| Status::bad_request(format!("the body of the request is no JSON: {error}")))
}
