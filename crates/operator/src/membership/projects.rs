//! `fedgate projects`: definitions, roles and a credential in a project, and its Secret on the hub.

use super::{
    args::{ProjectAddArgs, ProjectListArgs, ProjectRemoveArgs},
    change::{Verb, mark},
    cluster,
    executor::Executor,
    kubeconfig,
    list::{age, print},
    plane::{Plane, kind},
    project::{self, ACCOUNT, ANCHOR, Found},
    token,
    usage::{list_bindings, refuse_used},
};
use fedgate_api::{
    keys::{PROJECT_SECRET, PROJECT_UID, UPSTREAM_CLUSTER},
    names::short_hash,
};
use fedgate_kinds::{CompanionKinds, FederatedKind};
use fedgate_manifests::{KindManifests, NAMESPACE};
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
use jiff::Timestamp;
use kube::api::ApiResource;
use serde_json::Value;
use std::path::Path;

/// The mark of a project's objects, which belong to no cell. Another hub may serve the same project with credentials of
/// its own.
fn project_mark(name: &str, hub: &Plane) -> String {
    format!("project-{name}-{}", short_hash(&hub.server, 8))
}

/// Runs `add`, or `rotate` with `renew`.
pub(super) async fn add(args: &ProjectAddArgs, renew: bool) -> Result<(), Error> {
    let mut executor = Executor::new(args.write.mode(args.output));
    let name = &args.name;
    let hub = super::open_hub(&args.secrets.hub).await?;
    let plane = open(name, &args.project_kubeconfig, args.project_context.as_deref()).await?;
    let sample = project::secret(name, &args.secrets.secrets_namespace, "");
    let live = hub.live(&sample).await?;
    let old = usable(name, live.as_ref())?;
    if renew && old.is_none() {
        let error = Error::new(Kind::NotFound, format!("the hub has no project {name}"));
        return Err(error.next(format!("fedgate projects add {name}")));
    }
    refuse_known(name, &hub, &plane).await?;
    let kinds = KindManifests::all(&super::load_kinds(&args.kinds)?, false);
    let objects = super::without_crds(project::objects(&kinds)?, args.skip_crds);
    executor.ensure_all(&plane, objects, None).await?;
    let server = args.project_endpoint.as_deref().unwrap_or(&plane.server);
    let is_fresh = |old: Vec<u8>| kubeconfig::is_fresh(&old, server, args.lifetime, Timestamp::now());
    if renew || !old.is_some_and(is_fresh) {
        exchange(&mut executor, &hub, &plane, args, server).await?;
    }
    let done = format!("project {name} is engaged");
    executor.conclude(&done, &done);
    Ok(())
}

async fn open(name: &str, path: &Path, context: Option<&str>) -> Result<Plane, Error> {
    Plane::open(&format!("project {name}"), path, context).await
}

/// Refuses an API server that the hub has already: as itself, as a cell, or as another project.
async fn refuse_known(name: &str, hub: &Plane, plane: &Plane) -> Result<(), Error> {
    let Some(uid) = plane.id_if_any().await? else {
        say(
            "the project's namespace kube-system cannot be read: whether its API server is the hub's, a cell's or another project's was not compared",
        );
        return Ok(());
    };
    let clusters = kind(cluster::API_VERSION, "Cluster");
    let of_project = format!("{PROJECT_UID}={uid}");
    let known = project::known_as(
        (name, &uid, &plane.server),
        hub.id_if_any().await?.as_deref(),
        &hub.list_if_served(&clusters, "").await?,
        &hub.list(&kind("v1", "Namespace"), &of_project).await?,
        &secrets(hub).await?,
    );
    let (Some(known), server) = (known, &plane.server) else {
        return Ok(());
    };
    let cause = format!("{server} is its address, {uid} the UID of its namespace kube-system");
    Err(
        Error::refused(format!("the API server of project {name} is that of {known}"))
            .because(cause)
            .next("give --project-kubeconfig of the project's own API server"),
    )
}

/// The Secrets of projects on the hub.
async fn secrets(hub: &Plane) -> Result<Vec<Value>, Error> {
    let labels = format!("{PROJECT_SECRET}=true");
    hub.list(&kind("v1", "Secret"), &labels).await
}

/// The kubeconfig of the project's Secret, if there is one that is a project's.
fn usable(name: &str, live: Option<&Value>) -> Result<Option<Vec<u8>>, Error> {
    let Some(live) = live else { return Ok(None) };
    if live["metadata"]["labels"][PROJECT_SECRET] != "true" {
        return Err(
            Error::refused(format!("Secret {name} exists and is no project's"))
                .because(format!("NameTaken: it has no label {PROJECT_SECRET}=true"))
                .next("choose another name for the project"),
        );
    }
    let text = kubeconfig::from_base64(&live["data"]["kubeconfig"]);
    Ok(Some(text.unwrap_or_default()))
}

/// A new credential for the gateway: its anchor and token, the Secret on the hub, and the end of the older ones.
async fn exchange(
    executor: &mut Executor,
    hub: &Plane,
    plane: &Plane,
    args: &ProjectAddArgs,
    server: &str,
) -> Result<(), Error> {
    let mark = project_mark(&args.name, hub);
    let older = anchors(plane).await?;
    let anchor = project::anchor(&format!("{mark} {}", Timestamp::now()));
    let anchor = executor.ensure(plane, anchor, Some(&mark)).await?;
    let text = if executor.writes() {
        let field = |key: &str| anchor["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (name, uid) = (field("name"), field("uid"));
        let token = token::issue(plane, ACCOUNT, args.lifetime, Some((&name, &uid))).await?;
        let server = plane.at(server);
        token::prove(plane, server, &token, ACCOUNT).await?;
        kubeconfig::with_token(&args.name, server, ACCOUNT.name, &token)?
    } else {
        String::new()
    };
    let secret = project::secret(&args.name, &args.secrets.secrets_namespace, &text);
    executor.ensure(hub, secret, Some(&mark)).await?;
    executor.delete_own(plane, older, &mark).await
}

/// The anchors of credentials in a project.
async fn anchors(plane: &Plane) -> Result<Vec<Value>, Error> {
    let labels = format!("{ANCHOR}=gateway");
    plane.list_in(&kind("v1", "Secret"), NAMESPACE, &labels).await
}

/// Reads the use of a project on the hub and, if it is given, in the project.
async fn used(
    name: &str,
    hub: &Plane,
    plane: Option<&Plane>,
    kinds: &[FederatedKind],
) -> Result<Vec<String>, Error> {
    let Some(selector) = project::selector(name) else {
        return Ok(Vec::new());
    };
    let own: Vec<ApiResource> = kinds.iter().map(|kind| kind.resource.clone()).collect();
    let mut found = Found {
        namespaces: hub.list(&kind("v1", "Namespace"), &selector).await?,
        ..Found::default()
    };
    if !found.namespaces.is_empty() {
        for kind in &own {
            found.copies.extend(hub.list_if_served(kind, "").await?);
        }
        found.bindings = list_bindings(hub).await?;
    }
    if let Some(plane) = plane {
        let workload = kind("compute.datumapis.com/v1alpha", "Workload");
        for kind in own.iter().chain([&workload]) {
            found.in_project.extend(plane.list_if_served(kind, "").await?);
        }
    }
    Ok(project::used(&found, &own, &CompanionKinds::of(kinds)))
}

/// Runs `remove`.
pub(super) async fn remove(args: &ProjectRemoveArgs) -> Result<(), Error> {
    let name = &args.name;
    let hub = super::open_hub(&args.secrets.hub).await?;
    let plane = match &args.project_kubeconfig {
        Some(path) => Some(open(name, path, args.project_context.as_deref()).await?),
        None => None,
    };
    let mut executor = Executor::new(args.write.mode(None));
    let sample = project::secret(name, &args.secrets.secrets_namespace, "");
    let live = hub.live(&sample).await?;
    usable(name, live.as_ref())?;
    let kinds = super::load_kinds(&args.kinds)?.federated;
    let used = used(name, &hub, plane.as_ref(), &kinds).await?;
    if let Some(object) = live {
        let next = "delete its Workloads and other objects first; --force removes it at once, and they go on running";
        refuse_used(&format!("project {name}"), &used, args.force, next)?;
        executor.run(&hub, Verb::Delete, object).await?;
    }
    match &plane {
        Some(plane) => {
            let mark = project_mark(name, &hub);
            executor.delete_own(plane, anchors(plane).await?, &mark).await?;
        }
        None => say(
            "without --project-kubeconfig the gateway's token stays valid in the project until it expires",
        ),
    }
    executor.conclude(
        &format!("project {name} is removed"),
        &format!("nothing is left of project {name}"),
    );
    Ok(())
}

/// Runs `list`.
pub(super) async fn list(args: &ProjectListArgs) -> Result<(), Error> {
    let hub = super::open_hub(&args.secrets.hub).await?;
    let mut secrets = secrets(&hub).await?;
    secrets.retain(|secret| secret["metadata"]["namespace"] == args.secrets.secrets_namespace.as_str());
    let namespaces = hub.list(&kind("v1", "Namespace"), UPSTREAM_CLUSTER).await?;
    let columns = &["NAME", "SERVER", "EXPIRES", "NAMESPACES", "MADE-BY", "AGE"];
    let rows = rows(&secrets, &namespaces, Timestamp::now());
    print(args.output, "Project", columns, columns.len(), &rows)
}

fn rows(secrets: &[Value], namespaces: &[Value], now: Timestamp) -> Vec<Vec<String>> {
    let row = |secret: &Value| {
        let text = |key: &str| secret["metadata"][key].as_str().unwrap_or_default();
        let (name, credential) = (text("name"), project::credential(secret));
        let server = credential
            .as_ref()
            .map(|credential| credential.server().to_string());
        let expiry = credential.and_then(|credential| credential.expiry());
        let expires = expiry.and_then(|expiry| Timestamp::from_second(expiry.at).ok());
        let selector = project::selector(name).unwrap_or_default();
        let (key, value) = selector.split_once('=').unwrap_or_default();
        let used = namespaces
            .iter()
            .filter(|of| of["metadata"]["labels"][key] == value);
        let row = [
            name,
            server.as_deref().unwrap_or("rejected"),
            &expires.map_or("-".to_owned(), |at| at.to_string()),
            &used.count().to_string(),
            if mark(secret).is_some() {
                "command"
            } else {
                "other"
            },
            &age(text("creationTimestamp"), now),
        ];
        row.map(str::to_owned).into()
    };
    let mut rows: Vec<Vec<String>> = secrets.iter().map(row).collect();
    rows.sort();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_that_is_no_projects_is_not_touched() {
        let foreign = json!({"metadata": {"name": "alpha"}, "data": {"kubeconfig": "aw=="}});
        assert_eq!(usable("alpha", Some(&foreign)).unwrap_err().kind, Kind::Refused);
        assert_eq!(usable("alpha", None), Ok(None));
        let ours = project::secret("alpha", "fedgate-system", "k");
        assert_eq!(usable("alpha", Some(&ours)), Ok(Some(b"k".to_vec())));
    }

    #[test]
    fn a_list_shows_no_credential() {
        let mut secret = project::secret("alpha", "fedgate-system", "a: secret");
        secret["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        let namespace =
            json!({"metadata": {"labels": {"meta.datumapis.com/upstream-cluster-name": "cluster-alpha"}}});
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(
            rows(&[secret], &[namespace], now),
            [["alpha", "rejected", "-", "1", "other", "1m"]]
        );
    }
}
