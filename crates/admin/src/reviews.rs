//! `--admin-auth=hub`: the hub says whose a token is, and what that user may ask (contract: operations.md §2.7 rule 2).

use crate::api::{Refusal, Target, User};
use axum::http::request::Parts;
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
use std::{collections::BTreeMap, fmt, net::IpAddr, time::Duration};
use tokio::time::Instant;

/// API group of the resources in roles.
const GROUP: &str = "operations.fedgate.dev";
/// How long a verdict is kept.
const KEPT: Duration = Duration::from_secs(60);
/// How long a refusal is kept.
const REFUSAL_KEPT: Duration = Duration::from_secs(10);
/// How long a token that the hub has confirmed is told from those that it has never seen.
const CONFIRMED: Duration = Duration::from_secs(60 * 60);
/// Maximum number of kept verdicts of each kind.
const VERDICTS: usize = 1_000;
/// Maximum number of reviews in a second for a user that the hub has confirmed.
const OF_USER: u32 = 10;
/// Maximum number of reviews in a second for unconfirmed tokens of an address.
const OF_ADDRESS: u32 = 2;
/// Maximum number of reviews in a second for unconfirmed tokens.
const UNCONFIRMED: u32 = 20;
/// Time limit of a review.
const REVIEW_WITHIN: Duration = Duration::from_secs(2);
/// Longest token that is reviewed, in bytes.
const TOKEN_LIMIT: usize = 16 * 1024;

/// SHA-256 of a token: tokens themselves are not kept.
type Hash = [u8; 32];

/// The permission that a request needs: a resource, and the project that it names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    resource: &'static str,
    project: String,
}

impl Right {
    /// The permission of a path; `None` for a path that does not exist.
    pub(super) async fn of(parts: &Parts) -> Result<Option<Self>, Refusal> {
        let of_all = |resource| Right {
            resource,
            project: String::new(),
        };
        match parts.uri.path() {
            "/metrics" => return Ok(Some(of_all("metrics"))),
            "/debug/planes" => return Ok(Some(of_all("planes"))),
            _ => {}
        }
        let target = Target::of(parts).await?;
        Ok(target.map(|target| Self {
            resource: target.route.resource(),
            project: target
                .project(parts.uri.query().unwrap_or_default())
                .unwrap_or_default(),
        }))
    }
}

/// The hub's verdicts.
pub(super) struct Reviews {
    hub: Connection,
    /// Users of confirmed tokens, and when the hub confirmed them last.
    users: Mutex<Kept<Hash, (Instant, UserInfo)>>,
    refused: Mutex<Kept<Hash, ()>>,
    rights: Mutex<Kept<(Hash, Right), bool>>,
    of_users: Mutex<Shares<Option<String>>>,
    unconfirmed: Mutex<Shares<IpAddr>>,
}

/// Reviews of the present second by whom they are for, so that nobody uses up those of others.
struct Shares<K> {
    since: Instant,
    taken: BTreeMap<K, u32>,
}

impl<K: Ord> Shares<K> {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            taken: BTreeMap::new(),
        }
    }

    /// Takes a review; false if `one` has had `each` in this second, or all together have had `total`.
    fn take(&mut self, one: K, each: u32, total: u32) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            *self = Self::new();
        }
        let all: u32 = self.taken.values().sum();
        if all >= total || self.taken.get(&one).is_some_and(|taken| *taken >= each) {
            return false;
        }
        *self.taken.entry(one).or_default() += 1;
        true
    }
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

impl Reviews {
    /// Reviews by this hub.
    pub(super) fn by(hub: Connection) -> Self {
        Self {
            hub,
            users: Mutex::new(Kept(BTreeMap::new())),
            refused: Mutex::new(Kept(BTreeMap::new())),
            rights: Mutex::new(Kept(BTreeMap::new())),
            of_users: Mutex::new(Shares::new()),
            unconfirmed: Mutex::new(Shares::new()),
        }
    }

    /// True if the hub has confirmed this token within the last hour.
    pub(super) fn has_confirmed(&self, token: &str) -> bool {
        self.users.lock().get(&Sha256::digest(token).into()).is_some()
    }

    /// The token's user; an error unless that has the permission. Without one the user alone counts. The address is the
    /// requester's.
    pub(super) async fn admit(
        &self,
        address: IpAddr,
        token: &str,
        right: Option<Right>,
    ) -> Result<User, Refusal> {
        if token.is_empty() || token.len() > TOKEN_LIMIT {
            return Err(unknown_token());
        }
        let hash: Hash = Sha256::digest(token).into();
        let user = self.user(address, hash, token).await?;
        let user = user.ok_or_else(unknown_token)?;
        let name = User(user.username.clone().unwrap_or_default());
        let Some(right) = right else {
            return Ok(name);
        };
        if self.may(hash, user, &right).await? {
            return Ok(name);
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

    async fn user(&self, address: IpAddr, hash: Hash, token: &str) -> Result<Option<UserInfo>, Refusal> {
        let confirmed = self.users.lock().get(&hash);
        let permitted = match confirmed {
            Some((at, user)) if at.elapsed() < KEPT => return Ok(Some(user)),
            Some((_, user)) => self.of_users.lock().take(user.username, OF_USER, u32::MAX),
            None if self.refused.lock().get(&hash).is_some() => return Ok(None),
            None => self.unconfirmed.lock().take(address, OF_ADDRESS, UNCONFIRMED),
        };
        if !permitted {
            return Err(too_many());
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
        if let Some(user) = &user {
            let verdict = (Instant::now(), user.clone());
            self.users.lock().put(hash, verdict, CONFIRMED);
        } else {
            self.users.lock().0.remove(&hash);
            self.refused.lock().put(hash, (), REFUSAL_KEPT);
        }
        Ok(user)
    }

    async fn may(&self, hash: Hash, user: UserInfo, right: &Right) -> Result<bool, Refusal> {
        let key = (hash, right.clone());
        if let Some(allowed) = self.rights.lock().get(&key) {
            return Ok(allowed);
        }
        let name = user.username.clone();
        if !self.of_users.lock().take(name, OF_USER, u32::MAX) {
            return Err(too_many());
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
    pub(super) fn entry_count(&self) -> usize {
        self.users.lock().0.len()
    }
}

fn too_many() -> Refusal {
    Refusal::busy(format!(
        "the hub reviews {OF_USER} questions of a user in a second at most, and {OF_ADDRESS} new tokens of an address"
    ))
}

fn unknown_token() -> Refusal {
    Refusal::new(
        ErrorCode::Unauthorized,
        "neither the token of --admin-token-file nor one that the hub knows",
        "send a token of the hub, or that of --admin-token-file: Authorization: Bearer <token>",
    )
}
