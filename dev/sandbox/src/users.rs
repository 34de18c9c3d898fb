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

    /// The user name at API servers.
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

/// The path at which an API server reviews tokens.
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
        client(name, url, Some(&self.authority_der), Some(self.login(user)?.1))
    }

    /// The name of a user in kubeconfigs, and its certificate.
    fn login(&self, user: User<'_>) -> Result<(&'static str, &Pair), SandboxError> {
        let (name, cells, cell) = match user {
            User::Admin => return Ok(("admin", &self.admin)),
            User::Gateway => return Ok(("fedgate-gateway", &self.gateway)),
            User::Cell(cell) => ("fedgate-cell", &self.cells, cell),
            User::Quota(cell) => ("fedgate-quota", &self.quota, cell),
        };
        let pair = cells.get(cell).ok_or_else(|| {
            SandboxError::Options(format!("there is no cell {cell:?}; there are {:?}", cells.keys()))
        })?;
        Ok((name, pair))
    }

    /// Writes every kubeconfig that makes sense: everyone on the hub, the gateway and cells' claims on projects, a cell
    /// on itself; administrator and gateway for the stand-in of Milo, if it has an address.
    pub(super) fn write_kubeconfigs(
        &self,
        layout: &Layout,
        planes: &[Plane],
        platform: Option<&str>,
    ) -> Result<(), SandboxError> {
        let save = |path: PathBuf, (user, pair): (&str, &Pair), entries: &[Entry<'_>]| {
            write(&path, &text(&self.authority_pem, user, pair, entries))
        };
        let mut all: Vec<Entry<'_>> = Vec::new();
        for plane in planes {
            let (name, is_project) = (plane.name.as_str(), plane.role == PlaneRole::Project);
            if plane.role == PlaneRole::Hub {
                let reviews = format!("{}{TOKEN_REVIEWS}", plane.server_url());
                let own = (Own::Platform.user(), &self.own[&Own::Platform]);
                save(layout.token_review(), own, &[(name, &reviews)])?;
            }
            for (own, pair) in &self.own {
                let path = own_path(layout, *own, name);
                save(path, (own.user(), pair), &[(name, plane.server_url())])?;
            }
            let mut users = vec![User::Admin];
            users.extend((plane.role != PlaneRole::Cell).then_some(User::Gateway));
            let cells = self.cells.keys();
            let cells = cells.filter(|cell| plane.role == PlaneRole::Hub || *cell == name);
            users.extend(cells.map(|cell| User::Cell(cell)));
            let quota = self.quota.keys().filter(|_| is_project);
            users.extend(quota.map(|cell| User::Quota(cell)));
            for user in users {
                let path = path(layout, name, is_project, user);
                save(path, self.login(user)?, &[(name, &plane.url)])?;
            }
            all.push((name, &plane.url));
        }
        if let Some(url) = platform {
            for user in [User::Admin, User::Gateway] {
                let path = path(layout, ADDRESS, false, user);
                save(path, self.login(user)?, &[(ADDRESS, url)])?;
            }
            all.push((ADDRESS, url));
        }
        save(layout.merged_kubeconfig(), self.login(User::Admin)?, &all)
    }
}

/// The path of a user's kubeconfig for a plane.
pub(super) fn path(layout: &Layout, plane: &str, project: bool, user: User<'_>) -> PathBuf {
    // A folder with projects only, as `fedgate gateway --project-directory` wants it.
    let folder = if project && user == User::Gateway {
        "projects".to_owned()
    } else {
        user.label()
    };
    layout.kubeconfigs().join(folder).join(format!("{plane}.yaml"))
}

/// Arguments by which one of the sandbox's own processes gets a kubeconfig for each plane: `<flag>=<plane>=<file>`.
pub(super) fn kubeconfig_args<'a>(
    layout: &Layout,
    own: Own,
    flag: &str,
    planes: impl IntoIterator<Item = &'a String>,
) -> Vec<String> {
    let arg = |plane: &String| format!("{flag}={plane}={}", own_path(layout, own, plane).display());
    planes.into_iter().map(arg).collect()
}

/// The kubeconfig of one of the sandbox's own processes for a plane.
pub(super) fn own_path(layout: &Layout, own: Own, plane: &str) -> PathBuf {
    layout
        .kubeconfigs()
        .join(own.user())
        .join(format!("{plane}.yaml"))
}
