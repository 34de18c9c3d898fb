//! Reads of objects that are not watched: by label, and at a member of a hub through its proxy.

use super::{Call, Executor, creation};
use crate::{error::Failure, key::Plane, object::LenientObject, plan::Target};
use futures::{AsyncBufReadExt, AsyncReadExt};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Api,
    api::{GetParams, ListParams, WatchParams},
    core::{ApiResource, DynamicObject, PartialObjectMeta, Request, Status},
};
use serde::Deserialize;
use std::{pin::pin, time::Duration};

/// Longest time of a watch of one object, in seconds.
const WATCHED_FOR: u32 = 240;

/// Longest time of such a watch if its server does not keep to [`WATCHED_FOR`].
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

/// Limit of the objects with a label of which [`Executor::any`] looks for one.
const MANY: u32 = 100;

/// The objects that a list is of.
#[derive(Debug, Clone, Copy)]
pub enum Selector<'a> {
    /// Objects with this label.
    Label(&'a str, &'a str),
    /// The object with the target's name. A list, because a role that allows list need not allow get.
    Name,
}

impl Selector<'_> {
    fn params(self, target: &Target) -> ListParams {
        match self {
            Self::Label(key, value) => ListParams::default().labels(&format!("{key}={value}")),
            Self::Name => ListParams::default().fields(&format!("metadata.name={}", target.name)),
        }
    }
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
    /// Lists objects of the target's kind and namespace.
    pub async fn list(&self, target: &Target, of: Selector<'_>) -> Result<Listed, Failure> {
        let params = of.params(target);
        let list = |api: Api<LenientObject>| async move { api.list(&params).await };
        let found = self.read(Call::of(target, "list"), list).await?;
        Ok(Listed {
            version: found.metadata.resource_version.unwrap_or_default(),
            objects: found.items.into_iter().map(|read| read.object).collect(),
        })
    }

    /// True if an object of the target's kind and namespace exists that has this name, or that has this label and is not
    /// being deleted.
    pub async fn any(&self, target: &Target, of: Selector<'_>) -> Result<bool, Failure> {
        let mut params = of.params(target);
        let is_labelled = matches!(of, Selector::Label(..));
        params.limit = is_labelled.then_some(MANY);
        let list = |api: Api<LenientObject>| async move { api.list_metadata(&params).await };
        let found = self.read(Call::of(target, "list"), list).await?;
        let counts = |o: &PartialObjectMeta<_>| !is_labelled || o.metadata.deletion_timestamp.is_none();
        // If the list has another page, at least one object is assumed to stay.
        let has_more = found.metadata.continue_.is_some_and(|token| !token.is_empty());
        Ok(has_more || found.items.iter().any(counts))
    }

    /// The name under which a plane knows this process.
    pub async fn own_user(&self, plane: &Plane) -> Result<String, Failure> {
        let reviews = ApiResource::erase::<SelfSubjectReview>(&());
        let target = Target::cluster(plane.clone(), &reviews, "");
        let create = |api: Api<LenientObject>| async move {
            let api = Api::<SelfSubjectReview>::all(api.into_client());
            api.create(&creation(), &SelfSubjectReview::default()).await
        };
        let answer = self.read(Call::of(&target, "create"), create).await?;
        let user = answer.status.and_then(|status| status.user_info);
        Ok(user.and_then(|user| user.username).unwrap_or_default())
    }

    /// Gets an object and returns a refusal as it is: what it proves, its caller knows.
    pub async fn ask(&self, target: &Target) -> Result<Answer, Failure> {
        let call = Call::of(target, "get");
        self.may_write(call)?;
        let api = self.api(call)?;
        let request = Request::new(api.resource_url()).get(&target.name, &GetParams::default());
        let request = request.map_err(|e| call.failure(&kube::Error::BuildRequest(e)))?;
        let read =
            |text: String| LenientObject::read(text.as_bytes(), &["status"]).map_err(kube::Error::SerdeError);
        match api.into_client().request_text(request).await.and_then(read) {
            Ok(found) => Ok(Answer::Found(Box::new(found.object))),
            Err(kube::Error::Api(status)) => Ok(Answer::Refused(status)),
            Err(error) => Err(call.failure(&error)),
        }
    }

    /// Waits for the next change of an object after a version of it: true once there is one, false if the server ends the
    /// watch before, at the latest after [`WATCHED_FOR`].
    pub fn next_change(
        &self,
        target: &Target,
        version: &str,
    ) -> Result<impl Future<Output = bool> + Send + use<>, Failure> {
        let call = Call::of(target, "watch");
        self.may_write(call)?;
        let api = self.api(call)?;
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", target.name))
            .timeout(WATCHED_FOR)
            .disable_bookmarks();
        let request = Request::new(api.resource_url()).watch(&params, version);
        let request = request.map_err(|e| call.failure(&kube::Error::BuildRequest(e)))?;
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
