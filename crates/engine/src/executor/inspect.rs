//! Reads of objects that are not watched: by label, and at a member of a hub through its proxy.

use super::{Executor, creation, failure};
use crate::{
    error::Failure,
    key::Plane,
    object::LenientObject,
    plan::{Endpoint, Target},
};
use futures::{AsyncBufReadExt, AsyncReadExt};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Api,
    api::{GetParams, ListParams, WatchParams},
    core::{ApiResource, DynamicObject, Request, Status},
};
use serde::Deserialize;
use std::{pin::pin, time::Duration};

/// Longest time of a watch of one object, in seconds.
const WATCHED_FOR: u32 = 240;

/// The same, for a server that does not keep to it.
const WATCH_LIMIT: Duration = Duration::from_secs(WATCHED_FOR as u64 + 10);

/// Maximum size of an event of such a watch in bytes.
const EVENT_BYTES: u64 = 2 * 1024 * 1024;

/// An event of a watch, of which only the type is read.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
}

/// Answer of an API server to a GET, which a proxy has passed on or has answered itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The object, without its status.
    Found(Box<DynamicObject>),
    /// A refusal, which may be a proxy's.
    Refused(Box<Status>),
}

/// The objects that a list is of.
#[derive(Debug, Clone, Copy)]
pub enum Selector<'a> {
    /// Those with this label.
    Label(&'a str, &'a str),
    /// That of the target's name.
    Name,
}

/// Answer to a list.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The objects.
    pub objects: Vec<DynamicObject>,
    /// The resourceVersion of the list: a watch from there misses nothing.
    pub version: String,
}

/// The resource of a member's objects as a hub's proxy serves it (the `Cluster` of Karmada has a subresource `proxy`).
pub fn at_member(member: &str, of: &ApiResource, namespace: &str) -> ApiResource {
    let root = if of.group.is_empty() { "api" } else { "apis" };
    ApiResource {
        group: "cluster.karmada.io".into(),
        version: "v1alpha1".into(),
        api_version: "cluster.karmada.io/v1alpha1".into(),
        kind: of.kind.clone(),
        plural: format!(
            "clusters/{member}/proxy/{root}/{}/namespaces/{namespace}/{}",
            of.api_version, of.plural
        ),
    }
}

impl Executor {
    /// Lists objects of the target's kind and namespace. A standby reads nothing.
    pub async fn list(&self, target: &Target, of: Selector<'_>) -> Result<Listed, Failure> {
        self.may_write(target, "list")?;
        let api = self.api(target, Endpoint::Main, "list")?;
        let params = match of {
            Selector::Label(key, value) => ListParams::default().labels(&format!("{key}={value}")),
            Selector::Name => ListParams::default().fields(&format!("metadata.name={}", target.name)),
        };
        let answer = api.list(&params).await.map_err(|e| failure(target, "list", &e));
        self.ended(target, Endpoint::Main, "list", answer.as_ref().err());
        answer.map(|found| Listed {
            version: found.metadata.resource_version.unwrap_or_default(),
            objects: found
                .items
                .into_iter()
                .map(|read: LenientObject| read.object)
                .collect(),
        })
    }

    /// The name under which a plane knows this process.
    pub async fn own_user(&self, plane: &Plane) -> Result<String, Failure> {
        let reviews = ApiResource::erase::<SelfSubjectReview>(&());
        let target = Target::cluster(plane.clone(), &reviews, "");
        self.may_write(&target, "create")?;
        let client = self.api(&target, Endpoint::Main, "create")?.into_client();
        let answer = Api::<SelfSubjectReview>::all(client)
            .create(&creation(), &SelfSubjectReview::default())
            .await
            .map_err(|e| failure(&target, "create", &e));
        self.ended(&target, Endpoint::Main, "create", answer.as_ref().err());
        let user = answer?.status.and_then(|status| status.user_info);
        Ok(user.and_then(|user| user.username).unwrap_or_default())
    }

    /// Gets an object and returns a refusal as it is: what it proves, its caller knows.
    pub async fn ask(&self, target: &Target) -> Result<Answer, Failure> {
        self.may_write(target, "get")?;
        let api = self.api(target, Endpoint::Main, "get")?;
        let request = Request::new(api.resource_url()).get(&target.name, &GetParams::default());
        let request = request.map_err(|e| failure(target, "get", &kube::Error::BuildRequest(e)))?;
        let read =
            |text: String| LenientObject::read(text.as_bytes(), &["status"]).map_err(kube::Error::SerdeError);
        match api.into_client().request_text(request).await.and_then(read) {
            Ok(found) => Ok(Answer::Found(Box::new(found.object))),
            Err(kube::Error::Api(status)) => Ok(Answer::Refused(status)),
            Err(error) => Err(failure(target, "get", &error)),
        }
    }

    /// Waits for the next change of an object after a version of it: true once there is one, false if the server ends the
    /// watch before, at the latest after [`WATCHED_FOR`].
    pub fn next_change(
        &self,
        target: &Target,
        version: &str,
    ) -> Result<impl Future<Output = bool> + Send + use<>, Failure> {
        self.may_write(target, "watch")?;
        let api = self.api(target, Endpoint::Main, "watch")?;
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", target.name))
            .timeout(WATCHED_FOR)
            .disable_bookmarks();
        let request = Request::new(api.resource_url()).watch(&params, version);
        let request = request.map_err(|e| failure(target, "watch", &kube::Error::BuildRequest(e)))?;
        Ok(async move {
            let Ok(events) = api.into_client().request_stream(request).await else {
                return false;
            };
            let mut line = Vec::new();
            let mut events = pin!(events.take(EVENT_BYTES));
            // A server that does not end the watch itself is not waited for.
            let first = tokio::time::timeout(WATCH_LIMIT, events.read_until(b'\n', &mut line)).await;
            let event = match first {
                Ok(Ok(_)) => serde_json::from_slice::<Event>(&line).ok(),
                Ok(Err(_)) | Err(_) => None,
            };
            event.is_some_and(|event| event.kind != "ERROR")
        })
    }
}
