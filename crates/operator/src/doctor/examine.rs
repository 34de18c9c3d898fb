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
use fedgate_manifests::{KindManifests, Manifest, ManifestError, Plane};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared, join_all},
};
use jiff::Timestamp;
use serde_json::Value;
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
        match credential {
            Ok(credential) => self.push(Subject {
                role,
                name: name.to_owned(),
                client: clients.plane(role.kind(), &credential),
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
type Clusters = Result<Vec<Value>, PreflightError>;

struct Run<'a> {
    kinds: &'a Kinds,
    manifests: Vec<Manifest>,
    /// The definitions of our kinds.
    crds: Vec<Value>,
    /// The role that lets the gateway ask for reviews.
    reviewer: Vec<Value>,
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
    let manifests = fedgate_manifests::all(&KindManifests::all(kinds, false))?;
    let is_ours = |object: &&Value| {
        object["kind"] == "CustomResourceDefinition" && object["spec"]["group"] == fedgate_api::GROUP
    };
    let objects = manifests.iter().flat_map(|file| &file.objects);
    let run = Run {
        kinds,
        crds: objects.filter(is_ours).cloned().collect(),
        manifests,
        reviewer: fedgate_manifests::reviewer()?,
        has_admin: has(Role::Admin),
        has_karmada_host: has(Role::KarmadaHost),
        clusters: clusters.boxed().shared(),
        reviewing: reviewing.boxed().shared(),
    };
    let all = join_all(subjects.iter().map(|subject| run.plane(subject))).await;
    let findings = all.into_iter().flatten().chain(planes.unusable);
    Ok(Report {
        findings: findings.collect(),
    })
}

impl Run<'_> {
    async fn plane(&self, subject: &Subject) -> Vec<Finding> {
        let mut findings = Vec::new();
        if timeout(PATIENCE, self.checks(subject, &mut findings))
            .await
            .is_err()
        {
            let flag = subject.role.flag();
            let text = format!("the checks were not answered within {} s", PATIENCE.as_secs());
            let next = format!("check clusters[].cluster.server in {flag} and the server");
            findings.push(Finding {
                absent: true,
                ..subject.fail(Check::Reach, text, next)
            });
        }
        findings
    }

    async fn checks(&self, subject: &Subject, findings: &mut Vec<Finding>) {
        match reach(subject).await {
            Ok(reached) => findings.extend(reached),
            Err(absent) => return findings.push(absent),
        }
        findings.push(credential::credential(subject, Timestamp::now()));
        match subject.role {
            Role::Hub => self.hub(subject, findings).await,
            Role::Project | Role::Cell => {
                findings.push(definitions::kinds(subject, &self.kinds.federated).await);
                findings.push(definitions::schemas(subject, &self.crds).await);
                findings.push(self.rights(subject).await);
            }
            Role::CellHub => {
                findings.push(self.rights(subject).await);
                let clusters = self.clusters.clone().await;
                let clusters = clusters.as_deref().and_then(|clusters| clusters.as_deref().ok());
                findings.push(cell_login::check(subject, clusters).await);
            }
            Role::Admin => {
                findings.push(definitions::columns(subject, &self.crds).await);
                findings.push(admission::check(subject, &self.manifests).await);
            }
            Role::KarmadaHost => findings.extend(karmada::arguments(subject).await),
        }
    }

    async fn rights(&self, subject: &Subject) -> Finding {
        let plane = match subject.role {
            Role::Project => Plane::Project,
            Role::Cell => Plane::Cell,
            _ => Plane::Hub,
        };
        let files = self.manifests.iter().filter(|file| file.planes.contains(&plane));
        let objects: Vec<Value> = files.flat_map(|file| file.objects.clone()).collect();
        rights::rights(subject, &objects).await
    }

    async fn hub(&self, subject: &Subject, findings: &mut Vec<Finding>) {
        let kinds = &self.kinds.federated;
        findings.push(hub::kinds(subject, self.kinds).await);
        findings.push(definitions::schemas(subject, &self.crds).await);
        findings.push(self.rights(subject).await);
        findings.push(hub::webhook(subject).await);
        findings.extend(works::check(subject, kinds, Timestamp::now()).await);
        match self.clusters.clone().await.as_deref() {
            Some(Ok(clusters)) => {
                if kinds.iter().any(FederatedKind::is_exactly_one) {
                    findings.extend(clusters::named_none(subject, clusters));
                }
                findings.extend(members::check(subject, clusters, kinds).await);
            }
            Some(Err(error)) => findings.push(subject.error(Check::Cells, error)),
            None => {}
        }
        findings.push(karmada::fields(subject, kinds).await);
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
            findings.push(rights::reviews(subject, &self.reviewer).await);
        }
    }
}
