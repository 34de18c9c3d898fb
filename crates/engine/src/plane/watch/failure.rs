//! Failures of a watch: their classification, the retry delay, and the text for the operator.

use crate::{
    backoff::WATCH,
    key::Plane,
    plane::{client::CallError, health::Unreachable},
    random::Random,
};
use kube_runtime::watcher;
use std::{
    hash::{BuildHasher, Hash},
    time::Duration,
};
use tokio::time::Instant;

/// After this time without an error, the next error counts as the first.
pub(super) const RESET_AFTER: Duration = Duration::from_mins(1);

crate::words! {
    /// Reason why a watch fails, as far as the operator's next step depends on it.
    pub(super) enum WatchFailure {
        /// No connection, or no answer in time.
        Unreachable = "unreachable",
        /// The connection broke during the watch.
        Broken = "broken",
        /// 401.
        Unauthorized = "unauthorized",
        /// 403.
        Forbidden = "forbidden",
        /// 404: the kind is not served.
        NotServed = "not_served",
        /// 410: the server no longer has the version.
        Gone = "gone",
        /// The response is not that of an API server.
        Garbled = "garbled",
        /// 429: the server has too many requests.
        Throttled = "throttled",
        /// Any other answer.
        Failing = "failing",
    }
}

/// True if an API server refused a request because it does not serve the kind or its API group.
pub fn is_not_served(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if WatchFailure::of_status(status) == WatchFailure::NotServed)
}

/// Effect of a watch failure on the health of its plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaneImpact {
    Away(Unreachable),
    Well,
    Unsaid,
}

impl WatchFailure {
    pub(super) fn of(error: &watcher::Error) -> Self {
        let inner = match error {
            watcher::Error::InitialListFailed(e)
            | watcher::Error::WatchStartFailed(e)
            | watcher::Error::WatchFailed(e) => e,
            watcher::Error::WatchError(status) => return Self::of_status(status),
            watcher::Error::NoResourceVersion => return Self::Garbled,
        };
        match inner {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::Service(e) => match e.downcast_ref() {
                Some(CallError::TooLarge { .. }) => Self::Failing,
                Some(CallError::Superseded) => Self::Broken,
                _ => Self::Unreachable,
            },
            // Only a list shows the object in a line that is too long.
            kube::Error::SerdeError(_)
            | kube::Error::FromUtf8(_)
            | kube::Error::LinesCodecMaxLineLengthExceeded => Self::Garbled,
            _ => Self::Broken,
        }
    }

    fn of_status(status: &kube::core::Status) -> Self {
        match status.code {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotServed,
            410 => Self::Gone,
            429 => Self::Throttled,
            // A server answers 404 in plain text for an API group it does not serve; the client reports that as a
            // server error.
            _ if status.message.starts_with("HTTP 404 ") => Self::NotServed,
            _ => Self::Failing,
        }
    }

    /// Effect of this failure on the health of the plane.
    pub(super) fn of_plane(self) -> PlaneImpact {
        match self {
            Self::Unreachable | Self::Broken => PlaneImpact::Away(Unreachable::Silent),
            Self::Unauthorized | Self::Failing => PlaneImpact::Away(Unreachable::Failing),
            Self::Forbidden | Self::NotServed | Self::Gone => PlaneImpact::Well,
            Self::Garbled | Self::Throttled => PlaneImpact::Unsaid,
        }
    }

    /// True if the watch has lost its position, so that only a new list shows the current objects.
    pub(super) fn needs_list(self) -> bool {
        matches!(self, Self::Gone | Self::Garbled)
    }

    /// Description of the failure, for logs.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Unreachable => "the API server cannot be reached",
            Self::Broken => "the connection broke",
            Self::Unauthorized => "the credential is refused",
            Self::Forbidden => "the user may not list and watch this kind",
            Self::NotServed => "the kind is not served",
            Self::Gone => "the server no longer has the version, the list is read anew",
            Self::Garbled => "the answer is not that of an API server",
            Self::Throttled => "the API server has too many requests",
            Self::Failing => "the API server answers with an error",
        }
    }

    /// The operator's next step; `None` for failures of normal operation.
    pub(super) fn next_step(self, plane: &Plane) -> Option<String> {
        let kubeconfig = match plane {
            Plane::Hub => "the file of --hub-kubeconfig".to_owned(),
            Plane::Project(key) => format!("the kubeconfig of project {key}"),
            Plane::Cell => "the kubeconfig of the cell".to_owned(),
            Plane::Home => "the file of --home-kubeconfig".to_owned(),
        };
        Some(match self {
            Self::Unreachable | Self::Garbled => {
                format!("check clusters[].cluster.server in {kubeconfig}, the network and the server itself")
            }
            Self::Unauthorized => format!("renew the credential in {kubeconfig}"),
            Self::Forbidden => {
                let roles = plane.roles();
                format!("apply {roles} on this plane and bind its roles to the user in {kubeconfig}")
            }
            Self::NotServed => {
                "install the kind's CustomResourceDefinition on this plane (ours: manifests/crds)".to_owned()
            }
            Self::Broken | Self::Gone => return None,
            Self::Throttled => {
                "give its user a FlowSchema of its own (manifests/project/flow-control) if this lasts"
                    .to_owned()
            }
            Self::Failing => "see the API server's own log if this lasts".to_owned(),
        })
    }
}

/// Backoff of one watch while it fails.
#[derive(Debug)]
pub(super) struct WatchBackoff {
    watch: u64,
    failures: u32,
    lasts: bool,
    last: Option<Instant>,
    refused_since: Option<Instant>,
}

impl WatchBackoff {
    /// Backoff of a watch without failures so far; delays of different watches are spread by jitter.
    pub(super) fn none(watch: impl Hash) -> Self {
        Self {
            watch: Random.hash_one(watch),
            failures: 0,
            lasts: false,
            last: None,
            refused_since: None,
        }
    }

    /// Time for which the server has answered 403 and nothing else, or that it does not serve a kind that may be absent;
    /// `None` if `cause` is another failure.
    pub(super) fn refused_for(&mut self, cause: WatchFailure, may_be_absent: bool) -> Option<Duration> {
        let is_absent = may_be_absent && cause == WatchFailure::NotServed;
        if cause != WatchFailure::Forbidden && !is_absent {
            self.refused_since = None;
            return None;
        }
        Some(self.refused_since.get_or_insert_with(Instant::now).elapsed())
    }

    /// Delay before the next attempt: 200 ms doubling to 10 s, each shortened by up to half as jitter; starts again at
    /// 200 ms after a minute without an error. Zero while the plane is `away` and the watch has failed before: then the
    /// watch is not at fault and waits for its probe turn.
    pub(super) fn delay(&mut self, away: bool) -> Duration {
        if away && self.lasts {
            self.last = Some(Instant::now());
            return Duration::ZERO;
        }
        if self.last.is_some_and(|last| last.elapsed() > RESET_AFTER) {
            self.failures = 0;
        }
        let before = self.failures;
        self.failures += 1;
        self.lasts = true;
        self.last = Some(Instant::now());
        WATCH.with_jitter(0.5).delay(before, (self.watch, self.failures))
    }

    /// Records that the server has answered; true if the watch had failed before.
    pub(super) fn ends(&mut self) -> bool {
        self.refused_since = None;
        std::mem::take(&mut self.lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_api::names::ProjectKey;
    use kube::core::Status;

    fn answered(code: u16, message: &str) -> WatchFailure {
        let status = Status::failure(message, "").with_code(code);
        WatchFailure::of(&watcher::Error::WatchStartFailed(kube::Error::Api(
            status.boxed(),
        )))
    }

    fn called(error: CallError) -> WatchFailure {
        WatchFailure::of(&watcher::Error::InitialListFailed(kube::Error::Service(
            error.into(),
        )))
    }

    #[tokio::test(start_paused = true)]
    async fn delays_grow_while_it_fails_and_begin_anew_after_a_calm_minute() {
        let mut trouble = WatchBackoff::none(());
        let delays: Vec<Duration> = (0..12).map(|_| trouble.delay(false)).collect();
        assert!(delays[0] <= WATCH.first && delays[11] <= WATCH.max, "{delays:?}");
        assert!(delays[11] >= WATCH.max / 2, "{delays:?}");
        assert_eq!(trouble.delay(true), Duration::ZERO, "others wait for it");
        assert!(trouble.ends() && !trouble.ends(), "it ends once");
        assert!(trouble.delay(true) >= WATCH.max / 2, "it was answered in between");
        trouble.ends();
        assert!(
            trouble.delay(false) >= WATCH.max / 2,
            "an answer alone is no calm"
        );
        tokio::time::advance(RESET_AFTER + Duration::from_secs(1)).await;
        assert!(trouble.delay(false) <= WATCH.first);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_from_the_first_one_in_a_row() {
        let mut trouble = WatchBackoff::none(());
        let patience = Duration::from_secs(10);
        assert_eq!(
            trouble.refused_for(WatchFailure::Forbidden, false),
            Some(Duration::ZERO)
        );
        tokio::time::advance(patience).await;
        assert_eq!(
            trouble.refused_for(WatchFailure::Forbidden, false),
            Some(patience)
        );
        assert_eq!(trouble.refused_for(WatchFailure::Garbled, false), None);
        assert_eq!(trouble.refused_for(WatchFailure::NotServed, false), None);
        assert!(trouble.refused_for(WatchFailure::NotServed, true).is_some());
        assert_eq!(trouble.refused_for(WatchFailure::Garbled, true), None);
        assert_eq!(
            trouble.refused_for(WatchFailure::Forbidden, false),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn causes_are_told_apart() {
        let connection = CallError::Connection {
            plane: crate::metrics::PlaneKind::Hub,
            cause: "refused".to_owned(),
        };
        assert_eq!(called(connection), WatchFailure::Unreachable);
        assert_eq!(called(CallError::Superseded), WatchFailure::Broken);
        assert_eq!(answered(401, "no"), WatchFailure::Unauthorized);
        assert_eq!(answered(403, "no"), WatchFailure::Forbidden);
        assert_eq!(answered(404, "no"), WatchFailure::NotServed);
        assert_eq!(
            answered(502, "HTTP 404 Not Found without a Kubernetes Status"),
            WatchFailure::NotServed
        );
        assert_eq!(answered(410, "old"), WatchFailure::Gone);
        assert_eq!(answered(500, "etcd"), WatchFailure::Failing);
        assert_eq!(
            WatchFailure::of(&watcher::Error::NoResourceVersion),
            WatchFailure::Garbled
        );
        let expired = Status::failure("too old", "Expired").with_code(410);
        assert_eq!(
            WatchFailure::of(&watcher::Error::WatchError(expired.boxed())),
            WatchFailure::Gone
        );
    }

    #[test]
    fn each_cause_names_the_file_or_folder_to_look_at() {
        let prod = Plane::Project(ProjectKey::parse("prod").unwrap());
        for (cause, plane, words) in [
            (
                WatchFailure::Unreachable,
                &prod,
                "clusters[].cluster.server in the kubeconfig of project prod",
            ),
            (
                WatchFailure::Unreachable,
                &Plane::Hub,
                "clusters[].cluster.server in the file of --hub-kubeconfig",
            ),
            (
                WatchFailure::Forbidden,
                &prod,
                "apply manifests/project on this plane and bind its roles to the user in the kubeconfig of project prod",
            ),
            (WatchFailure::Forbidden, &Plane::Hub, "apply manifests/hub"),
            (
                WatchFailure::Unauthorized,
                &prod,
                "renew the credential in the kubeconfig of project prod",
            ),
            (WatchFailure::NotServed, &prod, "manifests/crds"),
        ] {
            let step = cause.next_step(plane).unwrap();
            assert!(step.contains(words), "{cause:?} at {plane}: {step}");
        }
    }
}
