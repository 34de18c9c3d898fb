//! The users of a sandbox: who they are, and the files they log in with.

use super::{
    Options, PlaneRole, User,
    certs::{Authority, Pair, write},
    kubeconfig::{Entry, client, text},
    layout::Layout,
    plane::Plane,
    platform::ADDRESS,
};
use anyhow::Context;
use std::{collections::BTreeMap, path::PathBuf};

fedgate_api::words! {
    /// The sandbox's own processes. Each is a user of its own, so that the audit logs tell them from the tests'
    /// administrator, and may do anything.
    pub(super) enum Own {
        /// A plane's controller manager.
        ControllerManager = "kube-controller-manager",
        /// Karmada's processes, or the stand-in.
        HubControllers = "hub-controllers",
        /// A cell's scheduler.
        Scheduler = "kube-scheduler",
        /// A cell's KWOK.
        Kwok = "kwok",
        /// The stand-ins for networking and quota.
        Backends = "sandbox-backends",
        /// The stand-in of Milo.
        Platform = "sandbox-platform",
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
    cells: Vec<String>,
    /// By the user's name.
    pairs: BTreeMap<String, Pair>,
}

impl Users {
    /// Signs them all.
    pub(super) fn new(authority: &Authority, options: &Options) -> anyhow::Result<Self> {
        let cells: Vec<String> = options.cells.iter().map(|cell| cell.name.clone()).collect();
        let mut users = vec![(User::Admin.name(), Some(MASTERS)), (User::Gateway.name(), None)];
        users.extend(
            Own::ALL
                .iter()
                .map(|own| (own.as_str().to_owned(), Some(MASTERS))),
        );
        for cell in &cells {
            users.push((User::Cell(cell).name(), Some(CELLS)));
            users.push((User::Quota(cell).name(), Some(QUOTA)));
        }
        let signed = users.into_iter().map(|(name, group)| {
            let pair = authority.client(&name, group)?;
            Ok((name, pair))
        });
        Ok(Self {
            authority_pem: authority.pem(),
            authority_der: authority.der(),
            cells,
            pairs: signed.collect::<anyhow::Result<_>>()?,
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
    pub(super) fn client(&self, plane: &Plane, user: User<'_>) -> anyhow::Result<kube::Client> {
        self.client_at(&plane.name, &plane.url, user)
    }

    /// A client of `user` for an address, under a name for errors.
    pub(super) fn client_at(&self, name: &str, url: &str, user: User<'_>) -> anyhow::Result<kube::Client> {
        client(
            name,
            url,
            Some(&self.authority_der),
            Some(self.pair(&user.name())?),
        )
    }

    fn pair(&self, user: &str) -> anyhow::Result<&Pair> {
        let pair = self.pairs.get(user);
        pair.with_context(|| format!("there is no user {user:?}; the cells are {:?}", self.cells))
    }

    /// Writes every kubeconfig that makes sense: everyone on the hub, the gateway and cells' claims on projects, a cell
    /// on itself; administrator and gateway for the stand-in of Milo, if it has an address.
    pub(super) fn write_kubeconfigs(
        &self,
        layout: &Layout,
        planes: &[Plane],
        platform: Option<&str>,
    ) -> anyhow::Result<()> {
        let save = |path: PathBuf, user: &str, entries: &[Entry<'_>]| {
            write(&path, &text(&self.authority_pem, user, self.pair(user)?, entries))
        };
        let mut all: Vec<Entry<'_>> = Vec::new();
        for plane in planes {
            let (name, is_project) = (plane.name.as_str(), plane.role == PlaneRole::Project);
            if plane.role == PlaneRole::Hub {
                let reviews = format!("{}{TOKEN_REVIEWS}", plane.server_url());
                save(layout.token_review(), Own::Platform.as_str(), &[(name, &reviews)])?;
            }
            for &own in Own::ALL {
                let path = own_path(layout, own, name);
                save(path, own.as_str(), &[(name, plane.server_url())])?;
            }
            let mut users = vec![User::Admin];
            users.extend((plane.role != PlaneRole::Cell).then_some(User::Gateway));
            for cell in &self.cells {
                users.extend((plane.role == PlaneRole::Hub || cell == name).then_some(User::Cell(cell)));
                users.extend(is_project.then_some(User::Quota(cell)));
            }
            for user in users {
                let path = path(layout, name, is_project, user);
                save(path, &user.name(), &[(name, &plane.url)])?;
            }
            all.push((name, &plane.url));
        }
        if let Some(url) = platform {
            for user in [User::Admin, User::Gateway] {
                let path = path(layout, ADDRESS, false, user);
                save(path, &user.name(), &[(ADDRESS, url)])?;
            }
            all.push((ADDRESS, url));
        }
        save(layout.merged_kubeconfig(), &User::Admin.name(), &all)
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

/// The kubeconfig of one of the sandbox's own processes for a plane.
pub(super) fn own_path(layout: &Layout, own: Own, plane: &str) -> PathBuf {
    layout
        .kubeconfigs()
        .join(own.as_str())
        .join(format!("{plane}.yaml"))
}
