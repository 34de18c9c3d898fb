//! Requests to the project's control plane.

use super::{
    FIELD_MANAGER, Plane, Resource, meant,
    refusals::{RequestInfo, is_absent},
    unknown,
};
use crate::{
    error::{Error, Kind},
    time::prose,
    view::{Instances, Joined, Object, city_of},
};
use backon::{ExponentialBuilder, Retryable};
use kube::{
    api::{DeleteParams, GetParams, ListParams, PostParams, Preconditions, Request},
    core::{ListMeta, request},
};
use serde::{Deserialize, de::Error as _};
use serde_json::Value;
use std::{collections::BTreeSet, future::Future, time::Duration};

/// The first delay before a request to a busy server is sent again.
const BUSY_DELAY: Duration = Duration::from_millis(100);

/// How often it is sent again.
const BUSY_RETRIES: usize = 5;

impl Plane {
    /// Sends a request, and repeats it while the server is busy. All attempts share the time for one request.
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
        self.list_by(&self.asked("list", kind, ""), false, "").await
    }

    /// Lists the objects of a kind in all namespaces.
    pub(crate) async fn list_all(&self, kind: Resource) -> Result<Vec<Object>, Error> {
        let asked = RequestInfo {
            namespace: None,
            ..self.asked("list", kind, "")
        };
        self.list_by(&asked, false, "").await
    }

    /// Lists the metadata of the objects in the namespace with these labels.
    pub(crate) async fn list_metadata(&self, kind: Resource, labels: &str) -> Result<Vec<Object>, Error> {
        self.list_by(&self.asked("list", kind, ""), true, labels).await
    }

    async fn list_by(
        &self,
        asked: &RequestInfo<'_>,
        is_metadata: bool,
        labels: &str,
    ) -> Result<Vec<Object>, Error> {
        let params = ListParams::default().labels(labels);
        let listed = self.pages(asked, is_metadata, params).await;
        listed
            .map(|list| list.objects)
            .map_err(|error| self.error(&error, asked))
    }

    /// Sends a request about an object.
    async fn send(
        &self,
        asked: &RequestInfo<'_>,
        build: impl Fn(&Request) -> Result<http::Request<Vec<u8>>, request::Error>,
    ) -> kube::Result<Object> {
        let path = Request::new(asked.kind.path(asked.namespace));
        let send = || async {
            let request = build(&path).map_err(kube::Error::BuildRequest)?;
            self.client.request(request).await
        };
        Ok(asked.kind.typed(self.request(send).await?))
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) async fn find(&self, kind: Resource, name: &str) -> Result<Option<Object>, Error> {
        let asked = self.asked("get", kind, name);
        match self
            .send(&asked, |path| path.get(name, &GetParams::default()))
            .await
        {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_absent(&error, kind) => Ok(None),
            Err(error) => Err(self.error(&error, &asked)),
        }
    }

    /// Reads a Workload; if it does not exist, the error names the nearest one.
    pub(crate) async fn workload(&self, name: &str) -> Result<Object, Error> {
        self.get(Resource::Workloads, name).await
    }

    /// Reads an object; if it does not exist, the error names the nearest one.
    pub(crate) async fn get(&self, kind: Resource, name: &str) -> Result<Object, Error> {
        if let Some(found) = self.find(kind, name).await? {
            return Ok(found);
        }
        // The name is not there also for a user who may not list the kind.
        let all = self.list(kind).await.unwrap_or_default();
        let near = meant(name, all.iter().map(Object::name));
        let (project, namespace, noun) = (&self.project, &self.namespace, kind.noun());
        let what = format!("{noun} {name:?} not found in project {project}, namespace {namespace}{near}");
        Err(Error::new(Kind::NotFound, what).next(format!("kubectl compute {}", kind.plural())))
    }

    /// Reads a Workload with its deployments, and all Instances of the namespace.
    pub(crate) async fn joined(&self, name: &str) -> Result<(Joined, Instances), Error> {
        let (workload, deployments, instances) = tokio::try_join!(
            self.workload(name),
            self.list(Resource::Deployments),
            self.list(Resource::Instances)
        )?;
        Ok((Joined::of(workload, deployments), instances.into()))
    }

    /// Writes a Workload as [`Plane::write`] does. With `dry_run` the server only says what it would store. Fields that the
    /// server does not know are refused, by itself or by comparing what it would store.
    pub(crate) async fn store(&self, workload: &Value, exists: bool, dry_run: bool) -> Result<Object, Error> {
        let stored = self.put(Resource::Workloads, workload, exists, dry_run).await?;
        let dropped = unknown::dropped(workload, &stored.0);
        if dry_run && !dropped.is_empty() {
            return Err(unknown::refusal(&dropped));
        }
        Ok(stored)
    }

    /// Writes an object: creates it, or replaces the one with its resourceVersion. A write that somebody else was faster with
    /// is an error of kind `Conflict`.
    pub(crate) async fn write(&self, kind: Resource, object: Value, exists: bool) -> Result<Object, Error> {
        self.put(kind, &kind.typed(object).0, exists, false).await
    }

    async fn put(
        &self,
        kind: Resource,
        object: &Value,
        exists: bool,
        dry_run: bool,
    ) -> Result<Object, Error> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let asked = self.asked(if exists { "update" } else { "create" }, kind, name);
        let params = PostParams {
            dry_run,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let body = object.to_string().into_bytes();
        let build = |path: &Request| {
            let request = if exists {
                path.replace(name, &params, body.clone())
            } else {
                path.create(&params, body.clone())
            };
            if kind == Resource::Workloads {
                strict(request?)
            } else {
                request
            }
        };
        let written = self.send(&asked, build).await;
        written.map_err(|error| self.error(&error, &asked))
    }

    /// Deletes this object and no other of its name. One that is gone already is no error. With `dry_run` the server only
    /// checks the request.
    pub(crate) async fn delete(&self, kind: Resource, object: &Object, dry_run: bool) -> Result<(), Error> {
        let params = DeleteParams {
            dry_run,
            ..DeleteParams::default()
        };
        let params = params.preconditions(Preconditions {
            uid: Some(object.uid().to_owned()),
            resource_version: None,
        });
        let asked = self.asked("delete", kind, object.name());
        match self
            .send(&asked, |path| path.delete(object.name(), &params))
            .await
        {
            Err(error) if !is_absent(&error, kind) => Err(self.error(&error, &asked)),
            _ => Ok(()),
        }
    }

    /// Name of the user, as the server knows it; `unknown` if it does not tell.
    pub(crate) async fn user(&self) -> String {
        let review = || async {
            let path = Request::new("/apis/authentication.k8s.io/v1/selfsubjectreviews");
            let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
            let request = path.create(&PostParams::default(), review.into());
            let request = request.map_err(kube::Error::BuildRequest)?;
            self.client.request::<Value>(request).await
        };
        let review = self.request(review).await.unwrap_or_default();
        let name = review["status"]["userInfo"]["username"].as_str();
        name.unwrap_or("unknown").to_owned()
    }

    /// The locations of the project, of the first kind that tells them and can be listed; empty if none can.
    pub(crate) async fn locations(&self) -> Vec<Object> {
        for kind in Resource::OF_LOCATIONS {
            if let Ok(listed) = self.list_all(kind).await {
                return listed;
            }
        }
        Vec::new()
    }

    /// The cities that have a location; empty if locations cannot be listed.
    pub(crate) async fn cities(&self) -> BTreeSet<String> {
        let locations = self.locations().await;
        let cities = locations.iter().map(city_of).filter(|city| !city.is_empty());
        cities.map(str::to_owned).collect()
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

    /// A request about this object of the namespace, or about all of a kind if the name is empty.
    pub(super) fn asked<'a>(&'a self, verb: &'a str, kind: Resource, name: &'a str) -> RequestInfo<'a> {
        RequestInfo {
            verb,
            kind,
            namespace: Some(&self.namespace),
            name,
        }
    }
}

/// The write with strict validation, for which kube has no parameter: the server refuses fields that it does not know.
fn strict<T>(mut request: http::Request<T>) -> Result<http::Request<T>, request::Error> {
    let uri = format!("{}&fieldValidation=Strict", request.uri()).parse();
    *request.uri_mut() = uri.map_err(|error| request::Error::BuildRequest(http::Error::from(error)))?;
    Ok(request)
}

/// True if a server has no time for a request now.
fn is_busy(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 429 | 503 | 504))
}

fn no_answer(limit: Duration) -> kube::Error {
    kube::Error::Service(format!("no answer within {}", prose(limit)).into())
}

/// Number of objects in a page of a list.
const PAGE: u32 = 500;

/// Code of an answer about a version that is no longer kept.
pub(super) const GONE: u16 = 410;

/// The objects of a list.
#[derive(Debug)]
pub(super) struct List {
    /// The objects.
    pub(super) objects: Vec<Object>,
    /// The version of the list, from which a watch goes on.
    pub(super) version: String,
}

/// A page as it comes.
#[derive(Deserialize)]
struct Page {
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<Value>>,
}

impl Plane {
    /// Reads all pages of a list whose objects the parameters choose, or their metadata alone. Pages that expire are read
    /// again from the first on, once.
    pub(super) async fn pages(
        &self,
        asked: &RequestInfo<'_>,
        is_metadata: bool,
        params: ListParams,
    ) -> kube::Result<List> {
        let path = Request::new(asked.kind.path(asked.namespace));
        let mut params = params.limit(PAGE);
        let (mut objects, mut tokens, mut has_begun_again) = (Vec::new(), BTreeSet::new(), false);
        loop {
            let request = if is_metadata {
                path.list_metadata(&params)
            } else {
                path.list(&params)
            };
            let (client, request) = (self.client.clone(), request.map_err(kube::Error::BuildRequest)?);
            let fetch = move || {
                let (client, request) = (client.clone(), request.clone());
                async move { client.request::<Page>(request).await }
            };
            let page = match self.request(fetch).await {
                Err(kube::Error::Api(status))
                    if status.code == GONE && params.continue_token.is_some() && !has_begun_again =>
                {
                    has_begun_again = true;
                    params.continue_token = None;
                    objects.clear();
                    tokens.clear();
                    continue;
                }
                page => page?,
            };
            if !page.kind.ends_with("List") {
                return Err(undecodable("it is no list"));
            }
            let items = page.items.unwrap_or_default();
            let token = page.metadata.continue_.filter(|token| !token.is_empty());
            let repeats = |token: &String| items.is_empty() || !tokens.insert(token.clone());
            if token.as_ref().is_some_and(repeats) {
                return Err(undecodable("its pages repeat"));
            }
            objects.extend(items.into_iter().map(|item| asked.kind.typed(item)));
            params.continue_token = token;
            if params.continue_token.is_none() {
                let version = page.metadata.resource_version.unwrap_or_default();
                return Ok(List { objects, version });
            }
        }
    }
}

fn undecodable(cause: &str) -> kube::Error {
    kube::Error::SerdeError(serde_json::Error::custom(cause))
}
