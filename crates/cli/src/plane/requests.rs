//! Requests to the project's control plane.

use super::{Compute, FIELD_MANAGER, PAGE, Plane, nearest};
use crate::{
    error::{Error, Kind},
    view::Object,
};
use fedgate_api::{GROUP, VERSION, keys};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, ListParams, PostParams, Preconditions},
    core::DynamicObject,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

impl Plane {
    /// Lists the objects of a kind in the namespace, page by page.
    pub(crate) async fn list(&self, kind: Compute) -> Result<Vec<Object>, Error> {
        let api = self.api(kind);
        let mut params = ListParams::default().limit(PAGE);
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

    /// Reads an object; `None` if it does not exist.
    pub(crate) async fn find(&self, kind: Compute, name: &str) -> Result<Option<Object>, Error> {
        let found = self.api(kind).get_opt(name).await;
        let found = found.map_err(|error| self.error(&error, "get", kind))?;
        Ok(found.map(|object| typed(&object, kind)))
    }

    /// Reads a Workload; if it does not exist, the error names the nearest one.
    pub(crate) async fn workload(&self, name: &str) -> Result<Object, Error> {
        if let Some(workload) = self.find(Compute::Workloads, name).await? {
            return Ok(workload);
        }
        let all = self.list(Compute::Workloads).await?;
        let near = nearest(name, all.iter().map(Object::name));
        Err(self.not_found("workload", name, near, "kubectl compute workloads"))
    }

    /// Writes a Workload: creates it, or replaces the one with its resourceVersion. With `dry_run` the server only says what it
    /// would store. A write that somebody else was faster with is an error of kind `Conflict`.
    pub(crate) async fn store(&self, workload: &Value, exists: bool, dry_run: bool) -> Result<Object, Error> {
        let kind = Compute::Workloads;
        let params = PostParams {
            dry_run,
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
        Ok(typed(&stored, kind))
    }

    /// Deletes this Workload and no other of its name. One that is gone already is no error.
    pub(crate) async fn delete(&self, workload: &Object) -> Result<(), Error> {
        let kind = Compute::Workloads;
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(workload.uid().to_owned()),
            resource_version: None,
        });
        match self.api(kind).delete(workload.name(), &params).await {
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
        let resource = ApiResource {
            group: "networking.datumapis.com".to_owned(),
            version: VERSION.to_owned(),
            api_version: format!("networking.datumapis.com/{VERSION}"),
            kind: "Location".to_owned(),
            plural: "locations".to_owned(),
        };
        let locations: Api<DynamicObject> = Api::all_with(self.client(), &resource);
        let listed = locations.list(&ListParams::default()).await;
        let codes = listed.into_iter().flatten().filter_map(|location| {
            let code = &location.data["spec"]["topology"][keys::CITY_CODE];
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

    fn api(&self, kind: Compute) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource())
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
pub(super) fn typed(object: &DynamicObject, kind: Compute) -> Object {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = json!(format!("{GROUP}/{VERSION}"));
    value["kind"] = json!(kind.kind_name());
    Object(value)
}
