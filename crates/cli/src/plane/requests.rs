//! Requests to the project's control plane.

use super::{
    FIELD_MANAGER, Plane, Resource, Scope, nearest,
    pages::{List, Pager, Part, decode},
    refusals::{RequestInfo, is_absent},
    unknown,
};
use crate::{
    error::{Error, Kind},
    time::prose,
    view::Object,
};
use backon::{ExponentialBuilder, Retryable};
use fedgate_api::keys;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Api,
    api::{DeleteParams, GetParams, ListParams, PostParams, Preconditions, Request},
    core::DynamicObject,
};
use serde_json::{Value, json, value::RawValue};
use std::{collections::BTreeSet, future::Future, time::Duration};

/// The first delay before a request to a busy server is sent again.
const BUSY_DELAY: Duration = Duration::from_millis(100);

/// How often it is sent again.
const BUSY_RETRIES: usize = 5;

impl Plane {
    /// Sends a request, again if the server is busy. All of it has the time for one request.
    pub(crate) async fn request<T, F>(&self, send: impl FnMut() -> F) -> kube::Result<T>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let delays = ExponentialBuilder::default()
            .with_min_delay(BUSY_DELAY)
            .with_max_times(BUSY_RETRIES)
            .with_jitter();
        self.bounded(Box::pin(send.retry(delays).when(is_busy))).await
    }

    /// Bounds a request by the time for one request.
    pub(super) async fn bounded<T>(
        &self,
        request: impl IntoFuture<Output = kube::Result<T>>,
    ) -> kube::Result<T> {
        let Some(limit) = self.request_timeout else {
            return request.await;
        };
        let answer = tokio::time::timeout(limit, request).await;
        answer.unwrap_or_else(|_| Err(no_answer(limit)))
    }

    /// Lists the objects of a kind in the namespace, or all if the kind has no namespaces.
    pub(crate) async fn list(&self, kind: Resource) -> Result<Vec<Object>, Error> {
        self.list_in(kind, Scope::Namespace(&self.namespace), "").await
    }

    /// Lists the objects of a kind in this scope with these labels.
    pub(crate) async fn list_in(
        &self,
        kind: Resource,
        scope: Scope<'_>,
        labels: &str,
    ) -> Result<Vec<Object>, Error> {
        self.list_part(kind, scope, Part::Whole, labels).await
    }

    /// Lists the metadata of the objects in the namespace with these labels.
    pub(crate) async fn list_metadata(&self, kind: Resource, labels: &str) -> Result<Vec<Object>, Error> {
        let scope = Scope::Namespace(&self.namespace);
        self.list_part(kind, scope, Part::Metadata, labels).await
    }

    async fn list_part(
        &self,
        kind: Resource,
        scope: Scope<'_>,
        part: Part,
        labels: &str,
    ) -> Result<Vec<Object>, Error> {
        let asked = RequestInfo {
            verb: "list",
            kind,
            scope,
            name: "",
        };
        let mut pager = Pager::new(kind, scope, part, ListParams::default().labels(labels));
        loop {
            let page = self.request(|| pager.fetch(&self.client)).await;
            let list = pager.take(page).map_err(|error| self.error(&error, &asked))?;
            if let Some(List {
                objects, unreadable, ..
            }) = list
            {
                for one in &unreadable {
                    self.leave_out(kind, one);
                }
                return Ok(objects);
            }
        }
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) async fn find(&self, kind: Resource, name: &str) -> Result<Option<Object>, Error> {
        self.find_in(kind, &self.namespace, name).await
    }

    /// Reads an object of a namespace; `None` if it does not exist.
    pub(crate) async fn find_in(
        &self,
        kind: Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>, Error> {
        let scope = Scope::Namespace(namespace);
        let asked = RequestInfo {
            verb: "get",
            kind,
            scope,
            name,
        };
        let read = || async {
            let request = Request::new(kind.path(scope)).get(name, &GetParams::default());
            let text = self
                .client
                .request_text(request.map_err(kube::Error::BuildRequest)?)
                .await?;
            RawValue::from_string(text).map_err(kube::Error::SerdeError)
        };
        match self.request(read).await {
            Ok(raw) => match decode(&raw, kind) {
                Ok(object) => Ok(Some(object)),
                Err(unreadable) => Err(Self::undecodable(kind, &unreadable)),
            },
            Err(error) if is_absent(&error, kind) => Ok(None),
            Err(error) => Err(self.error(&error, &asked)),
        }
    }

    /// Reads a Workload; if it does not exist, the error names the nearest one.
    pub(crate) async fn workload(&self, name: &str) -> Result<Object, Error> {
        if let Some(workload) = self.find(Resource::Workloads, name).await? {
            return Ok(workload);
        }
        // The name is not there also for a user who may not list the Workloads.
        let all = self.list(Resource::Workloads).await.unwrap_or_default();
        let near = nearest(name, all.iter().map(Object::name));
        Err(self.not_found("workload", name, near, "kubectl compute workloads"))
    }

    /// Writes a Workload: creates it, or replaces the one with its resourceVersion. With `dry_run` the server only says what it
    /// would store. A write that somebody else was faster with is an error of kind `Conflict`. Fields that the server does not
    /// know are refused, by itself or by comparing what it would store.
    pub(crate) async fn store(&self, workload: &Value, exists: bool, dry_run: bool) -> Result<Object, Error> {
        let kind = Resource::Workloads;
        let name = workload["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let asked = self.asked(if exists { "update" } else { "create" }, kind, &name);
        let path = Request::new(kind.path(Scope::Namespace(&self.namespace)));
        let body = workload.to_string().into_bytes();
        let write = || async {
            let params = written(dry_run);
            let request = if exists {
                path.replace(&name, &params, body.clone())
            } else {
                path.create(&params, body.clone())
            };
            let request = strict(request.map_err(kube::Error::BuildRequest)?)?;
            self.client.request::<DynamicObject>(request).await
        };
        let stored = self.request(write).await;
        let stored = stored.map_err(|error| self.error(&error, &asked))?;
        let stored = typed(&stored, kind);
        let dropped = unknown::dropped(workload, &stored.0);
        if dry_run && !dropped.is_empty() {
            return Err(unknown::refusal(&dropped));
        }
        Ok(stored)
    }

    /// Creates an object. One of its name that exists is an error of kind `Conflict`.
    pub(crate) async fn create(&self, kind: Resource, mut object: Value) -> Result<Object, Error> {
        let resource = kind.api();
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(resource.kind);
        let object: DynamicObject = serde_json::from_value(object)
            .map_err(|error| Error::usage("the object cannot be sent").because(error.to_string()))?;
        let (api, params) = (self.api(kind), written(false));
        let created = self.request(|| api.create(&params, &object)).await;
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let created = created.map_err(|error| self.error(&error, &self.asked("create", kind, name)))?;
        Ok(typed(&created, kind))
    }

    /// Deletes this Workload and no other of its name. One that is gone already is no error. With `dry_run` the server only
    /// checks the request.
    pub(crate) async fn delete(&self, workload: &Object, dry_run: bool) -> Result<(), Error> {
        let kind = Resource::Workloads;
        let params = DeleteParams {
            dry_run,
            ..DeleteParams::default()
        };
        let params = params.preconditions(Preconditions {
            uid: Some(workload.uid().to_owned()),
            resource_version: None,
        });
        let api = self.api(kind);
        match self.request(|| api.delete(workload.name(), &params)).await {
            Ok(_) => Ok(()),
            Err(error) if is_absent(&error, kind) => Ok(()),
            Err(error) => Err(self.error(&error, &self.asked("delete", kind, workload.name()))),
        }
    }

    /// Name of the user, as the server knows it; `unknown` if it does not tell.
    pub(crate) async fn user(&self) -> crate::history::Actor {
        let reviews: Api<SelfSubjectReview> = Api::all(self.client());
        let (params, review) = (PostParams::default(), SelfSubjectReview::default());
        let review = self.request(|| reviews.create(&params, &review)).await;
        let name = review.ok().and_then(|review| review.status?.user_info?.username);
        crate::history::Actor {
            name: name.unwrap_or_else(|| "unknown".to_owned()),
            client: format!("{FIELD_MANAGER}/{}", env!("CARGO_PKG_VERSION")),
        }
    }

    /// The locations of the project, of the first kind that tells them and can be listed; empty if none can.
    pub(crate) async fn locations(&self) -> Vec<Object> {
        for kind in Resource::OF_LOCATIONS {
            if let Ok(listed) = self.list_in(kind, Scope::All, "").await {
                return listed;
            }
        }
        Vec::new()
    }

    /// The cities that have a location; empty if locations cannot be listed.
    pub(crate) async fn cities(&self) -> BTreeSet<String> {
        let codes = self.locations().await.into_iter().filter_map(|location| {
            let code = &location.0["spec"]["topology"][keys::CITY_CODE];
            code.as_str().map(str::to_owned)
        });
        codes.collect()
    }

    /// The server's version.
    pub(crate) async fn version(&self) -> Result<String, Error> {
        let version = self.request(|| self.client.apiserver_version()).await;
        let version = version.map_err(|error| match &error {
            kube::Error::Api(status) if status.code == 401 => self.refused_credentials(),
            kube::Error::Api(_) => {
                Error::new(Kind::Failed, "cannot read the server's version").because(super::cause(&error))
            }
            // The next step of others is this command.
            _ => self
                .failure(&error, "the server's version")
                .next("kubectl config get-contexts"),
        })?;
        Ok(version.git_version)
    }

    /// The writes of a kind in the namespace.
    fn api(&self, kind: Resource) -> Api<DynamicObject> {
        let client = self.client.clone();
        if kind.is_namespaced() {
            Api::namespaced_with(client, &self.namespace, &kind.api())
        } else {
            Api::all_with(client, &kind.api())
        }
    }

    fn asked<'a>(&'a self, verb: &'a str, kind: Resource, name: &'a str) -> RequestInfo<'a> {
        let scope = Scope::Namespace(&self.namespace);
        RequestInfo {
            verb,
            kind,
            scope,
            name,
        }
    }

    /// An object that does not exist, with the nearest name.
    pub(crate) fn not_found(&self, noun: &str, name: &str, near: Option<&str>, next: &str) -> Error {
        let near = near
            .map(|near| format!("; did you mean {near:?}?"))
            .unwrap_or_default();
        let (project, namespace) = (&self.project, &self.namespace);
        let what = format!("{noun} {name:?} not found in project {project}, namespace {namespace}{near}");
        Error::new(Kind::NotFound, what).next(next)
    }
}

fn written(dry_run: bool) -> PostParams {
    PostParams {
        dry_run,
        field_manager: Some(FIELD_MANAGER.to_owned()),
    }
}

/// The write with strict validation, for which kube has no parameter: the server refuses fields that it does not know.
fn strict<T>(mut request: http::Request<T>) -> kube::Result<http::Request<T>> {
    let uri = format!("{}&fieldValidation=Strict", request.uri());
    *request.uri_mut() = uri
        .parse()
        .map_err(|error| kube::Error::HttpError(http::Error::from(error)))?;
    Ok(request)
}

/// True if a server has no time for a request now.
fn is_busy(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 429 | 503 | 504))
}

fn no_answer(limit: Duration) -> kube::Error {
    kube::Error::Service(format!("no answer within {}", prose(limit)).into())
}

/// The object as the server stored it, with its types.
fn typed(object: &DynamicObject, kind: Resource) -> Object {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    let resource = kind.api();
    value["apiVersion"] = json!(resource.api_version);
    value["kind"] = json!(resource.kind);
    Object(value)
}
