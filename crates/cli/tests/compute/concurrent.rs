//! Changes beside other users: somebody writes between two requests of a command.

use crate::project::{NAMESPACE, Project};
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

const WEB: [&str; 6] = ["deploy", "web", "--image", "web:1", "--city", "DFW,IAD"];
const MAP: &str = "compute-revisions.web";

/// Called with the line of each request before the project sees it.
type Hook = Arc<dyn Fn(&str) + Send + Sync>;

/// A proxy before the project, by which all later commands go.
struct Proxy(JoinHandle<()>);

impl Drop for Proxy {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Proxy {
    async fn start(shop: &Project, before: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let text = std::fs::read_to_string(shop.kubeconfig()).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        let url = &mut config["clusters"][0]["cluster"]["server"];
        let (address, path) = url.as_str().unwrap()["http://".len()..].split_once('/').unwrap();
        let server: SocketAddr = address.parse().unwrap();
        *url = json!(format!("http://{}/{path}", listener.local_addr().unwrap()));
        std::fs::write(shop.kubeconfig(), config.to_string()).unwrap();
        let hook: Hook = Arc::new(before);
        Self(tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                // A connection that fails is its client's affair.
                let pass = pass(client, server, hook.clone());
                tokio::spawn(async move { drop(pass.await) });
            }
        }))
    }

    /// Starts a server that acts at the first requests that fit, this many of them.
    async fn times(
        shop: &Project,
        number: usize,
        fits: fn(&str) -> bool,
        act: impl Fn(&Plane, usize) + Send + Sync + 'static,
    ) -> Self {
        let (plane, seen) = (shop.plane.clone(), AtomicUsize::new(0));
        Self::start(shop, move |line| {
            if fits(line) {
                let before = seen.fetch_add(1, Ordering::SeqCst);
                if before < number {
                    act(&plane, before);
                }
            }
        })
        .await
    }

    /// Starts a server that acts at the first request that fits.
    async fn once(
        shop: &Project,
        fits: fn(&str) -> bool,
        act: impl Fn(&Plane) + Send + Sync + 'static,
    ) -> Self {
        Self::times(shop, 1, fits, move |plane, _| act(plane)).await
    }
}

async fn pass(client: TcpStream, server: SocketAddr, hook: Hook) -> io::Result<()> {
    let (mut from_server, mut to_server) = TcpStream::connect(server).await?.into_split();
    let (mut from_client, mut to_client) = client.into_split();
    let requests = async {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = from_client.read(&mut buffer).await?;
            if length == 0 {
                return to_server.shutdown().await;
            }
            // A client sends its next request after the answer, so a request begins a packet.
            let text = String::from_utf8_lossy(&buffer[..length]);
            hook(text.lines().next().unwrap_or_default());
            to_server.write_all(&buffer[..length]).await?;
        }
    };
    let answers = tokio::io::copy(&mut from_server, &mut to_client);
    tokio::try_join!(requests, answers).map(drop)
}

fn is_dry_run(line: &str) -> bool {
    is_put(line) && line.contains("dryRun=All")
}

fn is_write(line: &str) -> bool {
    is_put(line) && !line.contains("dryRun=All")
}

fn is_put(line: &str) -> bool {
    line.starts_with("PUT ") && line.contains("/workloads/web?")
}

fn write_status(plane: &Plane) {
    let available = json!([{"type": "Available", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let status = json!({"status": {"conditions": available}});
    plane.merge_status("Workload", NAMESPACE, "web", status).unwrap();
}

/// Bob gives the Instances a label.
fn write_spec(plane: &Plane) {
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"by": "bob"}}}}});
    plane.merge("Workload", NAMESPACE, "web", patch).unwrap();
}

fn live(shop: &Project) -> Value {
    (*shop.plane.get("Workload", NAMESPACE, "web").unwrap()).clone()
}

fn minimum(workload: &Value) -> &Value {
    &workload["spec"]["placements"][0]["scaleSettings"]["minReplicas"]
}

fn label(workload: &Value) -> &Value {
    &workload["spec"]["template"]["metadata"]["labels"]["by"]
}

/// A project whose Workload has two revisions.
async fn shop() -> Project {
    let shop = Project::start("shop").await;
    shop.run(&[&WEB[..], &["--wait=false"]].concat()).await.ok();
    shop.run(&["scale", "web", "--min", "2", "--wait=false"])
        .await
        .ok();
    shop
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_write_before_the_write_costs_a_retry_and_no_error() {
    let shop = shop().await;
    let (plane, writes) = (shop.plane.clone(), Arc::new(AtomicUsize::new(0)));
    let counter = writes.clone();
    let _proxy = Proxy::start(&shop, move |line| {
        if is_write(line) && counter.fetch_add(1, Ordering::SeqCst) == 0 {
            write_status(&plane);
        }
    })
    .await;
    let words = ["deploy", "web", "--image", "web:2", "--yes", "--wait=false"];
    let seen = shop.run(&words).await.ok();
    assert_eq!(
        seen.stdout,
        "workload.compute.datumapis.com/web configured (rev #3)\n"
    );
    assert_eq!(
        seen.stderr.matches("web:1 -> web:2").count(),
        1,
        "{}",
        seen.stderr
    );
    assert_eq!(writes.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spec_write_before_the_write_is_not_overwritten() {
    for words in [
        &["deploy", "web", "--image", "web:2", "--yes"][..],
        &["rollout", "undo", "web", "--yes"],
    ] {
        let shop = shop().await;
        let _proxy = Proxy::once(&shop, is_write, write_spec).await;
        let seen = shop.run(words).await;
        assert_eq!(seen.code, 5, "{words:?}: {}", seen.stderr);
        assert!(
            seen.stderr
                .contains("error: workload \"web\" changed meanwhile\n")
                && seen
                    .stderr
                    .ends_with("  next: kubectl compute rollout history web\n"),
            "{}",
            seen.stderr
        );
        let live = live(&shop);
        assert_eq!(
            (label(&live), minimum(&live)),
            (&json!("bob"), &json!(2)),
            "{words:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn undo_does_not_overwrite_a_change_after_it_has_chosen_the_revision() {
    let shop = shop().await;
    let history = |line: &str| line.starts_with("GET ") && line.contains("/configmaps/compute-revisions.web");
    let _proxy = Proxy::once(&shop, history, write_spec).await;
    let words = ["rollout", "undo", "web", "--yes", "--wait=false"];
    let seen = shop.run(&words).await;
    assert_eq!(seen.code, 5, "{}", seen.stderr);
    assert_eq!(label(&live(&shop)), "bob");
}

#[tokio::test(flavor = "multi_thread")]
async fn scale_applies_again_to_the_spec_of_another_user() {
    let shop = shop().await;
    let _proxy = Proxy::once(&shop, is_write, write_spec).await;
    let seen = shop
        .run(&["scale", "web", "--min", "3", "--wait=false"])
        .await
        .ok();
    assert_eq!(
        seen.stdout,
        "workload.compute.datumapis.com/web configured (rev #4)\n"
    );
    let live = live(&shop);
    assert_eq!((label(&live), minimum(&live)), (&json!("bob"), &json!(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_made_anew_with_the_same_generation_is_another_one() {
    let shop = Project::start("shop").await;
    shop.run(&[&WEB[..], &["--wait=false"]].concat()).await.ok();
    let again = |plane: &Plane| {
        let before = plane.get("Workload", NAMESPACE, "web").unwrap();
        plane.delete("Workload", NAMESPACE, "web").unwrap();
        let mut spec = before["spec"].clone();
        spec["template"]["metadata"] = json!({"labels": {"by": "bob"}});
        let fresh = json!({"apiVersion": before["apiVersion"], "kind": "Workload",
            "metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec});
        plane.create(fresh).unwrap();
    };
    let _proxy = Proxy::once(&shop, is_write, again).await;
    let words = ["deploy", "web", "--image", "web:2", "--yes", "--wait=false"];
    let seen = shop.run(&words).await;
    assert_eq!(seen.code, 5, "{}{}", seen.stdout, seen.stderr);
    let containers = &live(&shop)["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"];
    assert_eq!(containers[0]["image"], "web:1");
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_asks_again_after_a_write_of_another_user() {
    let shop = shop().await;
    let _proxy = Proxy::times(&shop, 2, is_dry_run, |plane, n| match n {
        0 => write_status(plane),
        _ => write_spec(plane),
    })
    .await;
    let seen = shop.run(&["diff", "web", "--to-revision", "1"]).await;
    assert_eq!(seen.code, 1, "{}", seen.stderr);
    assert!(
        seen.stdout.contains("minReplicas: 2 -> 1") && seen.stdout.contains("labels.by: bob"),
        "the difference from what is live now: {}",
        seen.stdout
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_others_write_is_tried_again_five_times() {
    let shop = shop().await;
    let record = |line: &str| line.starts_with("PUT ") && line.contains("/configmaps/");
    let _proxy = Proxy::times(&shop, 5, record, |plane, n| {
        let note = json!({"data": {"note": n.to_string()}});
        plane.merge("ConfigMap", NAMESPACE, MAP, note).unwrap();
    })
    .await;
    let seen = shop
        .run(&["scale", "web", "--min", "3", "--wait=false"])
        .await
        .ok();
    assert_eq!(
        seen.stdout, "workload.compute.datumapis.com/web configured (rev #3)\n",
        "{}",
        seen.stderr
    );
    let map = shop.plane.get("ConfigMap", NAMESPACE, MAP).unwrap();
    assert_eq!(map["data"]["note"], "4", "foreign keys stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn destroy_waits_for_instances_that_came_after_its_list() {
    let shop = Project::start("shop").await;
    let web = shop.workload("web", "web:1", &["DFW"]);
    shop.deployment(&web, "web-us-dfw", "DFW");
    let owner = |object: &Value| {
        json!({"metadata": {"ownerReferences": [{"apiVersion": object["apiVersion"], "kind": object["kind"],
            "name": object["metadata"]["name"], "uid": object["metadata"]["uid"], "controller": true}]}})
    };
    let kind = "WorkloadDeployment";
    shop.plane
        .merge(kind, NAMESPACE, "web-us-dfw", owner(&web))
        .unwrap();
    let delete = |line: &str| line.starts_with("DELETE ") && line.contains("/workloads/web");
    let _proxy = Proxy::once(&shop, delete, move |plane| {
        let deployment = plane.get(kind, NAMESPACE, "web-us-dfw").unwrap();
        let mut late = crate::project::instance("late", &json!({}));
        late["metadata"]["ownerReferences"] = owner(&deployment)["metadata"]["ownerReferences"].take();
        late["metadata"]["finalizers"] = json!(["example.com/hold"]);
        plane.create(late).unwrap();
    })
    .await;
    let mut destroy = shop.start_run(&["destroy", "web", "--yes"]);
    while !destroy
        .remark()
        .await
        .contains("1 instance held by example.com/hold")
    {}
    let release = json!({"metadata": {"finalizers": null}});
    shop.plane.merge("Instance", NAMESPACE, "late", release).unwrap();
    let seen = destroy.end().await.ok();
    assert_eq!(seen.stdout, "workload.compute.datumapis.com/web deleted\n");
}
