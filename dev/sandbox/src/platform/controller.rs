//! The project controller: finalizer, conditions, control plane object, purge.

use super::{
    control_planes, projects, purge,
    switches::{Settings, Switches},
    upstreams::Upstreams,
};
use crate::{
    child::FixedBackoff,
    conditions::{self, Said},
};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    core::DynamicObject,
};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Milo's finalizer of Projects.
const FINALIZER: &str = "resourcemanager.miloapis.com/project-controller";
/// Until the controller looks again: at a project whose purge is not complete, or after an error.
const AGAIN: Duration = Duration::from_secs(1);
/// The label by which Milo marks a namespace of its own, and that namespace.
const SYSTEM: (&str, &str) = ("miloapis.com/system", "milo-system");
const DEFAULT: (&str, &str) = ("miloapis.com/project-default", "default");

/// Controls all Projects for ever.
pub(super) async fn control(upstreams: Arc<Upstreams>, switches: Arc<Switches>) {
    let all: Api<DynamicObject> = Api::all_with(upstreams.core.client.clone(), &projects());
    let mut events = pin!(watcher(all, watcher::Config::default()).backoff(FixedBackoff));
    let mut tasks: BTreeMap<String, watch::Sender<Option<DynamicObject>>> = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(project) | Event::InitApply(project)) => {
                switches.put(&project);
                let name = project.name_any();
                let task = tasks.entry(name.clone()).or_insert_with(|| {
                    let (latest, seen) = watch::channel(None);
                    tokio::spawn(follow(name, seen, Arc::clone(&upstreams)));
                    latest
                });
                task.send_replace(Some(project));
            }
            Ok(Event::Delete(project)) => {
                let name = project.name_any();
                tracing::info!(project = name, "is gone");
                switches.remove(&name);
                // Its task ends.
                tasks.remove(&name);
            }
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => tracing::debug!(%error, "the watch of Projects is opened again"),
        }
    }
}

/// Follows one Project until it is gone.
async fn follow(name: String, mut latest: watch::Receiver<Option<DynamicObject>>, upstreams: Arc<Upstreams>) {
    loop {
        let project = latest.borrow_and_update().clone();
        let settled = match project {
            Some(project) => reconcile(&upstreams, &project).await.unwrap_or_else(|error| {
                tracing::info!(project = name, %error, "is tried again");
                false
            }),
            None => true,
        };
        let changed = tokio::select! {
            changed = latest.changed() => changed.is_ok(),
            () = tokio::time::sleep(AGAIN), if !settled => true,
        };
        if !changed {
            return;
        }
    }
}

/// Brings one Project forward; whether only a change of it can bring it further.
async fn reconcile(upstreams: &Upstreams, project: &DynamicObject) -> kube::Result<bool> {
    let core = &upstreams.core.client;
    let name = project.name_any();
    if project.metadata.deletion_timestamp.is_some() {
        return end(upstreams, project).await;
    }
    if !project.finalizers().iter().any(|of| of == FINALIZER) {
        let mut all = project.finalizers().to_vec();
        all.push(FINALIZER.to_owned());
        set_finalizers(core, project, &all).await?;
        return Ok(true);
    }
    make_control_plane(core, project).await?;
    let settings = Settings::of(project);
    let not_ready = |message| ("Ready", false, "Provisioning", message);
    let ready: Said<'_> = if settings.not_ready {
        not_ready("an annotation of the sandbox says so")
    } else if let Some(upstream) = upstreams.projects.get(&name) {
        make_namespace(&upstream.client, DEFAULT).await?;
        // Milo's own API server makes the other one by itself.
        if !upstreams.is_milo() {
            make_namespace(&upstream.client, SYSTEM).await?;
        }
        ("Ready", true, "Ready", "the project is ready")
    } else {
        not_ready("the sandbox has no API server for this project")
    };
    say(core, project, ready).await?;
    suspend(core, project, settings.suspended.as_deref()).await?;
    Ok(true)
}

/// Makes a namespace with Milo's label, or adds the label to a namespace that exists.
async fn make_namespace(client: &Client, (label, name): (&str, &str)) -> kube::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.get_opt(name).await?;
    if found.is_some_and(|namespace| namespace.labels().contains_key(label)) {
        return Ok(());
    }
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {label: "true"}},
    });
    let params = PatchParams::apply("sandbox-platform").force();
    namespaces
        .patch(name, &params, &Patch::Apply(&object))
        .await
        .map(drop)
}

/// Makes the `ProjectControlPlane` of a project. It is ready at once.
async fn make_control_plane(core: &Client, project: &DynamicObject) -> kube::Result<()> {
    let resource = control_planes();
    let all: Api<DynamicObject> = Api::all_with(core.clone(), &resource);
    let name = project.name_any();
    let object = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "labels": {
                "resourcemanager.miloapis.com/project-name": name,
                "resourcemanager.miloapis.com/project-uid": project.metadata.uid,
            },
            "annotations": {"resourcemanager.miloapis.com/owner-name": project.data["spec"]["ownerRef"]["name"]},
        },
    });
    let params = PatchParams::apply("sandbox-platform").force();
    let object = all.patch(&name, &params, &Patch::Apply(&object)).await?;
    let said = ("ControlPlaneReady", true, "Ready", "the control plane is ready");
    write(&all, &object, said).await
}

/// Writes the condition `Suspended` and the suspensions of a project.
async fn suspend(core: &Client, project: &DynamicObject, reason: Option<&str>) -> kube::Result<()> {
    let was = project.data["status"]["suspensions"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    if was != reason.is_some() {
        let time = conditions::time(Timestamp::now());
        let one = |reason| json!({"reason": reason, "suspendedAt": time, "reinstateAuthority": "Operator"});
        let all: Vec<Value> = reason.map(one).into_iter().collect();
        patch(core, project, json!({"status": {"suspensions": all}})).await?;
    }
    let said = match reason {
        Some(_) => ("Suspended", true, "Suspended", "the project is suspended"),
        None => ("Suspended", false, "Active", "the project is not suspended"),
    };
    say(core, project, said).await
}

/// Takes one step of the deletion of a Project; true if the deletion needs no further step.
async fn end(upstreams: &Upstreams, project: &DynamicObject) -> kube::Result<bool> {
    let core = &upstreams.core.client;
    let name = project.name_any();
    let left: Vec<String> = project
        .finalizers()
        .iter()
        .filter(|of| *of != FINALIZER)
        .cloned()
        .collect();
    if left.len() == project.finalizers().len() {
        return Ok(true);
    }
    let drains = Settings::of(project).drains;
    if !drains {
        remove_control_plane(core, &name).await?;
    }
    say(
        core,
        project,
        ("ResourceCleanup", true, "CleanupStarted", "the purge goes on"),
    )
    .await?;
    if let Some(upstream) = upstreams.projects.get(&name)
        && !purge::purge(&upstream.client, drains).await?
    {
        tracing::info!(project = name, "is not empty yet");
        return Ok(false);
    }
    if drains {
        remove_control_plane(core, &name).await?;
    }
    set_finalizers(core, project, &left).await?;
    Ok(true)
}

async fn remove_control_plane(core: &Client, name: &str) -> kube::Result<()> {
    let all: Api<DynamicObject> = Api::all_with(core.clone(), &control_planes());
    match all.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        answer => answer.map(drop),
    }
}

async fn set_finalizers(core: &Client, project: &DynamicObject, all: &[String]) -> kube::Result<()> {
    patch(core, project, json!({"metadata": {"finalizers": all}})).await
}

/// Merges a change into this very Project; into its status, if the change has one.
async fn patch(core: &Client, project: &DynamicObject, mut change: Value) -> kube::Result<()> {
    let api: Api<DynamicObject> = Api::all_with(core.clone(), &projects());
    change["metadata"]["uid"] = json!(project.metadata.uid);
    let (name, params, patch) = (project.name_any(), PatchParams::default(), Patch::Merge(&change));
    let patched = match change["status"] {
        Value::Null => api.patch(&name, &params, &patch).await,
        _ => api.patch_status(&name, &params, &patch).await,
    };
    patched.map(drop)
}

async fn say(core: &Client, project: &DynamicObject, said: Said<'_>) -> kube::Result<()> {
    let api: Api<DynamicObject> = Api::all_with(core.clone(), &projects());
    // The one that was seen may lack what was said a moment ago.
    match api.get_opt(&project.name_any()).await? {
        Some(now) if now.metadata.uid == project.metadata.uid => write(&api, &now, said).await,
        _ => Ok(()),
    }
}

/// Writes the condition unless the object has it.
async fn write(api: &Api<DynamicObject>, object: &DynamicObject, said: Said<'_>) -> kube::Result<()> {
    let before = &object.data["status"]["conditions"];
    let list = conditions::with(before, said, Timestamp::now());
    if list == *before {
        return Ok(());
    }
    let patch = json!({"metadata": {"uid": object.metadata.uid}, "status": {"conditions": list}});
    let params = PatchParams::default();
    api.patch_status(&object.name_any(), &params, &Patch::Merge(&patch))
        .await
        .map(drop)
}
