//! The project's control plane: which one it is, and how it is read.

use crate::{
    error::{Error, Kind},
    time::ServerClock,
    view::Object,
};
use fedgate_api::{GROUP, VERSION};
use kube::{
    Api, Client, Config,
    api::{ApiResource, ListParams, PostParams},
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
    core::DynamicObject,
};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};
use tower::util::MapResponseLayer;

/// The field manager of every write.
const FIELD_MANAGER: &str = "kubectl-compute";

/// Number of objects in a page of a list.
const PAGE: u32 = 500;

/// Path of the control plane of a project at its platform's host.
const PROJECTS: &str = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/";
const CONTROL_PLANE: &str = "/control-plane";

/// The choice of the control plane, from the command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    /// Path of the kubeconfig; `None` for kubectl's own rules.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context; `None` for the current one.
    pub(crate) context: Option<String>,
    /// A project at the context's host; empty if the context is the project.
    pub(crate) project: String,
    /// The namespace; `None` for the context's.
    pub(crate) namespace: Option<String>,
    /// Time for one request.
    pub(crate) request_timeout: Duration,
}

/// A project's control plane.
#[derive(Clone)]
pub(crate) struct Plane {
    client: Client,
    /// The namespace of the command.
    pub(crate) namespace: String,
    /// The project's name for people.
    pub(crate) project: String,
    /// Host and port, for errors.
    host: String,
    context: String,
    /// The server's clock.
    pub(crate) clock: ServerClock,
}

impl std::fmt::Debug for Plane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plane")
            .field("project", &self.project)
            .finish_non_exhaustive()
    }
}

/// Kinds of the compute API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compute {
    /// Workloads.
    Workloads,
    /// The Workload's deployments, one for each placement and city.
    Deployments,
    /// Instances.
    Instances,
}

impl Compute {
    const fn kind(self) -> &'static str {
        match self {
            Self::Workloads => "Workload",
            Self::Deployments => "WorkloadDeployment",
            Self::Instances => "Instance",
        }
    }

    const fn plural(self) -> &'static str {
        match self {
            Self::Workloads => "workloads",
            Self::Deployments => "workloaddeployments",
            Self::Instances => "instances",
        }
    }

    fn resource(self) -> ApiResource {
        ApiResource {
            group: GROUP.to_owned(),
            version: VERSION.to_owned(),
            api_version: format!("{GROUP}/{VERSION}"),
            kind: self.kind().to_owned(),
            plural: self.plural().to_owned(),
        }
    }
}

impl Plane {
    /// Reads the kubeconfig as kubectl does. Sends no request.
    pub(crate) async fn open(choice: &Choice) -> Result<Self, Error> {
        let no_plane = |cause: String| {
            Error::new(Kind::Failed, "no control plane: no context is set")
                .because(cause)
                .next("kubectl config get-contexts")
        };
        let kubeconfig = match &choice.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let kubeconfig = kubeconfig.map_err(|error| no_plane(error.to_string()))?;
        let context = choice
            .context
            .clone()
            .or_else(|| kubeconfig.current_context.clone());
        let context = context.unwrap_or_default();
        let options = KubeConfigOptions {
            context: choice.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(|error| no_plane(error.to_string()))?;
        if !choice.project.is_empty() {
            let host = config.cluster_url.to_string();
            let (origin, _) = host
                .split_once(PROJECTS)
                .unwrap_or((host.trim_end_matches('/'), ""));
            let url = format!("{origin}{PROJECTS}{}{CONTROL_PLANE}", choice.project);
            config.cluster_url = url.parse().map_err(|_| {
                Error::usage(format!(
                    "--project {:?} is not a name of a project",
                    choice.project
                ))
            })?;
        }
        config.read_timeout = Some(choice.request_timeout);
        config.connect_timeout = Some(choice.request_timeout);
        let namespace = choice
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let path = config.cluster_url.path();
        let named = path
            .split_once(PROJECTS)
            .map(|(_, rest)| rest.trim_end_matches(CONTROL_PLANE));
        let project = named.unwrap_or(&context).to_owned();
        let host = config
            .cluster_url
            .authority()
            .map(ToString::to_string)
            .unwrap_or_default();
        let clock = ServerClock::default();
        let observed = clock.clone();
        let builder = ClientBuilder::try_from(config).map_err(|error| no_plane(error.to_string()))?;
        let dates = MapResponseLayer::new(move |response: http::Response<_>| {
            observed.observe(response.headers());
            response
        });
        Ok(Self {
            client: builder.with_layer(&dates).build(),
            namespace,
            project,
            host,
            context,
            clock,
        })
    }

    /// Lists the objects of a kind in the namespace, page by page.
    pub(crate) async fn list(&self, kind: Compute, selector: Option<&str>) -> Result<Vec<Object>, Error> {
        let api = self.api(kind);
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = selector.map(str::to_owned);
        let mut objects = Vec::new();
        loop {
            let page = api
                .list(&params)
                .await
                .map_err(|error| self.error(&error, "list", kind))?;
            objects.extend(page.items.into_iter().map(|object| typed(&object, kind)));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params.continue_token = Some(token),
                _ => return Ok(objects),
            }
        }
    }

    /// Reads a Workload; `None` if it does not exist.
    pub(crate) async fn find_workload(&self, name: &str) -> Result<Option<Object>, Error> {
        let kind = Compute::Workloads;
        let found = self.api(kind).get_opt(name).await;
        let found = found.map_err(|error| self.error(&error, "get", kind))?;
        Ok(found.map(|object| typed(&object, kind)))
    }

    /// The Workload as the server would store it. Writes nothing.
    pub(crate) async fn dry_run(&self, workload: &Value, exists: bool) -> Result<Value, Error> {
        let kind = Compute::Workloads;
        let params = PostParams {
            dry_run: true,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let (api, verb) = (self.api(kind), if exists { "update" } else { "create" });
        let object: DynamicObject = serde_json::from_value(workload.clone())
            .map_err(|error| Error::usage("the Workload is no object").because(error.to_string()))?;
        let name = object.metadata.name.clone().unwrap_or_default();
        let stored = if exists {
            api.replace(&name, &params, &object).await
        } else {
            api.create(&params, &object).await
        };
        let stored = stored.map_err(|error| self.error(&error, verb, kind))?;
        Ok(typed(&stored, kind).0)
    }

    /// Reads a Workload; if it does not exist, the error names the nearest one.
    pub(crate) async fn workload(&self, name: &str) -> Result<Object, Error> {
        if let Some(workload) = self.find_workload(name).await? {
            return Ok(workload);
        }
        let all = self.list(Compute::Workloads, None).await?;
        let near = nearest(name, all.iter().map(Object::name));
        let near = near
            .map(|near| format!("; did you mean {near:?}?"))
            .unwrap_or_default();
        let (project, namespace) = (&self.project, &self.namespace);
        let what = format!("workload {name:?} not found in project {project}, namespace {namespace}{near}");
        Err(Error::new(Kind::NotFound, what).next("kubectl compute workloads"))
    }

    /// The server's version.
    pub(crate) async fn version(&self) -> Result<String, Error> {
        let version = self.client.apiserver_version().await;
        let version = version.map_err(|error| self.unreachable(&error))?;
        Ok(version.git_version)
    }

    fn unreachable(&self, error: &kube::Error) -> Error {
        Error::new(Kind::Failed, format!("cannot reach {}", self.host))
            .because(root(error))
            .next("kubectl config get-contexts")
    }

    fn api(&self, kind: Compute) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource())
    }

    /// Maps a failed request to an error for users.
    fn error(&self, error: &kube::Error, verb: &str, kind: Compute) -> Error {
        let plural = kind.plural();
        let kube::Error::Api(status) = error else {
            return self.unreachable(error).next("kubectl compute version");
        };
        match status.code {
            401 => {
                let what = format!("the credentials of context {} were refused", self.context);
                Error::new(Kind::Forbidden, what)
                    .next(format!("kubectl auth whoami --context {}", self.context))
            }
            403 => {
                let namespace = &self.namespace;
                let what = format!("you may not {verb} {plural} in namespace {namespace}");
                let next = format!("kubectl auth can-i {verb} {plural}.{GROUP} -n {namespace}");
                Error::new(Kind::Forbidden, what)
                    .because(&*status.message)
                    .next(next)
            }
            404 => Error::new(Kind::Failed, "compute is not served by this control plane")
                .next("kubectl config current-context"),
            422 => Error::new(
                Kind::Failed,
                format!("the workload was rejected:{}", faults(status)),
            )
            .next("kubectl compute diff -f FILE"),
            _ => Error::new(Kind::Failed, format!("cannot {verb} {plural}")).because(&*status.message),
        }
    }
}

/// The object with its types, which items of a list lack.
fn typed(object: &DynamicObject, kind: Compute) -> Object {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = json!(format!("{GROUP}/{VERSION}"));
    value["kind"] = json!(kind.kind());
    Object(value)
}

/// The faults of an object that the server rejected, a line each.
fn faults(status: &kube::core::Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let lines: Vec<String> = causes
        .map(|cause| format!("\n  {}: {}", cause.field, cause.message))
        .collect();
    if lines.is_empty() {
        format!("\n  {}", status.message)
    } else {
        lines.concat()
    }
}

/// The innermost cause of an error: the outer ones say that a request failed.
fn root(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The name that differs least, if at most by two letters.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = names.map(|other| (strsim::osa_distance(name, other), other));
    far.filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, other)| other)
}
