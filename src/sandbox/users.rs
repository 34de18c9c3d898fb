//! The users of a sandbox: who they are, and the files they log in with.

use super::{
    Options, PlaneRole, SandboxError, User,
    certs::{Authority, Pair, write},
    kubeconfig::{Entry, client, text},
    layout::Layout,
    plane::Plane,
};
use std::{collections::BTreeMap, path::PathBuf};

/// The group that may do anything, by Kubernetes' own rule.
const MASTERS: &str = "system:masters";
/// The group to which manifests/ grants the cells' role on the hub.
const CELLS: &str = "fedgate-cells";

/// Certificates of all users.
pub(super) struct Users {
    authority_pem: String,
    authority_der: Vec<u8>,
    admin: Pair,
    gateway: Pair,
    controller_manager: Pair,
    hub_controllers: Pair,
    cells: BTreeMap<String, Pair>,
}

impl Users {
    /// Signs them all.
    pub(super) fn new(authority: &Authority, options: &Options) -> Result<Self, SandboxError> {
        let cell = |name: &str| authority.client(&format!("fedgate-cell-{name}"), Some(CELLS));
        Ok(Self {
            authority_pem: authority.pem(),
            authority_der: authority.der(),
            admin: authority.client("admin", Some(MASTERS))?,
            gateway: authority.client("fedgate-gateway", None)?,
            // Users of their own, so that the audit logs tell them from the tests' administrator.
            controller_manager: authority.client("kube-controller-manager", Some(MASTERS))?,
            hub_controllers: authority.client("hub-controllers", Some(MASTERS))?,
            cells: options
                .cells
                .iter()
                .map(|spec| Ok((spec.name.clone(), cell(&spec.name)?)))
                .collect::<Result<_, SandboxError>>()?,
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
        let pair = match user {
            User::Admin => &self.admin,
            User::Gateway => &self.gateway,
            User::Cell(name) => self.cells.get(name).ok_or_else(|| {
                SandboxError::Options(format!(
                    "there is no cell {name:?}; there are {:?}",
                    self.cells.keys()
                ))
            })?,
        };
        client(&plane.name, &plane.url, &self.authority_der, Some(pair))
    }

    /// Writes every kubeconfig that makes sense: everyone on the hub, the gateway on projects, a cell on itself.
    pub(super) fn write_kubeconfigs(&self, layout: &Layout, planes: &[Plane]) -> Result<(), SandboxError> {
        for plane in planes {
            let path = |user| path(layout, &plane.name, plane.role == PlaneRole::Project, user);
            let mut users = vec![
                (path(User::Admin), "admin", &self.admin),
                (
                    controller_manager_path(layout, &plane.name),
                    "kube-controller-manager",
                    &self.controller_manager,
                ),
                (
                    hub_controllers_path(layout, &plane.name),
                    "hub-controllers",
                    &self.hub_controllers,
                ),
            ];
            if plane.role != PlaneRole::Cell {
                users.push((path(User::Gateway), "fedgate-gateway", &self.gateway));
            }
            for (name, pair) in &self.cells {
                if plane.role == PlaneRole::Hub || plane.name == *name {
                    users.push((path(User::Cell(name)), "fedgate-cell", pair));
                }
            }
            for (path, user, pair) in users {
                write(&path, &text(&self.authority_pem, user, pair, &[entry(plane)]))?;
            }
        }
        let all: Vec<Entry> = planes.iter().map(entry).collect();
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

/// The kubeconfig of a plane's controller manager.
pub(super) fn controller_manager_path(layout: &Layout, plane: &str) -> PathBuf {
    layout
        .kubeconfigs()
        .join("controller-manager")
        .join(format!("{plane}.yaml"))
}

/// The kubeconfig of Karmada's processes, or of the stand-in.
pub(super) fn hub_controllers_path(layout: &Layout, plane: &str) -> PathBuf {
    layout
        .kubeconfigs()
        .join("hub-controllers")
        .join(format!("{plane}.yaml"))
}
