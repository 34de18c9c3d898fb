//! P1 to P4: single objects through an idle gateway, each beside a bare client.
//!
//! Every time runs from the moment at which the bench's own watch of the plane shows the write that starts it, until the
//! bench's own watch shows the result. The bare client begins its first request when the bench's own watch shows that write,
//! because the gateway, too, learns of it by a watch.

use super::{
    objects::{
        Kind, announcement, bare_copy, binding, deployment, instance_status, projection, report, write_back,
    },
    plane::{exists, gone, has, text},
    report::{Figure, LatencyBar, Pairs},
    rig::{Home, Program, Rig},
};
use anyhow::Result;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::time::Duration;

/// Samples that only warm connections and caches.
const WARM_UP: usize = 20;
/// Lets the controllers of a new namespace finish, which are no part of a measurement.
const NAMESPACE_REST: Duration = Duration::from_millis(50);

/// One deployment's life as far as it is timed.
struct Life {
    created: Duration,
    status: Duration,
    appeared: Duration,
    gone: Duration,
}

fn complete(state: Option<&DynamicObject>) -> bool {
    let conditions = state
        .and_then(|object| object.data.pointer("/status/conditions"))
        .and_then(Value::as_array);
    conditions.is_some_and(|list| !list.is_empty())
}

/// Plays Karmada and the cell once: the binding is there and applied, the cell reports; waits for it in the project.
pub(crate) async fn settle(home: &Home<'_>, name: &str) -> Result<Duration> {
    let copy = home.hub.get(Kind::Deployment, &home.hub_namespace, name).await?;
    let (object, status) = binding(&home.hub_namespace, name, text(&copy, "/metadata/uid"));
    let bound = home
        .hub
        .create(Kind::Binding, &home.hub_namespace, object)
        .await?;
    home.hub
        .status(
            Kind::Binding,
            &home.hub_namespace,
            text(&bound, "/metadata/name"),
            status,
        )
        .await?;
    let reports = || has("/status/readyReplicas", json!(1));
    let reported = home.hub.deployment(&home.hub_namespace, name, reports());
    let returned = home.project.deployment(&home.namespace, name, reports());
    home.hub
        .status(Kind::Deployment, &home.hub_namespace, name, report(1))
        .await?;
    returned.after(reported.seen().await?).await
}

/// Creates a deployment and waits for its copy.
pub(crate) async fn deploy(home: &Home<'_>, name: &str) -> Result<Duration> {
    let created = home.project.deployment(&home.namespace, name, exists);
    let copied = home.hub.deployment(&home.hub_namespace, name, exists);
    home.project
        .create(Kind::Deployment, &home.namespace, deployment(name, "DFW", None))
        .await?;
    copied.after(created.seen().await?).await
}

/// The copy as the bare client makes it, from the confirmed deployment on.
pub(crate) async fn bare_carry(home: &Home<'_>, source: &Value, furnish: bool) -> Result<()> {
    let (uid, version) = (
        text(source, "/metadata/uid"),
        text(source, "/metadata/resourceVersion"),
    );
    let patch = announcement(uid, version, &home.hub_namespace);
    let name = text(source, "/metadata/name");
    home.project
        .merge(Kind::Deployment, &home.namespace, name, &patch)
        .await?;
    if furnish {
        home.furnish().await?;
    }
    home.hub
        .create(Kind::Deployment, &home.hub_namespace, bare_copy(source))
        .await?;
    Ok(())
}

async fn bare_deploy(home: &Home<'_>, name: &str, furnish: bool) -> Result<(Duration, Value)> {
    let created = home.project.deployment(&home.namespace, name, exists);
    let copied = home.hub.deployment(&home.hub_namespace, name, exists);
    let source = home
        .project
        .create(Kind::Deployment, &home.namespace, deployment(name, "DFW", None))
        .await?;
    let seen = created.seen().await?;
    bare_carry(home, &source, furnish).await?;
    Ok((copied.after(seen).await?, source))
}

async fn live(home: &Home<'_>, name: &str) -> Result<Life> {
    let created = deploy(home, name).await?;
    let status = settle(home, name).await?;
    let (ns, hub_ns) = (&home.namespace, &home.hub_namespace);
    let copy = home.hub.get(Kind::Deployment, hub_ns, name).await?;
    let instance = format!("{name}-0");
    let written = home.hub.instance(hub_ns, &instance, exists);
    let projected = home.project.instance(ns, &instance, complete);
    let object = write_back(&home.key, ns, name, text(&copy, "/metadata/uid"), &instance);
    home.hub.create(Kind::Instance, hub_ns, object).await?;
    home.hub
        .status(Kind::Instance, hub_ns, &instance, instance_status(false))
        .await?;
    let appeared = projected.after(written.seen().await?).await?;
    let (deleted, removed) = (
        home.hub.instance(hub_ns, &instance, gone),
        home.project.instance(ns, &instance, gone),
    );
    home.hub.delete(Kind::Instance, hub_ns, &instance).await?;
    let gone = removed.after(deleted.seen().await?).await?;
    Ok(Life {
        created,
        status,
        appeared,
        gone,
    })
}

async fn bare_live(home: &Home<'_>, name: &str) -> Result<Life> {
    let (created, source) = bare_deploy(home, name, false).await?;
    let (ns, hub_ns) = (&home.namespace, &home.hub_namespace);
    let copy = home.hub.get(Kind::Deployment, hub_ns, name).await?;
    let reports = || has("/status/readyReplicas", json!(1));
    let reported = home.hub.deployment(hub_ns, name, reports());
    let returned = home.project.deployment(ns, name, reports());
    home.hub.status(Kind::Deployment, hub_ns, name, report(1)).await?;
    let seen = reported.seen().await?;
    home.project.status(Kind::Deployment, ns, name, report(1)).await?;
    let status = returned.after(seen).await?;
    let instance = format!("{name}-0");
    let written = home.hub.instance(hub_ns, &instance, exists);
    let projected = home.project.instance(ns, &instance, complete);
    let object = write_back(&home.key, ns, name, text(&copy, "/metadata/uid"), &instance);
    home.hub.create(Kind::Instance, hub_ns, object).await?;
    let seen = written.seen().await?;
    // The cell's own second write and the first of the projection do not wait for each other.
    let object = projection(&home.key, ns, name, text(&source, "/metadata/uid"), &instance);
    tokio::try_join!(
        home.hub
            .status(Kind::Instance, hub_ns, &instance, instance_status(false)),
        home.project.create(Kind::Instance, ns, object),
    )?;
    home.project
        .status(Kind::Instance, ns, &instance, instance_status(false))
        .await?;
    let appeared = projected.after(seen).await?;
    let (deleted, removed) = (
        home.hub.instance(hub_ns, &instance, gone),
        home.project.instance(ns, &instance, gone),
    );
    home.hub.delete(Kind::Instance, hub_ns, &instance).await?;
    let seen = deleted.seen().await?;
    home.project.delete(Kind::Instance, ns, &instance).await?;
    let gone = removed.after(seen).await?;
    Ok(Life {
        created,
        status,
        appeared,
        gone,
    })
}

/// What the latency phases found.
pub(crate) struct Latencies {
    pub(crate) figures: Vec<Figure>,
    pub(crate) raw: Value,
}

/// P1, P3 and P4 on one warm namespace; the program and the bare client take turns, and take turns in going first.
pub(crate) async fn lives(rig: &Rig, program: Program, samples: usize) -> Result<Latencies> {
    let namespace = program.namespace("lives");
    let home = rig.home(program, 0, &namespace).await?;
    let bare = rig.bare_home(0, &namespace).await?;
    bare.furnish().await?;
    let (mut created, mut status, mut appeared, mut gone) = (
        Pairs::default(),
        Pairs::default(),
        Pairs::default(),
        Pairs::default(),
    );
    for number in 0..samples + WARM_UP {
        let name = format!("web-{number}");
        let (of_gateway, of_bare) = if number % 2 == 0 {
            let first = live(&home, &name).await?;
            (first, bare_live(&bare, &name).await?)
        } else {
            let first = bare_live(&bare, &name).await?;
            (live(&home, &name).await?, first)
        };
        if number < WARM_UP {
            continue;
        }
        for (pairs, pick) in [
            (
                &mut created,
                (|life: &Life| life.created) as fn(&Life) -> Duration,
            ),
            (&mut status, |life| life.status),
            (&mut appeared, |life| life.appeared),
            (&mut gone, |life| life.gone),
        ] {
            pairs.gateway.push(pick(&of_gateway));
            pairs.bare.push(pick(&of_bare));
        }
    }
    let mut figures = Vec::new();
    for (pairs, name, [p50, p99, ratio]) in [
        (
            &created,
            "P1 project create → hub object visible",
            [15.0, 40.0, 1.2],
        ),
        (&status, "P3 hub status → project status", [12.0, 30.0, 1.2]),
        (
            &appeared,
            "P4 write-back → complete projection",
            [15.0, 40.0, 1.3],
        ),
        (&gone, "P4 write-back gone → projection gone", [15.0, 40.0, 1.3]),
    ] {
        let bar = LatencyBar { p50, p99, ratio };
        let bar = Some(bar).filter(|_| program == Program::Gateway);
        figures.extend(pairs.figures(&format!("{}{name}", program.prefix()), bar));
    }
    let raw = json!({"P1": created.raw(), "P3": status.raw(), "P4": appeared.raw(), "P4 gone": gone.raw()});
    Ok(Latencies { figures, raw })
}

/// P2: each sample is the first deployment of a new namespace.
pub(crate) async fn first_of_namespace(rig: &Rig, samples: usize) -> Result<Latencies> {
    let mut pairs = Pairs::default();
    for number in 0..samples + WARM_UP {
        let namespace = format!("first-{number}");
        let home = rig.home(Program::Gateway, 0, &namespace).await?;
        let bare = rig.bare_home(0, &namespace).await?;
        tokio::time::sleep(NAMESPACE_REST).await;
        let (of_gateway, of_bare) = if number % 2 == 0 {
            let first = deploy(&home, "web").await?;
            (first, bare_deploy(&bare, "web", true).await?.0)
        } else {
            let first = bare_deploy(&bare, "web", true).await?.0;
            (deploy(&home, "web").await?, first)
        };
        // Otherwise the gateway says after 5 s that nothing is delivered, in the middle of another sample.
        settle(&home, "web").await?;
        if number >= WARM_UP {
            pairs.gateway.push(of_gateway);
            pairs.bare.push(of_bare);
        }
    }
    let bar = LatencyBar {
        p50: 100.0,
        p99: 100.0,
        ratio: 1.3,
    };
    Ok(Latencies {
        figures: pairs
            .figures("P2 first deployment of a namespace", Some(bar))
            .into(),
        raw: json!({"P2": pairs.raw()}),
    })
}
