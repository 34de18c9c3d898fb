//! What goes wrong with a watch: when it is tried again, and what the operator is told.

use super::reach::Silence;
use crate::{
    engine::{chance::Chance, key::Plane},
    plane::client::CallError,
};
use kube::runtime::watcher;
use std::{
    hash::{BuildHasher, Hash},
    time::Duration,
};
use tokio::time::Instant;

pub(super) const FIRST_DELAY: Duration = Duration::from_millis(200);
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// After this time without an error the next one counts as the first.
pub(super) const CALM: Duration = Duration::from_mins(1);
/// Why a watch fails, as far as an operator's next step depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// No connection, or no answer in time.
    Unreachable,
    /// The connection broke under the watch.
    Broken,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404: the kind is not served.
    NotServed,
    /// 410: the server no longer has the version.
    Gone,
    /// What came is not what an API server sends.
    Garbled,
    /// Any other answer.
    Failing,
}

/// What a watch's failure says of its plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfPlane {
    Away(Silence),
    Well,
    Unsaid,
}

impl Cause {
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
                Some(CallError::Retired | CallError::Overtaken) => Self::Broken,
                _ => Self::Unreachable,
            },
            // What is in a line that is too long only a list tells.
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
            // A server says 404 in plain text for a group it does not have, which the client takes for an outage.
            _ if status.message.starts_with("HTTP 404 ") => Self::NotServed,
            _ => Self::Failing,
        }
    }

    /// What it says of the plane as a whole.
    pub(super) fn of_plane(self) -> OfPlane {
        match self {
            Self::Unreachable | Self::Broken => OfPlane::Away(Silence::Silent),
            Self::Unauthorized | Self::Failing => OfPlane::Away(Silence::Unwell),
            Self::Forbidden | Self::NotServed | Self::Gone => OfPlane::Well,
            Self::Garbled => OfPlane::Unsaid,
        }
    }

    /// Whether the watch has lost its place, so that only a new list tells what there is.
    pub(super) fn needs_list(self) -> bool {
        matches!(self, Self::Gone | Self::Garbled)
    }

    /// What is wrong.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Unreachable => "the API server cannot be reached",
            Self::Broken => "the connection broke",
            Self::Unauthorized => "the credential is refused",
            Self::Forbidden => "the user may not list and watch this kind",
            Self::NotServed => "the kind is not served",
            Self::Gone => "the server no longer has the version, the list is read anew",
            Self::Garbled => "the answer is not that of an API server",
            Self::Failing => "the API server answers with an error",
        }
    }

    /// What the operator is to do about it; `None` for what happens in the best of houses.
    pub(super) fn next_step(self, plane: &Plane) -> Option<String> {
        let kubeconfig = match plane {
            Plane::Hub => "the file of --hub-kubeconfig".to_owned(),
            Plane::Project(key) => format!("the kubeconfig of project {key}"),
            Plane::Cell => "the kubeconfig of the cell".to_owned(),
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
            Self::Failing => "see the API server's own log if this lasts".to_owned(),
        })
    }
}

/// What goes wrong with one watch, for as long as it does.
#[derive(Debug)]
pub(super) struct Trouble {
    watch: u64,
    failures: u32,
    lasts: bool,
    last: Option<Instant>,
    refused_since: Option<Instant>,
}

impl Trouble {
    /// That of a watch which has had none yet; the delays of different watches are spread.
    pub(super) fn none(watch: impl Hash) -> Self {
        Self {
            watch: Chance.hash_one(watch),
            failures: 0,
            lasts: false,
            last: None,
            refused_since: None,
        }
    }

    /// Since when the server has refused the watch for want of rights and nothing else.
    pub(super) fn refused_for(&mut self, cause: Cause) -> Option<Duration> {
        if cause != Cause::Forbidden {
            self.refused_since = None;
            return None;
        }
        Some(self.refused_since.get_or_insert_with(Instant::now).elapsed())
    }

    /// How long to wait: 200 ms doubling to 10 s, each with up to half of it as jitter; anew after a minute without an
    /// error. That the plane is `away` and stays so is no fault of the watch.
    pub(super) fn delay(&mut self, away: bool) -> Duration {
        if away && self.lasts {
            self.last = Some(Instant::now());
            return Duration::ZERO;
        }
        if self.last.is_some_and(|last| last.elapsed() > CALM) {
            self.failures = 0;
        }
        let base = FIRST_DELAY
            .saturating_mul(1 << self.failures.min(6))
            .min(LONGEST_DELAY);
        self.failures += 1;
        self.lasts = true;
        self.last = Some(Instant::now());
        base.mul_f64(0.5 + 0.5 * Chance::share((self.watch, self.failures)))
    }

    /// The server has answered; whether it had failed before.
    pub(super) fn ends(&mut self) -> bool {
        self.refused_since = None;
        std::mem::take(&mut self.lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::names::ProjectKey;
    use kube::core::Status;

    fn answered(code: u16, message: &str) -> Cause {
        let status = Status::failure(message, "").with_code(code);
        Cause::of(&watcher::Error::WatchStartFailed(kube::Error::Api(
            status.boxed(),
        )))
    }

    fn called(error: CallError) -> Cause {
        Cause::of(&watcher::Error::InitialListFailed(kube::Error::Service(
            error.into(),
        )))
    }

    #[tokio::test(start_paused = true)]
    async fn delays_grow_while_it_fails_and_begin_anew_after_a_calm_minute() {
        let mut trouble = Trouble::none(());
        let delays: Vec<Duration> = (0..12).map(|_| trouble.delay(false)).collect();
        assert!(
            delays[0] <= FIRST_DELAY && delays[11] <= LONGEST_DELAY,
            "{delays:?}"
        );
        assert!(delays[11] >= LONGEST_DELAY / 2, "{delays:?}");
        assert_eq!(trouble.delay(true), Duration::ZERO, "others wait for it");
        assert!(trouble.ends() && !trouble.ends(), "it ends once");
        assert!(
            trouble.delay(true) >= LONGEST_DELAY / 2,
            "it was answered in between"
        );
        trouble.ends();
        assert!(
            trouble.delay(false) >= LONGEST_DELAY / 2,
            "an answer alone is no calm"
        );
        tokio::time::advance(CALM + Duration::from_secs(1)).await;
        assert!(trouble.delay(false) <= FIRST_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_from_the_first_one_in_a_row() {
        let mut trouble = Trouble::none(());
        let patience = Duration::from_secs(10);
        assert_eq!(trouble.refused_for(Cause::Forbidden), Some(Duration::ZERO));
        tokio::time::advance(patience).await;
        assert_eq!(trouble.refused_for(Cause::Forbidden), Some(patience));
        assert_eq!(trouble.refused_for(Cause::Garbled), None);
        assert_eq!(trouble.refused_for(Cause::Forbidden), Some(Duration::ZERO));
    }

    #[test]
    fn causes_are_told_apart() {
        let connection = CallError::Connection {
            plane: crate::metrics::PlaneKind::Hub,
            cause: "refused".to_owned(),
        };
        assert_eq!(called(connection), Cause::Unreachable);
        assert_eq!(called(CallError::Retired), Cause::Broken);
        assert_eq!(answered(401, "no"), Cause::Unauthorized);
        assert_eq!(answered(403, "no"), Cause::Forbidden);
        assert_eq!(answered(404, "no"), Cause::NotServed);
        assert_eq!(
            answered(502, "HTTP 404 Not Found without a Kubernetes Status"),
            Cause::NotServed
        );
        assert_eq!(answered(410, "old"), Cause::Gone);
        assert_eq!(answered(500, "etcd"), Cause::Failing);
        assert_eq!(Cause::of(&watcher::Error::NoResourceVersion), Cause::Garbled);
        let expired = Status::failure("too old", "Expired").with_code(410);
        assert_eq!(
            Cause::of(&watcher::Error::WatchError(expired.boxed())),
            Cause::Gone
        );
    }

    #[test]
    fn each_cause_names_the_file_or_folder_to_look_at() {
        let prod = Plane::Project(ProjectKey::parse("prod").unwrap());
        for (cause, plane, words) in [
            (
                Cause::Unreachable,
                &prod,
                "clusters[].cluster.server in the kubeconfig of project prod",
            ),
            (
                Cause::Unreachable,
                &Plane::Hub,
                "clusters[].cluster.server in the file of --hub-kubeconfig",
            ),
            (
                Cause::Forbidden,
                &prod,
                "apply manifests/project on this plane and bind its roles to the user in the kubeconfig of project prod",
            ),
            (Cause::Forbidden, &Plane::Hub, "apply manifests/hub"),
            (
                Cause::Unauthorized,
                &prod,
                "renew the credential in the kubeconfig of project prod",
            ),
            (Cause::NotServed, &prod, "manifests/crds"),
        ] {
            let step = cause.next_step(plane).unwrap();
            assert!(step.contains(words), "{cause:?} at {plane}: {step}");
        }
    }
}
