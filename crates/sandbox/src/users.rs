//! The users of a sandbox: who they are, and the files they log in with.

use super::{
    Options, PlaneRole, SandboxError, User,
    certs::{Authority, Pair, write},
    kubeconfig::{Entry, client, text},
    layout::Layout,
    plane::Plane,
    platform::ADDRESS,
};
use std::{collections::BTreeMap, path::PathBuf};

/// The sandbox's own processes. Each is a user of its own, so that the audit logs tell them from the tests'
/// administrator, and may do anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Own {
    /// A plane's controller manager.
    ControllerManager,
    /// Karmada's processes, or the stand-in.
    HubControllers,
    /// A cell's scheduler.
    Scheduler,
    /// A cell's KWOK.
    Kwok,
    /// The stand-ins for networking and quota.
    Backends,
    /// The stand-in of Milo.
    Platform,
}

impl Own {
    const ALL: [Self; 6] = [
        Self::ControllerManager,
        Self::HubControllers,
        Self::Scheduler,
        Self::Kwok,
        Self::Backends,
        Self::Platform,
    ];

    /// Its name to API servers.
    fn user(self) -> &'static str {
        match self {
            Self::ControllerManager => "kube-controller-manager",
            Self::HubControllers => "hub-controllers",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Backends => "sandbox-backends",
            Self::Platform => "sandbox-platform",
        }
    }
}

/// The group that may do anything, by Kubernetes' own rule.
const MASTERS: &str = "system:masters";
/// The group to which manifests/ grants the cells' role on the hub.
const CELLS: &str = "fedgate-cells";
/// The group of all cells' users on projects.
const QUOTA: &str = "fedgate-quota";

/// Where an API server judges tokens, for others too.
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Certificates of all users.
pub(super) struct Users {
    authority_pem: String,
    authority_der: Vec<u8>,
    admin: Pair,
    gateway: Pair,
    own: BTreeMap<Own, Pair>,
    cells: BTreeMap<String, Pair>,
    quota: BTreeMap<String, Pair>,
}

impl Users {
    /// Signs them all.
    pub(super) fn new(authority: &Authority, options: &Options) -> Result<Self, SandboxError> {
        let of_cells = |prefix: &str, group: &str| {
            let names = options.cells.iter().map(|cell| cell.name.clone());
            names
                .map(|name| {
                    let pair = authority.client(&format!("{prefix}{name}"), Some(group))?;
                    Ok((name, pair))
                })
                .collect::<Result<BTreeMap<_, _>, SandboxError>>()
        };
        Ok(Self {
            authority_pem: authority.pem(),
            authority_der: authority.der(),
            admin: authority.client("admin", Some(MASTERS))?,
            gateway: authority.client("fedgate-gateway", None)?,
            own: Own::ALL
                .into_iter()
                .map(|own| Ok((own, authority.client(own.user(), Some(MASTERS))?)))
                .collect::<Result<_, SandboxError>>()?,
            cells: of_cells("fedgate-cell-", CELLS)?,
            quota: of_cells("fedgate-quota:", QUOTA)?,
        })
    }

    /// The authority's certificate as Kubernetes wants it in `caBundle` fields.
    pub(super) fn authority_base64(&self) -> String {
        super::kubeconfig::base64(&self.authority_pem)
    }

    /// The authority's certificate, DER.
    pub(super) fn authority_der(&self) -> &[u8] {
        &self.authority_der
    }

    /// A client of `user` for a plane.
    pub(super) fn client(&self, plane: &Plane, user: User<'_>) -> Result<kube::Client, SandboxError> {
        self.client_at(&plane.name, &plane.url, user)
    }

    /// A client of `user` for an address, under a name for errors.
    pub(super) fn client_at(
        &self,
        name: &str,
        url: &str,
        user: User<'_>,
    ) -> Result<kube::Client, SandboxError> {
        let of = |cells: &'_ BTreeMap<String, Pair>, name: &str| {
            cells.get(name).cloned().ok_or_else(|| {
                SandboxError::Options(format!("there is no cell {name:?}; there are {:?}", cells.keys()))
            })
        };
        let pair = match user {
            User::Admin => self.admin.clone(),
            User::Gateway => self.gateway.clone(),
            User::Cell(name) => of(&self.cells, name)?,
            User::Quota(name) => of(&self.quota, name)?,
        };
        client(name, url, &self.authority_der, Some(&pair))
    }

    /// Writes every kubeconfig that makes sense: everyone on the hub, the gateway and cells' claims on projects, a cell
    /// on itself; administrator and gateway for the stand-in of Milo, if it has an address.
    pub(super) fn write_kubeconfigs(
        &self,
        layout: &Layout,
        planes: &[Plane],
        platform: Option<&str>,
    ) -> Result<(), SandboxError> {
        for plane in planes {
            if plane.role == PlaneRole::Hub {
                let url = format!("{}{TOKEN_REVIEWS}", plane.server_url());
                let (name, pair) = (Own::Platform.user(), &self.own[&Own::Platform]);
                let entry = Entry {
                    plane: plane.name.clone(),
                    url,
                };
                write(
                    &layout.token_review(),
                    &text(&self.authority_pem, name, pair, &[entry]),
                )?;
            }
            let path = |user| path(layout, &plane.name, plane.role == PlaneRole::Project, user);
            let mut users = vec![(path(User::Admin), "admin", &self.admin)];
            let server = [Entry {
                plane: plane.name.clone(),
                url: plane.server_url().to_owned(),
            }];
            for (own, pair) in &self.own {
                let path = own_path(layout, *own, &plane.name);
                write(&path, &text(&self.authority_pem, own.user(), pair, &server))?;
            }
            if plane.role != PlaneRole::Cell {
                users.push((path(User::Gateway), "fedgate-gateway", &self.gateway));
            }
            for (name, pair) in &self.cells {
                if plane.role == PlaneRole::Hub || plane.name == *name {
                    users.push((path(User::Cell(name)), "fedgate-cell", pair));
                }
            }
            for (name, pair) in &self.quota {
                if plane.role == PlaneRole::Project {
                    users.push((path(User::Quota(name)), "fedgate-quota", pair));
                }
            }
            for (path, user, pair) in users {
                write(&path, &text(&self.authority_pem, user, pair, &[entry(plane)]))?;
            }
        }
        let mut all: Vec<Entry> = planes.iter().map(entry).collect();
        if let Some(url) = platform {
            let entry = || Entry {
                plane: ADDRESS.to_owned(),
                url: url.to_owned(),
            };
            for (user, name, pair) in [
                (User::Admin, "admin", &self.admin),
                (User::Gateway, "fedgate-gateway", &self.gateway),
            ] {
                let path = path(layout, ADDRESS, false, user);
                write(&path, &text(&self.authority_pem, name, pair, &[entry()]))?;
            }
            all.push(entry());
        }
        write(
            &layout.merged_kubeconfig(),
            &text(&self.authority_pem, "admin", &self.admin, &all),
        )
    }
}

fn entry(plane: &Plane) -> Entry {
    Entry {
        plane: plane.name.clone(),
        url: plane.url.clone(),
    }
}

/// Where the kubeconfig of a user for a plane is.
pub(super) fn path(layout: &Layout, plane: &str, project: bool, user: User<'_>) -> PathBuf {
    // A folder with projects only, as `fedgate gateway --project-directory` wants it.
    let folder = if project && user == User::Gateway {
        "projects".to_owned()
    } else {
        user.label()
    };
    layout.kubeconfigs().join(folder).join(format!("{plane}.yaml"))
}

/// The kubeconfig of one of the sandbox's own processes for a plane.
pub(super) fn own_path(layout: &Layout, own: Own, plane: &str) -> PathBuf {
    layout
        .kubeconfigs()
        .join(own.user())
        .join(format!("{plane}.yaml"))
}
