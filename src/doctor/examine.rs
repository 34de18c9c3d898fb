//! Runs the checks of all planes beside each other.

use super::{
    Check, Finding, Report, Role, Subject, admission, cell_login, claims, clusters, copies, credential,
    definitions, hub, karmada, members,
    project_hub::{self, HubNames},
    project_uid::{self, Platform},
    reach::reach,
    rights,
    subject::title,
    works, write_backs,
};
use fedgate_engine::plane::{
    client::Clients,
    discovery::project_of_path,
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
use std::time::Duration;
use tokio::{sync::watch, time::timeout};

/// Time for all checks of a plane.
const PATIENCE: Duration = Duration::from_secs(20);

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
                platform: project_of_path(&credential)
                    .filter(|_| role == Role::Project)
                    .map(|(project, credential)| Platform {
                        client: clients.plane(kind, &credential),
                        project,
                    }),
            }),
            Err(error) => self.unusable.push(Finding {
                plane: title(role, name),
                check: Check::Credential,
                verdict: super::Verdict::Fail,
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

/// A finding at the hub, for the checks of other planes: not read yet, unknown, or this.
type AtHub<T> = Option<Option<T>>;

/// Names of the Clusters.
type Clusters = AtHub<Vec<String>>;

/// Names that the hub's Namespaces have.
type Names = AtHub<HubNames>;

struct Run<'a> {
    all: &'a Kinds,
    /// The federated kinds of all.
    kinds: &'a [FederatedKind],
    manifests: Vec<KindManifests>,
    /// Whether an administrator of the hub is asked as well.
    has_admin: bool,
    has_karmada_host: bool,
    clusters: watch::Sender<Clusters>,
    names: watch::Sender<Names>,
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
    let has = |role| planes.subjects.iter().any(|subject| subject.role == role);
    let run = Run {
        all: kinds,
        kinds: &kinds.federated,
        manifests: KindManifests::all(kinds, false),
        has_admin: has(Role::Admin),
        has_karmada_host: has(Role::KarmadaHost),
        clusters: watch::Sender::new((!has(Role::Hub)).then_some(None)),
        names: watch::Sender::new((!has(Role::Hub)).then_some(None)),
        reviewing: reviewing.boxed().shared(),
    };
    let all = join_all(planes.subjects.iter().map(|subject| run.plane(subject))).await;
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
        if subject.role == Role::Hub {
            // Checks of other planes wait for what the hub says, and nothing sends it any more.
            self.clusters
                .send_if_modified(|clusters| clusters.is_none() && clusters.replace(None).is_none());
            self.names
                .send_if_modified(|names| names.is_none() && names.replace(None).is_none());
        }
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
            Role::Project => {
                findings.push(definitions::kinds(subject, self.kinds).await);
                let names = known(&self.names).await;
                findings.push(project_uid::check(subject, names.as_ref()).await);
                findings.push(definitions::schemas(subject).await);
                findings.push(rights::rights(subject, &self.manifests).await?);
                findings.push(project_hub::named(subject, self.kinds, names.as_ref()).await);
                findings.extend(project_hub::known(subject, names.as_ref()).await);
                let clusters = known(&self.clusters).await;
                findings.extend(claims::claims(subject, clusters.as_deref()).await);
            }
            Role::Cell => {
                findings.push(definitions::kinds(subject, self.kinds).await);
                findings.push(definitions::schemas(subject).await);
                findings.push(rights::rights(subject, &self.manifests).await?);
            }
            Role::CellHub => {
                findings.push(rights::rights(subject, &self.manifests).await?);
                let clusters = known(&self.clusters).await;
                findings.push(cell_login::check(subject, clusters.as_deref()).await);
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
        let found = clusters::list(&subject.client).await;
        let names = |clusters: &Vec<DynamicObject>| {
            let names = clusters
                .iter()
                .filter_map(|cluster| cluster.metadata.name.clone());
            names.collect::<Vec<_>>()
        };
        self.clusters.send_replace(Some(found.as_ref().ok().map(names)));
        let cells = found.as_deref().unwrap_or_default();
        self.names
            .send_replace(Some(HubNames::read(subject, cells).await));
        findings.push(hub::kinds(subject, self.all).await);
        findings.push(definitions::schemas(subject).await);
        findings.push(rights::rights(subject, &self.manifests).await?);
        findings.push(hub::webhook(subject).await);
        findings.extend(hub::interpreters(subject, self.kinds).await);
        findings.push(hub::policies(subject, self.kinds).await);
        for kind in self.kinds {
            findings.extend(write_backs::check(subject, kind).await);
        }
        findings.extend(members::identity(subject, self.kinds).await);
        findings.extend(works::check(subject, self.kinds, Timestamp::now()).await);
        match found {
            Ok(clusters) => {
                findings.extend(clusters::check(subject, &clusters, self.kinds));
                for kind in self.kinds {
                    findings.extend(copies::check(subject, &clusters, kind).await);
                }
                findings.extend(members::check(subject, &clusters, self.kinds).await);
            }
            Err(error) => findings.push(subject.error(Check::Cells, &error)),
        }
        findings.push(karmada::fields(subject, self.kinds).await);
        let bindings = hub::bindings(subject).await;
        // Karmada's own arguments say more than the absence of an effect.
        let seen = |finding: &Finding| !self.has_karmada_host || finding.verdict != super::Verdict::Open;
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

/// The finding at the hub, as soon as it is read.
async fn known<T: Clone>(from: &watch::Sender<AtHub<T>>) -> Option<T> {
    let mut from = from.subscribe();
    let known = from.wait_for(Option::is_some).await.ok()?;
    known.clone().flatten()
}
