//! Requests to the project's control plane.

use super::{FIELD_MANAGER, PAGE, Plane, Resource, nearest};
use crate::{
    error::{Error, Kind},
    view::Object,
};
use fedgate_api::keys;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
    core::DynamicObject,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

impl Plane {
    /// Lists the objects of a kind in the namespace, or all if the kind has no namespaces, page by page.
    pub(crate) async fn list(&self, kind: Resource) -> Result<Vec<Object>, Error> {
        self.list_in(kind, &self.namespace, "").await
    }

    /// Lists the objects of a kind in a namespace, or in all if that is empty, with these labels, page by page.
    pub(crate) async fn list_in(
        &self,
        kind: Resource,
        namespace: &str,
        labels: &str,
    ) -> Result<Vec<Object>, Error> {
        let api = self.api(kind, namespace);
        let mut params = ListParams::default().limit(PAGE).labels(labels);
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

    /// Lists the metadata of the objects in the namespace with these labels, page by page.
    pub(crate) async fn list_metadata(&self, kind: Resource, labels: &str) -> Result<Vec<Object>, Error> {
        let api = self.api(kind, &self.namespace);
        let mut params = ListParams::default().limit(PAGE).labels(labels);
        let mut objects = Vec::new();
        loop {
            let page = api.list_metadata(&params).await;
            let page = page.map_err(|error| self.error(&error, "list", kind))?;
            let values = page.items.iter().map(serde_json::to_value);
            objects.extend(values.filter_map(Result::ok).map(Object));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params.continue_token = Some(token),
                _ => return Ok(objects),
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
        let found = self.api(kind, namespace).get_opt(name).await;
        let found = found.map_err(|error| self.error(&error, "get", kind))?;
        Ok(found.map(|object| typed(&object, kind)))
    }

    /// Reads a Workload; if it does not exist, the error names the nearest one.
    pub(crate) async fn workload(&self, name: &str) -> Result<Object, Error> {
        if let Some(workload) = self.find(Resource::Workloads, name).await? {
            return Ok(workload);
        }
        let all = self.list(Resource::Workloads).await?;
        let near = nearest(name, all.iter().map(Object::name));
        Err(self.not_found("workload", name, near, "kubectl compute workloads"))
    }

    /// Writes a Workload: creates it, or replaces the one with its resourceVersion. With `dry_run` the server only says what it
    /// would store. A write that somebody else was faster with is an error of kind `Conflict`.
    pub(crate) async fn store(&self, workload: &Value, exists: bool, dry_run: bool) -> Result<Object, Error> {
        let kind = Resource::Workloads;
        let params = PostParams {
            dry_run,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let (api, verb) = (
            self.api(kind, &self.namespace),
            if exists { "update" } else { "create" },
        );
        let object: DynamicObject = serde_json::from_value(workload.clone())
            .map_err(|error| Error::usage("the Workload is no object").because(error.to_string()))?;
        let name = object.metadata.name.clone().unwrap_or_default();
        let stored = if exists {
            api.replace(&name, &params, &object).await
        } else {
            api.create(&params, &object).await
        };
        let stored = stored.map_err(|error| self.error(&error, verb, kind))?;
        Ok(typed(&stored, kind))
    }

    /// Creates an object. One of its name that exists is an error of kind `Conflict`.
    pub(crate) async fn create(&self, kind: Resource, mut object: Value) -> Result<Object, Error> {
        let resource = kind.api();
        object["apiVersion"] = json!(resource.api_version);
        object["kind"] = json!(resource.kind);
        let object: DynamicObject = serde_json::from_value(object)
            .map_err(|error| Error::usage("the object cannot be sent").because(error.to_string()))?;
        let params = PostParams {
            dry_run: false,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let created = self.api(kind, &self.namespace).create(&params, &object).await;
        let created = created.map_err(|error| self.error(&error, "create", kind))?;
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
        match self
            .api(kind, &self.namespace)
            .delete(workload.name(), &params)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) => match self.error(&error, "delete", kind) {
                error if error.kind == Kind::NotFound => Ok(()),
                error => Err(error),
            },
        }
    }

    /// Name of the user, as the server knows it; `unknown` if it does not tell.
    pub(crate) async fn user(&self) -> crate::history::Actor {
        let reviews: Api<SelfSubjectReview> = Api::all(self.client());
        let review = reviews
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await;
        let name = review.ok().and_then(|review| review.status?.user_info?.username);
        crate::history::Actor {
            name: name.unwrap_or_else(|| "unknown".to_owned()),
            client: format!("{FIELD_MANAGER}/{}", env!("CARGO_PKG_VERSION")),
        }
    }

    /// The cities that have a Location; empty if Locations cannot be listed.
    pub(crate) async fn cities(&self) -> BTreeSet<String> {
        let listed = self.list_in(Resource::Locations, "", "").await;
        let codes = listed.into_iter().flatten().filter_map(|location| {
            let code = &location.0["spec"]["topology"][keys::CITY_CODE];
            code.as_str().map(str::to_owned)
        });
        codes.collect()
    }

    /// The server's version.
    pub(crate) async fn version(&self) -> Result<String, Error> {
        let version = self.client.apiserver_version().await;
        let version = version.map_err(|error| self.unreachable(&error))?;
        Ok(version.git_version)
    }

    /// The requests of a kind in a namespace, or in all if that is empty.
    pub(super) fn api(&self, kind: Resource, namespace: &str) -> Api<DynamicObject> {
        let client = self.client.clone();
        if namespace.is_empty() || !kind.is_namespaced() {
            Api::all_with(client, &kind.api())
        } else {
            Api::namespaced_with(client, namespace, &kind.api())
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

/// The object with its types, which items of a list lack.
pub(super) fn typed(object: &DynamicObject, kind: Resource) -> Object {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    let resource = kind.api();
    value["apiVersion"] = json!(resource.api_version);
    value["kind"] = json!(resource.kind);
    Object(value)
}
