//! An API server as its administrator reaches it: requests for objects as JSON.

use super::{
    change::{Verb, title},
    error::of_request,
    kubeconfig::Server,
};
use fedgate_api::keys::HUB_IDENTITY;
use fedgate_engine::{
    executor::FIELD_MANAGER,
    plane::kubeconfig::{Credential, Rules},
};
use fedgate_kubeconfig::{LoadError, Loaded, Requests, client_cause, load, load_text};
use fedgate_terminal::error::{Error, Kind};
use http::Response;
use http_body_util::Limited;
use hyper::body::Incoming;
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
    },
    client::ClientBuilder,
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use std::{error::Error as _, path::Path, time::Duration};
use tower::{ServiceBuilder, timeout::TimeoutLayer};

/// Time for one connection, and for a silent answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time for the head of an answer of a server that is not trusted.
const ANSWER: Duration = Duration::from_secs(10);
/// Longest answer of such a server, in bytes: a page of a list, or a whole watch.
const LARGEST: usize = 64 << 20;
/// Objects in one page of a list.
const PAGE: u32 = 500;

/// An API server, with an administrator's credential.
#[derive(Clone)]
pub struct Plane {
    /// Name of the plane for people: `hub`, `cell dfw-1`, `project alpha`.
    pub title: String,
    /// Address of the server in the kubeconfig.
    pub server: String,
    /// PEM bundle of the server's authority.
    pub authority: Vec<u8>,
    client: Client,
    /// True if the server may hurt others by its answers: time and size of answers are limited.
    pub(super) is_limited: bool,
}

/// The kind of objects with this API version and kind.
pub fn kind(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The client of a server, with limits for its answers or without.
pub(super) fn built(client: ClientBuilder<Requests>, is_limited: bool) -> Client {
    if !is_limited {
        return client.build();
    }
    let limits = ServiceBuilder::new()
        .map_response(|answer: Response<Incoming>| answer.map(|body| Limited::new(body, LARGEST)))
        .layer(TimeoutLayer::new(ANSWER));
    client.with_layer(&limits).build()
}

impl Plane {
    /// The id of the cluster: UID of its namespace kube-system.
    pub async fn id(&self) -> Result<String, Error> {
        self.system().await?.ok_or_else(|| {
            Error::failed(format!("{} has no namespace kube-system", self.title))
                .next("wait until the cluster is up, then run the command again")
        })
    }

    /// UID of namespace kube-system.
    async fn system(&self) -> Result<Option<String>, Error> {
        let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HUB_IDENTITY}});
        let found = self.live(&system).await?;
        Ok(found.and_then(|found| found["metadata"]["uid"].as_str().map(str::to_owned)))
    }

    /// The identity of the plane; `None` without that namespace, or if this user may not read it.
    pub async fn id_if_any(&self) -> Result<Option<String>, Error> {
        match self.system().await {
            Err(error) if error.kind == Kind::Forbidden => Ok(None),
            found => found,
        }
    }

    /// Reads the kubeconfig. Sends no request. The file may have whatever kubectl can use, but needs an authority: it is
    /// handed on with each credential.
    pub async fn open(title: &str, path: &Path, context: Option<&str>) -> Result<Self, Error> {
        let unusable = |cause: String| {
            Error::usage(format!("{title}: {} cannot be used", path.display()))
                .because(cause)
                .next("give a kubeconfig with a server, a certificate authority and an administrator's credential")
        };
        let loaded = load(Some(path), context, true).await;
        Self::of(title, loaded, false, unusable)
    }

    /// Reads a kubeconfig of a Secret. Sends no request. A server that answers nothing for [`ANSWER`], or more than
    /// [`LARGEST`] at a time, fails the request.
    ///
    /// # Errors
    /// If the kubeconfig names files, runs a plugin or uses plain http (contract: federation.md §3.2), or lacks an authority.
    pub async fn of_text(title: &str, text: &[u8], rules: Rules) -> Result<Self, Error> {
        let unusable =
            |cause: String| Error::usage(format!("{title}: its kubeconfig cannot be used")).because(cause);
        Credential::from_secret("kubeconfig", "kubeconfig", text, rules)
            .map_err(|error| unusable(error.to_string()))?;
        Self::of(title, load_text(text).await, true, unusable)
    }

    fn of(
        title: &str,
        loaded: Result<Loaded, LoadError>,
        is_limited: bool,
        unusable: impl Fn(String) -> Error,
    ) -> Result<Self, Error> {
        let loaded = loaded.map_err(|error| unusable(told(&error)))?;
        let missing = || unusable("its cluster has no certificate-authority".to_owned());
        let authority = loaded.authority.ok_or_else(missing)?;
        let mut config = loaded.config;
        config.connect_timeout = Some(PATIENCE);
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = fedgate_kubeconfig::client(&config);
        let client = client.map_err(|error| unusable(client_cause(&error, &config)))?;
        let client = built(client, is_limited);
        Ok(Self {
            title: title.to_owned(),
            server,
            authority,
            client,
            is_limited,
        })
    }

    /// The server at this address, which may be another one than that of the kubeconfig.
    pub fn at<'a>(&'a self, url: &'a str) -> Server<'a> {
        Server {
            url,
            authority: &self.authority,
        }
    }

    /// The client, for typed requests and watches.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Objects of a kind, in a namespace or, with an empty one, in all of them.
    pub fn api(&self, kind: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        if namespace.is_empty() {
            Api::all_with(self.client(), kind)
        } else {
            Api::namespaced_with(self.client(), namespace, kind)
        }
    }

    /// The live object with the identity of `like`; `None` if it is not there.
    pub async fn live(&self, like: &Value) -> Result<Option<Value>, Error> {
        let (api, name) = self.place(like);
        let found = api.get_opt(&name).await;
        let found = found.map_err(|error| self.error(&error, &format!("get {}", title(like))))?;
        Ok(found.as_ref().map(|found| value(found, like)))
    }

    /// [`Plane::list`]; nothing if the plane does not serve the kind.
    pub async fn list_if_served(&self, kind: &ApiResource, labels: &str) -> Result<Vec<Value>, Error> {
        let listed = self.list(kind, labels).await;
        self.if_served(kind, listed).await
    }

    /// No objects instead of a 404, if the plane says that it does not serve the kind. A 404 alone proves nothing: a proxy
    /// or a wrong path in the kubeconfig answers so, too.
    pub async fn if_served(
        &self,
        kind: &ApiResource,
        listed: Result<Vec<Value>, Error>,
    ) -> Result<Vec<Value>, Error> {
        match listed {
            Err(error) if error.kind == Kind::NotFound && self.serves(kind).await? => Err(error),
            Err(error) if error.kind == Kind::NotFound => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// True if the plane's discovery names the kind.
    pub(super) async fn serves(&self, kind: &ApiResource) -> Result<bool, Error> {
        let unknown = |error: kube::Error| {
            let what = format!("find out whether {} are served", kind.plural);
            let error = self.error(&error, &what);
            let next = "check the server's address and path in the kubeconfig: /apis has to answer there";
            match error.kind {
                Kind::NotFound => Error {
                    kind: Kind::Failed,
                    ..error.next(next)
                },
                _ => error,
            }
        };
        let groups = self.client.list_api_groups().await.map_err(unknown)?.groups;
        let mut versions = groups.iter().flat_map(|group| &group.versions);
        if !versions.any(|version| version.group_version == kind.api_version) {
            return Ok(false);
        }
        match self.client.list_api_group_resources(&kind.api_version).await {
            Ok(all) => Ok(all.resources.iter().any(|resource| resource.name == kind.plural)),
            // The last definition of the group has gone since /apis was read, so the server has nothing at its path.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(unknown(error)),
        }
    }

    /// The Clusters of a hub.
    pub async fn clusters(&self) -> Result<Vec<Value>, Error> {
        let listed = self.list(&kind(super::cluster::API_VERSION, "Cluster"), "").await;
        listed.map_err(|error| match error.kind {
            Kind::NotFound => {
                error.next("give --hub-kubeconfig of a Karmada API server: this one serves no Clusters")
            }
            _ => error,
        })
    }

    /// All objects of a kind with these labels.
    pub async fn list(&self, kind: &ApiResource, labels: &str) -> Result<Vec<Value>, Error> {
        self.list_in(kind, "", labels).await
    }

    /// All objects of a kind in one namespace, or with an empty one in all, with these labels.
    pub async fn list_in(
        &self,
        kind: &ApiResource,
        namespace: &str,
        labels: &str,
    ) -> Result<Vec<Value>, Error> {
        self.list_matching(kind, namespace, labels, |_| true).await
    }

    /// The objects of [`Plane::list_in`] that match. Objects that do not match are not kept.
    pub async fn list_matching(
        &self,
        kind: &ApiResource,
        namespace: &str,
        labels: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> Result<Vec<Value>, Error> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        let mut params = ListParams::default().labels(labels).limit(PAGE);
        loop {
            let page = self.api(kind, namespace).list(&params).await;
            let page = page.map_err(|error| self.error(&error, &format!("list {}", kind.plural)))?;
            let found = page.items.iter().map(|object| {
                let mut found = value(object, &Value::Null);
                found["apiVersion"] = kind.api_version.clone().into();
                found["kind"] = kind.kind.clone().into();
                found
            });
            let found: Vec<Value> = found.filter(&matches).collect();
            if self.is_limited {
                bytes += found.iter().map(|object| object.to_string().len()).sum::<usize>();
            }
            all.extend(found);
            if bytes > LARGEST {
                let what = format!(
                    "{} lists {} of more than {LARGEST} bytes",
                    self.title, kind.plural
                );
                return Err(Error::failed(what));
            }
            let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
                return Ok(all);
            };
            params = params.continue_token(&token);
        }
    }

    /// Sends one change; the object as the server has it then.
    pub async fn write(&self, verb: Verb, object: &Value) -> Result<Value, Error> {
        let (api, name) = self.place(object);
        let field_manager = Some(FIELD_MANAGER.to_owned());
        let merge = PatchParams {
            field_manager: field_manager.clone(),
            ..PatchParams::default()
        };
        let answer = match verb {
            Verb::Create => {
                let new = serde_json::from_value::<DynamicObject>(object.clone());
                let new = new.map_err(|error| Error::failed(verb.of(object)).because(error.to_string()))?;
                let params = PostParams {
                    field_manager,
                    ..PostParams::default()
                };
                api.create(&params, &new).await
            }
            Verb::ApplyNew | Verb::Apply => {
                let params = PatchParams::apply(FIELD_MANAGER);
                api.patch(&name, &params, &Patch::Apply(object)).await
            }
            Verb::Merge => api.patch(&name, &merge, &Patch::Merge(object)).await,
            Verb::Delete => {
                let params = DeleteParams::background().preconditions(Preconditions {
                    uid: object["metadata"]["uid"].as_str().map(str::to_owned),
                    resource_version: None,
                });
                match api.delete(&name, &params).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Value::Null),
                    Err(error) => Err(error),
                    Ok(_) => return Ok(Value::Null),
                }
            }
        };
        let answer = answer.map_err(|error| self.error(&error, &verb.of(object)))?;
        Ok(value(&answer, object))
    }

    /// Fails if the server would refuse the apply of an object that is there because another manager owns a field of it. The
    /// server stores nothing.
    pub async fn rehearse(&self, verb: Verb, object: &Value) -> Result<(), Error> {
        if verb != Verb::Apply {
            return Ok(());
        }
        let (api, name) = self.place(object);
        let params = PatchParams::apply(FIELD_MANAGER).dry_run();
        let answer = api.patch(&name, &params, &Patch::Apply(object)).await;
        match answer.map_err(|error| self.error(&error, &verb.of(object))) {
            Err(error) if error.kind == Kind::Conflict => Err(error),
            // Not every webhook answers a dry run, and a preview needs no right to write.
            _ => Ok(()),
        }
    }

    /// The error of a request to this plane.
    pub fn error(&self, error: &kube::Error, what: &str) -> Error {
        of_request(error, &format!("{what} on {}", self.title))
    }

    fn place(&self, object: &Value) -> (Api<DynamicObject>, String) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = kind(&text(&object["apiVersion"]), &text(&object["kind"]));
        let api = self.api(&kind, &text(&object["metadata"]["namespace"]));
        (api, text(&object["metadata"]["name"]))
    }
}

/// An object as JSON; servers leave out the kind in lists, so it comes from `like`.
fn value(object: &DynamicObject, like: &Value) -> Value {
    let mut found = serde_json::to_value(object).unwrap_or_default();
    for key in ["apiVersion", "kind"] {
        if found[key].is_null() {
            found[key] = like[key].clone();
        }
    }
    if let Some(metadata) = found["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    found
}

/// The error and its cause in one line.
pub(super) fn told(error: &LoadError) -> String {
    let cause = error
        .source()
        .map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{error}{cause}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use std::convert::Infallible;

    /// A plane that answers a list with 404, `/apis` with these groups, and the group with these resources.
    fn plane(groups: Option<Value>, resources: Option<Value>) -> Plane {
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = match request.uri().path() {
                "/apis" => groups.clone(),
                "/apis/x.example/v1" => resources
                    .clone()
                    .map(|all| json!({"groupVersion": "x.example/v1", "resources": all})),
                _ => None,
            };
            let missing = json!({"kind": "Status", "code": 404, "reason": "NotFound", "status": "Failure",
                "message": "page not found"});
            let code = if answer.is_some() { 200 } else { 404 };
            let body = Body::from(answer.unwrap_or(missing).to_string().into_bytes());
            let response = Response::builder().status(code).body(body);
            async move { Ok::<_, Infallible>(response.expect("it has all parts")) }
        });
        Plane {
            title: "cell dfw-1".to_owned(),
            server: String::new(),
            authority: Vec::new(),
            client: Client::new(service, "default"),
            is_limited: false,
        }
    }

    #[tokio::test]
    async fn a_404_is_an_empty_list_only_if_the_plane_says_that_it_lacks_the_kind() {
        let vaults =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("x.example", "v1", "Vault"), "vaults");
        let groups = |name: &str| {
            let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
            Some(json!({"groups": [{"name": name, "versions": [version], "preferredVersion": version}]}))
        };
        let served = |name: &str| {
            Some(
                json!([{"name": name, "singularName": "", "namespaced": true, "kind": "Vault", "verbs": []}]),
            )
        };
        let list = async |groups, resources| {
            let listed = plane(groups, resources).list_if_served(&vaults, "").await;
            listed.map_err(|error| (error.kind, error.to_string()))
        };
        // A proxy, or the wrong path.
        let (kind, text) = list(None, Some(json!([]))).await.unwrap_err();
        assert_eq!(kind, Kind::Failed);
        assert!(
            text.contains("vaults") && text.contains("/apis has to answer"),
            "{text}"
        );
        let served = list(groups("x.example"), served("vaults")).await.unwrap_err();
        assert_eq!(served.0, Kind::NotFound);
        assert_eq!(list(groups("other.example"), None).await, Ok(vec![]));
        assert_eq!(list(groups("x.example"), Some(json!([]))).await, Ok(vec![]));
        // The definition goes between the two requests of the discovery.
        assert_eq!(list(groups("x.example"), None).await, Ok(vec![]));
    }
}
