//! `fedgate projects`: definitions, roles and a credential in a project, and its Secret on the hub.

use super::{
    args::{ProjectAddArgs, ProjectListArgs, ProjectRemoveArgs, SecretsArgs},
    change::{Owner, Verb, mark},
    cluster,
    executor::{Executor, Mode},
    internal, kubeconfig,
    list::{age, print},
    plane::{Plane, kind},
    project::{self, ACCOUNT, ANCHOR, Found, Usage},
    token,
    usage::list_bindings,
};
use fedgate_api::{
    keys::{PROJECT_SECRET, PROJECT_UID},
    names::short_hash,
};
use fedgate_engine::plane::kubeconfig::{Credential, Rules};
use fedgate_kinds::{CompanionKinds, FederatedKind};
use fedgate_manifests::{KindManifests, NAMESPACE};
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
use jiff::Timestamp;
use kube::api::ApiResource;
use serde_json::Value;

/// The mark of a project's objects, which belong to no cell. Another hub may serve the same project with credentials of
/// its own.
fn project_mark(name: &str, hub: &Plane) -> String {
    format!("project-{name}-{}", short_hash(&hub.server, 8))
}

/// Runs `add`, or `rotate` with `renew`.
pub(super) async fn add(args: &ProjectAddArgs, renew: bool) -> Result<(), Error> {
    let mode = args.write.mode(args.output);
    let mut executor = Executor::new(mode);
    let name = &args.name;
    let hub = super::open_hub(&args.secrets.hub).await?;
    let title = format!("project {name}");
    let plane = Plane::open(&title, &args.project_kubeconfig, args.project_context.as_deref()).await?;
    let live = hub
        .live(&project::secret(name, &args.secrets.secrets_namespace, ""))
        .await?;
    let old = usable(name, live.as_ref())?;
    if renew && old.is_none() {
        return Err(
            Error::new(Kind::NotFound, format!("the hub has no project {name}"))
                .next(format!("fedgate projects add {name}")),
        );
    }
    refuse_known(name, &hub, &plane).await?;
    let kinds = super::load_kinds(&args.kinds)?;
    let kinds = KindManifests::all(&kinds, false);
    let objects = project::objects(&kinds).map_err(internal)?;
    let objects = super::without_crds(objects, args.skip_crds);
    executor.ensure_all(&plane, objects, Owner::Shared).await?;
    let server = args.project_endpoint.as_deref().unwrap_or(&plane.server);
    let fresh = old
        .as_deref()
        .is_some_and(|old| kubeconfig::is_fresh(old, server, args.lifetime, Timestamp::now()));
    if renew || !fresh {
        exchange(&mut executor, &hub, &plane, args, server).await?;
    }
    say(&match (mode, executor.changes) {
        (Mode::Print, _) => return Ok(()),
        (Mode::DryRun, changes) => format!("project {name}: {changes} changes would be made"),
        (Mode::Write, 0) => format!("project {name} is engaged; nothing to change"),
        (Mode::Write, changes) => format!("project {name} is engaged; {changes} changes were made"),
    });
    Ok(())
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
    let namespaces = hub.list(&kind("v1", "Namespace"), &of_project).await?;
    let of_any = format!("{PROJECT_SECRET}=true");
    let secrets = hub.list(&kind("v1", "Secret"), &of_any).await?;
    let known = project::known_as(
        (name, &uid, &plane.server),
        hub.id_if_any().await?.as_deref(),
        &hub.list_if_served(&clusters, "").await?,
        &namespaces,
        &secrets,
    );
    let Some(known) = known else { return Ok(()) };
    Err(Error::new(
        Kind::Refused,
        format!("the API server of project {name} is that of {known}"),
    )
    .because(format!(
        "{} is its address, {uid} the UID of its namespace kube-system",
        plane.server
    ))
    .next("give --project-kubeconfig of the project's own API server"))
}

/// The kubeconfig of the project's Secret, if there is one that is a project's.
fn usable(name: &str, live: Option<&Value>) -> Result<Option<Vec<u8>>, Error> {
    let Some(live) = live else {
        return Ok(None);
    };
    if live["metadata"]["labels"][PROJECT_SECRET] != "true" {
        return Err(
            Error::new(Kind::Refused, format!("Secret {name} exists and is no project's"))
                .because(format!("NameTaken: it has no label {PROJECT_SECRET}=true"))
                .next("choose another name for the project"),
        );
    }
    Ok(Some(
        kubeconfig::from_base64(&live["data"]["kubeconfig"]).unwrap_or_default(),
    ))
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
    let older = anchors(plane, &mark).await?;
    let anchor = project::anchor(&format!("{mark} {}", Timestamp::now()));
    let anchor = executor.ensure(plane, anchor, Owner::Cell(&mark)).await?;
    let text = if executor.writes() {
        let field = |key: &str| anchor["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (name, uid) = (field("name"), field("uid"));
        let token = token::issue(plane, ACCOUNT, args.lifetime, Some((&name, &uid))).await?;
        let server = plane.at(server);
        token::prove(&plane.title, server, &token, ACCOUNT).await?;
        kubeconfig::with_token(&args.name, server, ACCOUNT.name, &token)?
    } else {
        String::new()
    };
    let secret = project::secret(&args.name, &args.secrets.secrets_namespace, &text);
    executor.ensure(hub, secret, Owner::Cell(&mark)).await?;
    executor.delete_own(plane, older, &mark).await
}

/// The anchors of a project's credentials.
async fn anchors(plane: &Plane, own: &str) -> Result<Vec<Value>, Error> {
    let all = plane
        .list(&kind("v1", "Secret"), &format!("{ANCHOR}=gateway"))
        .await?;
    let ours = |anchor: &Value| anchor["metadata"]["namespace"] == NAMESPACE && mark(anchor) == Some(own);
    Ok(all.into_iter().filter(ours).collect())
}

/// Reads the use of a project on the hub and, if it is given, in the project.
async fn usage(
    name: &str,
    hub: &Plane,
    plane: Option<&Plane>,
    kinds: &[FederatedKind],
) -> Result<Usage, Error> {
    let Some(selector) = project::selector(name) else {
        return Ok(Usage::default());
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
    Ok(Usage::of(&found, &own, &CompanionKinds::of(kinds)))
}

/// Runs `remove`.
pub(super) async fn remove(args: &ProjectRemoveArgs) -> Result<(), Error> {
    let name = &args.name;
    let hub = super::open_hub(&args.secrets.hub).await?;
    let plane = match &args.project_kubeconfig {
        Some(path) => {
            Some(Plane::open(&format!("project {name}"), path, args.project_context.as_deref()).await?)
        }
        None => None,
    };
    let mut executor = Executor::new(args.write.mode(None));
    let live = hub
        .live(&project::secret(name, &args.secrets.secrets_namespace, ""))
        .await?;
    usable(name, live.as_ref())?;
    let kinds = super::load_kinds(&args.kinds)?.federated;
    let usage = usage(name, &hub, plane.as_ref(), &kinds).await?;
    if !usage.is_empty() && !args.force && live.is_some() {
        return Err(
            Error::new(Kind::Refused, format!("project {name} is in use: {usage}")).next(
                "delete its Workloads and other objects first; --force removes it at once, and they go on running",
            ),
        );
    }
    if let Some(object) = live {
        executor.run(&hub, Verb::Delete, object).await?;
    }
    match &plane {
        Some(plane) => {
            let mark = project_mark(name, &hub);
            executor
                .delete_own(plane, anchors(plane, &mark).await?, &mark)
                .await?;
        }
        None => say(
            "without --project-kubeconfig the gateway's token stays valid in the project until it expires",
        ),
    }
    say(&match executor.changes {
        0 => format!("nothing is left of project {name}; nothing to change"),
        changes if args.write.dry_run => format!("project {name}: {changes} objects would be deleted"),
        changes => format!("project {name} is removed; {changes} objects were deleted"),
    });
    Ok(())
}

/// Runs `list`.
pub(super) async fn list(args: &ProjectListArgs) -> Result<(), Error> {
    let SecretsArgs {
        hub,
        secrets_namespace,
    } = &args.secrets;
    let hub = super::open_hub(hub).await?;
    let secrets = hub
        .list(&kind("v1", "Secret"), &format!("{PROJECT_SECRET}=true"))
        .await?;
    let namespaces = hub
        .list(&kind("v1", "Namespace"), fedgate_api::keys::UPSTREAM_CLUSTER)
        .await?;
    let secrets: Vec<Value> = secrets
        .into_iter()
        .filter(|secret| secret["metadata"]["namespace"] == secrets_namespace.as_str())
        .collect();
    let columns = &["NAME", "SERVER", "EXPIRES", "NAMESPACES", "MADE-BY", "AGE"];
    let rows = rows(&secrets, &namespaces, Timestamp::now());
    print(args.output, "Project", columns, columns.len(), &rows)
}

fn rows(secrets: &[Value], namespaces: &[Value], now: Timestamp) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = secrets
        .iter()
        .map(|secret| {
            let name = secret["metadata"]["name"].as_str().unwrap_or_default();
            let text = kubeconfig::from_base64(&secret["data"]["kubeconfig"]).unwrap_or_default();
            let credential = Credential::from_secret("", name, &text, Rules::default()).ok();
            let server = credential
                .as_ref()
                .map_or("rejected".to_owned(), |c| c.server().to_string());
            let expires = credential
                .and_then(|credential| credential.expiry())
                .and_then(|expiry| Timestamp::from_second(expiry.at).ok())
                .map_or("-".to_owned(), |at| at.to_string());
            let selector = project::selector(name).unwrap_or_default();
            let (key, value) = selector.split_once('=').unwrap_or_default();
            let used = namespaces
                .iter()
                .filter(|n| n["metadata"]["labels"][key] == value)
                .count();
            let created = secret["metadata"]["creationTimestamp"]
                .as_str()
                .unwrap_or_default();
            let maker = if mark(secret).is_some() {
                "command"
            } else {
                "other"
            };
            vec![
                name.to_owned(),
                server,
                expires,
                used.to_string(),
                maker.to_owned(),
                age(created, now),
            ]
        })
        .collect();
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
