//! Runs the checks of all planes beside each other.

use super::{
    Check, Finding, PreflightError, Report, Role, Subject, Verdict, admission, cell_login, clusters,
    credential, definitions, hub, karmada, members, reach::reach, rights, subject::title, works,
};
use fedgate_engine::plane::{
    client::Clients,
    kubeconfig::{Credential, KubeconfigError},
};
use fedgate_kinds::{FederatedKind, Kinds};
use fedgate_manifests::{KindManifests, ManifestError};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared, join_all},
};
use jiff::Timestamp;
use kube::core::DynamicObject;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// Time for all checks of a plane.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time for the list of the hub's Clusters, so that the planes whose checks await it end in time.
const CLUSTERS_WITHIN: Duration = Duration::from_secs(10);

/// The planes of a run.
#[derive(Debug, Default)]
pub struct Planes {
    subjects: Vec<Subject>,
    /// Lines of kubeconfigs that cannot be used.
    unusable: Vec<Finding>,
}

impl Planes {
    /// Adds a plane by its kubeconfig; one that cannot be used becomes a finding.
    pub fn add(
        &mut self,
        role: Role,
        name: &str,
        credential: Result<Credential, KubeconfigError>,
        clients: &Clients,
    ) {
        use fedgate_engine::metrics::PlaneKind;
        let kind = match role {
            Role::Project => PlaneKind::Project,
            Role::Cell | Role::KarmadaHost => PlaneKind::Cell,
            Role::Hub | Role::CellHub | Role::Admin => PlaneKind::Hub,
        };
        match credential {
            Ok(credential) => self.push(Subject {
                role,
                name: name.to_owned(),
                client: clients.plane(kind, &credential),
                expiry: credential.expiry(),
            }),
            Err(error) => self.unusable.push(Finding {
                plane: title(role, name),
                check: Check::Credential,
                verdict: Verdict::Fail,
                text: error.to_string(),
                next: String::new(),
                absent: true,
            }),
        }
    }

    /// Adds a plane.
    pub fn push(&mut self, subject: Subject) {
        self.subjects.push(subject);
    }
}

/// The hub's Clusters, which checks of several planes need.
type Clusters = Result<Vec<DynamicObject>, PreflightError>;

struct Run<'a> {
    all: &'a Kinds,
    /// The federated kinds of all.
    kinds: &'a [FederatedKind],
    manifests: Vec<KindManifests>,
    /// Whether an administrator of the hub is asked as well.
    has_admin: bool,
    has_karmada_host: bool,
    /// `None` if no hub was given, or the list was not answered in time.
    clusters: Shared<BoxFuture<'a, Option<Arc<Clusters>>>>,
    /// Whether the hub is to review tokens for the gateway.
    reviewing: Shared<BoxFuture<'a, bool>>,
}

/// Checks all planes, and the rights of reviews if the hub is to review tokens for the gateway. Nothing is written: requests
/// are reads, reviews and dry runs.
pub async fn examine(
    planes: Planes,
    kinds: &Kinds,
    reviewing: impl Future<Output = bool> + Send,
) -> Result<Report, ManifestError> {
    let subjects = &planes.subjects;
    let has = |role| subjects.iter().any(|subject| subject.role == role);
    let clusters = async {
        let hub = subjects.iter().find(|subject| subject.role == Role::Hub)?;
        let listed = timeout(CLUSTERS_WITHIN, clusters::list(&hub.client)).await;
        Some(Arc::new(listed.ok()?))
    };
    let run = Run {
        all: kinds,
        kinds: &kinds.federated,
        manifests: KindManifests::all(kinds, false),
        has_admin: has(Role::Admin),
        has_karmada_host: has(Role::KarmadaHost),
        clusters: clusters.boxed().shared(),
        reviewing: reviewing.boxed().shared(),
    };
    let all = join_all(subjects.iter().map(|subject| run.plane(subject))).await;
    let mut findings = Vec::new();
    for of_plane in all {
        findings.extend(of_plane?);
    }
    findings.extend(planes.unusable);
    Ok(Report { findings })
}

impl Run<'_> {
    async fn plane(&self, subject: &Subject) -> Result<Vec<Finding>, ManifestError> {
        let mut findings = Vec::new();
        let ended = timeout(PATIENCE, self.checks(subject, &mut findings)).await;
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let text = format!("the checks were not answered within {} s", PATIENCE.as_secs());
                let next = format!(
                    "check clusters[].cluster.server in {} and the server",
                    subject.role.flag()
                );
                findings.push(Finding {
                    absent: true,
                    ..subject.fail(Check::Reach, text, next)
                });
            }
        }
        Ok(findings)
    }

    async fn checks(&self, subject: &Subject, findings: &mut Vec<Finding>) -> Result<(), ManifestError> {
        match reach(subject).await {
            Ok(reached) => findings.extend(reached),
            Err(absent) => {
                findings.push(absent);
                return Ok(());
            }
        }
        findings.push(credential::credential(subject, Timestamp::now()));
        match subject.role {
            Role::Hub => self.hub(subject, findings).await?,
            Role::Project | Role::Cell => {
                findings.push(definitions::kinds(subject, self.kinds).await);
                findings.push(definitions::schemas(subject).await);
                findings.push(rights::rights(subject, &self.manifests).await?);
            }
            Role::CellHub => {
                findings.push(rights::rights(subject, &self.manifests).await?);
                let clusters = self.clusters.clone().await;
                let clusters = clusters.as_deref().and_then(|clusters| clusters.as_deref().ok());
                findings.push(cell_login::check(subject, clusters).await);
            }
            Role::Admin => {
                findings.push(definitions::columns(subject).await);
                findings.push(self.admission(subject).await?);
            }
            Role::KarmadaHost => findings.extend(karmada::arguments(subject).await),
        }
        Ok(())
    }

    async fn hub(&self, subject: &Subject, findings: &mut Vec<Finding>) -> Result<(), ManifestError> {
        findings.push(hub::kinds(subject, self.all).await);
        findings.push(definitions::schemas(subject).await);
        findings.push(rights::rights(subject, &self.manifests).await?);
        findings.push(hub::webhook(subject).await);
        findings.extend(works::check(subject, self.kinds, Timestamp::now()).await);
        match self.clusters.clone().await.as_deref() {
            Some(Ok(clusters)) => {
                if self.kinds.iter().any(FederatedKind::is_exactly_one) {
                    findings.extend(clusters::named_none(subject, clusters));
                }
                findings.extend(members::check(subject, clusters, self.kinds).await);
            }
            Some(Err(error)) => findings.push(subject.error(Check::Cells, error)),
            None => {}
        }
        findings.push(karmada::fields(subject, self.kinds).await);
        let bindings = hub::bindings(subject).await;
        // Karmada's own arguments say more than the absence of an effect.
        let seen = |finding: &Finding| !self.has_karmada_host || finding.verdict != Verdict::Open;
        findings.extend(bindings.into_iter().filter(seen));
        if !self.has_admin {
            let text = "the gateway's user may not read admission policies";
            let next = "give --admin-kubeconfig of a user who may get them";
            findings.push(subject.open(Check::Admission, text, next));
        }
        // The host may be slow to say it.
        if self.reviewing.clone().await {
            findings.push(rights::reviews(subject).await?);
        }
        Ok(())
    }

    async fn admission(&self, subject: &Subject) -> Result<Finding, ManifestError> {
        Ok(admission::check(subject, &fedgate_manifests::all(&self.manifests)?).await)
    }
}
