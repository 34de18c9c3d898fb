//! The hub's judgement of a request through the proxy: who asks, whether he may, and whether there is such a Cluster.

use crate::{
    front::{
        identity::{self, Identity},
        refusal::{answer, failure, unauthorized},
        serve::{Answer, Caller},
        upstream::Upstream,
    },
    hub,
};
use fedgate_api::keys::STAND_IN;
use http::{HeaderMap, Method, StatusCode};
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewStatus};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, PostParams},
};
use serde_json::json;
use std::collections::BTreeMap;

const GROUP: &str = "cluster.karmada.io";
/// Groups of everybody who is known, and of everybody else.
pub(super) const AUTHENTICATED: &str = "system:authenticated";
pub(super) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The hub's API server, and those of its members.
pub(super) struct Hub {
    pub(super) server: Upstream,
    pub(super) members: BTreeMap<String, Upstream>,
}

impl Hub {
    /// The user of a request.
    pub(super) async fn user(&self, caller: &Caller, headers: &HeaderMap) -> Result<Identity, Answer> {
        match (caller, identity::token(headers)) {
            (Caller::User(user), _) => {
                let mut user = user.clone();
                user.groups.push(AUTHENTICATED.to_owned());
                Ok(user)
            }
            (_, Some(token)) => identity::of_token(&self.server.client, token)
                .await
                .ok_or_else(unauthorized),
            (Caller::Unproven, None) => Err(unauthorized()),
            (Caller::Nobody, None) => Ok(Identity {
                user: "system:anonymous".to_owned(),
                groups: vec![UNAUTHENTICATED.to_owned()],
            }),
        }
    }

    /// Refuses who may not use the proxy of this Cluster, as a kube-apiserver does.
    pub(super) async fn admit(&self, user: &Identity, method: &Method, cluster: &str) -> Result<(), Answer> {
        let verb = verb(method);
        let review: SubjectAccessReview = serde_json::from_value(json!({"spec": {
            "user": user.user, "groups": user.groups,
            "resourceAttributes": {
                "group": GROUP, "version": "v1alpha1", "resource": "clusters", "subresource": "proxy",
                "name": cluster, "verb": verb,
            },
        }}))
        .unwrap_or_default();
        let reviews: Api<SubjectAccessReview> = Api::all(self.server.client.clone());
        match reviews.create(&PostParams::default(), &review).await {
            Ok(review) if review.status.as_ref().is_some_and(|status| status.allowed) => Ok(()),
            Ok(review) => Err(forbidden(user, verb, cluster, review.status)),
            Err(error) => Err(refused(&error)),
        }
    }

    /// The way to the member of a Cluster.
    pub(super) async fn member(&self, name: &str) -> Result<&Upstream, Answer> {
        let clusters: Api<DynamicObject> = Api::all_with(self.server.client.clone(), &hub::clusters());
        let cluster = clusters.get(name).await.map_err(|error| refused(&error))?;
        // The sandbox's own Clusters say neither.
        let spec = &cluster.data["spec"];
        if !cluster.annotations().contains_key(STAND_IN) {
            if spec["apiEndpoint"].as_str().is_none_or(str::is_empty) {
                let words = format!("API endpoint of cluster {name} should not be empty");
                return Err(broken(&words));
            }
            if !spec["impersonatorSecretRef"].is_object() {
                return Err(broken(&format!(
                    "the impersonatorSecretRef of cluster {name} is nil"
                )));
            }
        }
        let member = self.members.get(name);
        member.ok_or_else(|| broken("dial tcp: connect: connection refused"))
    }
}

/// The verb of a request to an object, for which a proxy is one.
fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "get",
    }
}

fn forbidden(
    user: &Identity,
    verb: &str,
    cluster: &str,
    status: Option<SubjectAccessReviewStatus>,
) -> Answer {
    let reason = status
        .and_then(|status| status.reason)
        .filter(|reason| !reason.is_empty());
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let message = format!(
        "clusters.{GROUP} {cluster:?} is forbidden: User {:?} cannot {verb} resource \"clusters/proxy\" in API group \
         {GROUP:?} at the cluster scope{reason}",
        user.user
    );
    let details = json!({"name": cluster, "group": GROUP, "kind": "clusters"});
    failure(StatusCode::FORBIDDEN, "Forbidden", &message, &details)
}

/// An error of the proxy itself: it has neither reason nor details.
pub(super) fn broken(message: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": 500,
    });
    answer(StatusCode::INTERNAL_SERVER_ERROR, &status)
}

/// The hub's own refusal, as it is.
fn refused(error: &kube::Error) -> Answer {
    let kube::Error::Api(status) = error else {
        return broken(&error.to_string());
    };
    let mut body = json!(status);
    body["kind"] = json!("Status");
    body["apiVersion"] = json!("v1");
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer(code, &body)
}
