//! `--admin-auth=hub`: the hub says whose a token is, and what that user may ask (contract: operations.md §2.7 rule 2).

use super::access::Right;
use crate::operations::Refusal;
use fedgate_engine::plane::client::Connection;
use fedgate_operations::ErrorCode;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Resource, api::PostParams};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, fmt, time::Duration};
use tokio::time::Instant;

/// API group of the resources in roles.
const GROUP: &str = "operations.fedgate.dev";
/// How long a verdict is kept.
const KEPT: Duration = Duration::from_secs(60);
/// How long a refusal is kept.
const REFUSAL_KEPT: Duration = Duration::from_secs(10);
/// Maximum number of kept verdicts of each kind.
const VERDICTS: usize = 1_000;
/// Maximum number of reviews in a second.
const RATE: u32 = 5;
/// Time limit of a review.
const REVIEW_WITHIN: Duration = Duration::from_secs(2);
/// Longest token that is reviewed, in bytes.
const TOKEN_LIMIT: usize = 16 * 1024;

/// SHA-256 of a token: tokens themselves are not kept.
type Hash = [u8; 32];

/// The hub's verdicts.
pub(super) struct Reviews {
    hub: Connection,
    users: Mutex<Kept<Hash, Option<UserInfo>>>,
    rights: Mutex<Kept<(Hash, Right), bool>>,
    rate: Mutex<(Instant, u32)>,
}

/// Verdicts until they expire.
struct Kept<K, V>(BTreeMap<K, (Instant, V)>);

impl<K: Ord + Clone, V: Clone> Kept<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        let (until, value) = self.0.get(key)?;
        (*until > Instant::now()).then(|| value.clone())
    }

    /// Keeps a verdict. When the place is used up, the one that expires first makes way.
    fn put(&mut self, key: K, value: V, kept: Duration) {
        let now = Instant::now();
        if self.0.len() >= VERDICTS {
            self.0.retain(|_, (until, _)| *until > now);
        }
        if self.0.len() >= VERDICTS {
            let first = self.0.iter().min_by_key(|(_, (until, _))| *until);
            if let Some(first) = first.map(|(key, _)| key.clone()) {
                self.0.remove(&first);
            }
        }
        self.0.insert(key, (now + kept, value));
    }
}

impl fmt::Debug for Reviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reviews")
    }
}

impl Reviews {
    /// Reviews by this hub.
    pub(super) fn by(hub: Connection) -> Self {
        Self {
            hub,
            users: Mutex::new(Kept(BTreeMap::new())),
            rights: Mutex::new(Kept(BTreeMap::new())),
            rate: Mutex::new((Instant::now(), 0)),
        }
    }

    /// An error unless the token's user has the permission; without one the user alone counts.
    pub(super) async fn admit(&self, token: &str, right: Option<Right>) -> Result<(), Refusal> {
        if token.is_empty() || token.len() > TOKEN_LIMIT {
            return Err(unknown_token());
        }
        let hash: Hash = Sha256::digest(token).into();
        let user = self.user(hash, token).await?.ok_or_else(unknown_token)?;
        let Some(right) = right else {
            return Ok(());
        };
        if self.may(hash, user, &right).await? {
            return Ok(());
        }
        let (resource, project) = (right.resource, right.project);
        let of = if project.is_empty() {
            "of all projects".to_owned()
        } else {
            format!("of project {project:?}")
        };
        Err(Refusal::new(
            ErrorCode::Forbidden,
            format!("this user may not get {resource}.{GROUP} {of} on the hub"),
            "name a project that it may see, or bind it to the ClusterRole fedgate-operations-viewer on the hub",
        ))
    }

    async fn user(&self, hash: Hash, token: &str) -> Result<Option<UserInfo>, Refusal> {
        if let Some(user) = self.users.lock().get(&hash) {
            return Ok(user);
        }
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let status = self.review(review).await?.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        let kept = if user.is_some() { KEPT } else { REFUSAL_KEPT };
        self.users.lock().put(hash, user.clone(), kept);
        Ok(user)
    }

    async fn may(&self, hash: Hash, user: UserInfo, right: &Right) -> Result<bool, Refusal> {
        let key = (hash, right.clone());
        if let Some(allowed) = self.rights.lock().get(&key) {
            return Ok(allowed);
        }
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                groups: user.groups,
                uid: user.uid,
                extra: user.extra,
                resource_attributes: Some(ResourceAttributes {
                    verb: Some("get".to_owned()),
                    group: Some(GROUP.to_owned()),
                    resource: Some(right.resource.to_owned()),
                    name: Some(right.project.clone()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let status = self.review(review).await?.status.unwrap_or_default();
        let allowed = status.allowed && status.denied != Some(true);
        let kept = if allowed { KEPT } else { REFUSAL_KEPT };
        self.rights.lock().put(key, allowed, kept);
        Ok(allowed)
    }

    /// Sends a review to the hub.
    async fn review<T>(&self, review: T) -> Result<T, Refusal>
    where
        T: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
            + Clone
            + fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        if !self.has_permit() {
            return Err(Refusal::busy(format!(
                "the hub is asked for {RATE} reviews in a second at most"
            )));
        }
        let api: Api<T> = Api::all(self.hub.current().client());
        let post = PostParams::default();
        let answer = tokio::time::timeout(REVIEW_WITHIN, api.create(&post, &review)).await;
        let error = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error.to_string(),
            Err(elapsed) => elapsed.to_string(),
        };
        let resource = T::plural(&());
        tracing::warn!(
            error,
            %resource,
            "the hub does not review a token of the operations API; for a denied create apply manifests/hub/admin-auth"
        );
        Err(Refusal::new(
            ErrorCode::Unavailable,
            format!("the hub does not answer create {resource}"),
            "ask again in a second, or use the token of --admin-token-file; the log has the reason",
        ))
    }

    /// Number of kept verdicts of one kind.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.users.lock().0.len()
    }

    fn has_permit(&self) -> bool {
        let now = Instant::now();
        let mut rate = self.rate.lock();
        if now.duration_since(rate.0) >= Duration::from_secs(1) {
            *rate = (now, 0);
        }
        rate.1 += 1;
        rate.1 <= RATE
    }
}

fn unknown_token() -> Refusal {
    Refusal::new(
        ErrorCode::Unauthorized,
        "neither the token of --admin-token-file nor one that the hub knows",
        "send a token of the hub, or that of --admin-token-file: Authorization: Bearer <token>",
    )
}
