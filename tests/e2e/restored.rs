//! 87–89: a plane is put back to an older state, as by a restore from a backup, or to that of its installation: its etcd
//! with its revision, and no other.

use crate::support::{
    Case, Entry,
    audit::GATEWAY,
    deployment,
    kinds::{DEPLOYMENT, INSTANCE, NAMESPACE},
    lone_trials,
    process::Controllers,
    seconds,
    suite::AS_INSTALLED,
    uid, wait_for,
};
use serde_json::{Value, json};

lone_trials![
    a87_a_project_is_restored,
    a88_the_hub_is_restored,
    a89_the_hub_is_made_anew,
];

fn scale(to: u32) -> Value {
    json!({"spec": {"scaleSettings": {"minReplicas": to}}})
}

/// Changes it and waits until its copy follows.
async fn follows(case: &Case, name: &str, to: u32) -> Value {
    case.merge(&DEPLOYMENT, name, scale(to)).await;
    has(case, name, to).await
}

/// Waits until the copy is at this scale.
async fn has(case: &Case, name: &str, to: u32) -> Value {
    case.copy_sees(name, &format!("has the scale {to}"), |copy| {
        copy["spec"]["scaleSettings"]["minReplicas"] == to
    })
    .await
}

/// A deployment that runs at its cell, whose Instance the project shows; the projection.
async fn runs(case: &Case, name: &str) -> Value {
    case.deploy(name, &case.dfw.city).await;
    case.dfw.report(&case.hub_ns, name, 1, 1).await;
    case.dfw.run(&case.hub_ns, name, 0).await;
    case.project
        .exists(&INSTANCE, &case.ns, &format!("{name}-0"), seconds(60))
        .await
}

/// A deployment of the other project, which nothing that happens here may touch.
struct Bystander {
    ns: String,
    hub_ns: String,
    copy: Value,
}

impl Bystander {
    async fn new(case: &Case) -> Self {
        let ns = case.ns.clone();
        let namespace = json!({"metadata": {"name": ns}});
        let namespace = case.suite.beta.create(&NAMESPACE, "", namespace).await;
        let hub_ns = format!("ns-{}", uid(&namespace));
        let beta = &case.suite.beta;
        beta.create(&DEPLOYMENT, &ns, deployment("web", &case.lhr.city))
            .await;
        case.hub.exists(&DEPLOYMENT, &hub_ns, "web", seconds(60)).await;
        case.lhr.deployment(&hub_ns, "web").await;
        let told = |object: &Value| {
            let conditions = object["status"]["conditions"].as_array().cloned();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|c| c["type"] == "Federated" && c["status"] == "True")
        };
        beta.sees(&DEPLOYMENT, &ns, "web", "is delivered", seconds(60), told)
            .await;
        let copy = case.hub.get(&DEPLOYMENT, &hub_ns, "web").await.unwrap();
        Self { ns, hub_ns, copy }
    }

    /// Its copy is the same, and edits are carried.
    async fn is_well(&self, case: &Case, to: u32) {
        let copy = case.hub.get(&DEPLOYMENT, &self.hub_ns, "web").await;
        assert_eq!(uid(&copy.expect("its copy is there")), uid(&self.copy));
        case.suite
            .beta
            .merge(&DEPLOYMENT, &self.ns, "web", scale(to))
            .await;
        let carried = |copy: &Value| copy["spec"]["scaleSettings"]["minReplicas"] == to;
        case.hub
            .sees(&DEPLOYMENT, &self.hub_ns, "web", "follows", seconds(60), carried)
            .await;
    }

    async fn leaves(&self, case: &Case) {
        case.suite.beta.delete(&NAMESPACE, "", &self.ns).await;
    }
}

/// What the gateway has deleted on the hub for a hub namespace, as `delete <resource> <name>`.
fn deleted(case: &Case, mark: u64, hub_ns: &str) -> Vec<String> {
    let entries = case.suite.hub_log.since(mark, GATEWAY).into_iter();
    let deletes = entries.filter(|e| {
        let object = &e.object_ref;
        e.verb == "delete" && e.succeeded() && (object.namespace == hub_ns || object.name == hub_ns)
    });
    let line = |e: Entry| format!("delete {} {}", e.object_ref.resource, e.object_ref.name);
    deletes.map(line).collect()
}

async fn rewinds(case: &Case, plane: &str) -> f64 {
    let label = format!("plane=\"{plane}\"");
    let gateway = &case.suite.gateway;
    gateway.metric("fedgate_plane_rewinds_total", &[&label]).await
}

async fn a87_a_project_is_restored(case: Case) {
    let bystander = Bystander::new(&case).await;
    let projection = runs(&case, "web").await;
    runs(&case, "old").await;
    follows(&case, "web", 2).await;
    let before = case.copy("web").await;
    case.quiet().await;
    case.suite.save_plane("alpha", "before").await;
    for to in 3..6 {
        follows(&case, "web", to).await;
    }
    runs(&case, "new").await;
    case.remove("old").await;
    case.quiet().await;
    let seen = rewinds(&case, "project").await;
    case.suite.stop_plane("alpha").await;
    let mark = case.suite.hub_log.mark();
    case.suite.restore_plane("alpha", "before").await;
    // What there is now is carried: the older value, and the deployment that was deleted.
    has(&case, "web", 2).await;
    case.copy("old").await;
    case.hub
        .gone(&DEPLOYMENT, &case.hub_ns, "new", seconds(180))
        .await;
    let web = follows(&case, "web", 7).await;
    assert_eq!(uid(&web), uid(&before), "the copy is the same");
    case.dfw
        .sees(&case.hub_ns, "web", "follows", |object| {
            object["spec"]["scaleSettings"]["minReplicas"] == 7
        })
        .await;
    let shown = case
        .project
        .exists(&INSTANCE, &case.ns, "web-0", seconds(10))
        .await;
    assert_eq!(uid(&shown), uid(&projection), "the tenant's Instance stays");
    assert!(rewinds(&case, "project").await > seen, "it is counted");
    let own = deleted(&case, mark, &case.hub_ns);
    assert!(own.iter().all(|line| line.ends_with(" new")), "{own:?}");
    let others = deleted(&case, mark, &bystander.hub_ns);
    assert_eq!(others, Vec::<String>::new());
    bystander.is_well(&case, 4).await;
    bystander.leaves(&case).await;
}

/// The cell writes an Instance back to a hub that has lost it.
async fn writes_back(case: &Case, deployment: &str, ordinal: u32) {
    let name = format!("{deployment}-{ordinal}");
    let instance = case.dfw.plane.get(&INSTANCE, &case.hub_ns, &name).await;
    // Karmada leaves at a member what it has no Work of; the stand-in takes it away, and delivers it anew.
    match instance {
        Some(instance) => case.dfw.write_back(&instance).await,
        None => case.dfw.run(&case.hub_ns, deployment, ordinal).await,
    };
}

async fn a88_the_hub_is_restored(case: Case) {
    let bystander = Bystander::new(&case).await;
    let web = runs(&case, "web").await;
    case.deploy("old", &case.dfw.city).await;
    case.dfw.deployment(&case.hub_ns, "old").await;
    let before = case.copy("web").await;
    case.quiet().await;
    let mut held = case.suite.controllers.lock().await;
    let controllers = Controllers::taken(&case.suite, &mut held).await;
    controllers.kill().await;
    case.suite.save_plane("hub", "before").await;
    controllers.start();
    follows(&case, "web", 2).await;
    let new = runs(&case, "new").await;
    case.remove("old").await;
    case.quiet().await;
    let seen = rewinds(&case, "hub").await;
    // As docs say: Karmada's controllers know what is no more, and would deliver what was, until the hub is up to date.
    controllers.kill().await;
    case.suite.stop_plane("hub").await;
    let (mark, alpha) = (case.suite.hub_log.mark(), case.suite.alpha_log.mark());
    case.suite.restore_plane("hub", "before").await;
    has(&case, "web", 2).await;
    case.copy("new").await;
    controllers.start();
    // Its deployment was deleted: it is an orphan.
    case.hub
        .gone(&DEPLOYMENT, &case.hub_ns, "old", seconds(180))
        .await;
    let web_copy = follows(&case, "web", 7).await;
    assert_eq!(uid(&web_copy), uid(&before), "the copy is the same");
    case.dfw
        .sees(&case.hub_ns, "web", "follows", |object| {
            object["spec"]["scaleSettings"]["minReplicas"] == 7
        })
        .await;
    // The hub has lost the write-back of the one Instance, and nobody has reported on its deployment yet.
    for (name, made) in [("web-0", &web), ("new-0", &new)] {
        let shown = case.project.exists(&INSTANCE, &case.ns, name, seconds(10)).await;
        assert_eq!(uid(&shown), uid(made), "the tenant's Instance stays");
    }
    // A server that has just begun does not know for a while the kinds that its admission policies compare with.
    wait_for("the hub admits what cells write", seconds(120), || async {
        let same = json!({});
        let written = case.dfw.hub.try_merge(&INSTANCE, &case.hub_ns, "web-0", &same);
        written.await.is_ok().then_some(())
    })
    .await;
    writes_back(&case, "new", 0).await;
    case.dfw.report(&case.hub_ns, "new", 1, 1).await;
    case.project_sees("new", "is reported on", |object| {
        object["status"]["readyReplicas"] == 1
    })
    .await;
    case.quiet().await;
    let shown = case
        .project
        .exists(&INSTANCE, &case.ns, "new-0", seconds(10))
        .await;
    assert_eq!(uid(&shown), uid(&new));
    let gone = case.suite.alpha_log.since(alpha, GATEWAY).into_iter();
    let gone: Vec<_> = gone.filter(|e| e.action() == "delete instances").collect();
    assert!(gone.is_empty(), "{gone:?}");
    assert!(rewinds(&case, "hub").await > seen, "it is counted");
    let own = deleted(&case, mark, &case.hub_ns);
    assert!(own.iter().all(|line| line.contains(" old")), "{own:?}");
    let others = deleted(&case, mark, &bystander.hub_ns);
    assert_eq!(others, Vec::<String>::new());
    bystander.is_well(&case, 4).await;
    bystander.leaves(&case).await;
}

/// More than the ten write-backs that a hub may lose at once without being taken for another.
const MANY: u32 = 12;

async fn a89_the_hub_is_made_anew(case: Case) {
    let bystander = Bystander::new(&case).await;
    runs(&case, "web").await;
    for ordinal in 1..MANY {
        case.dfw.run(&case.hub_ns, "web", ordinal).await;
    }
    case.dfw.report(&case.hub_ns, "web", MANY, MANY).await;
    let mut shown = Vec::new();
    for ordinal in 0..MANY {
        let name = format!("web-{ordinal}");
        let instance = case.project.exists(&INSTANCE, &case.ns, &name, seconds(60)).await;
        shown.push((name, instance));
    }
    case.quiet().await;
    let mut held = case.suite.controllers.lock().await;
    let controllers = Controllers::taken(&case.suite, &mut held).await;
    controllers.kill().await;
    case.suite.stop_plane("hub").await;
    let alpha = case.suite.alpha_log.mark();
    case.suite.restore_plane("hub", AS_INSTALLED).await;
    controllers.start();
    // All of it is made again: namespace, city set, policy and copy, which reach the cell.
    has(&case, "web", 1).await;
    follows(&case, "web", 3).await;
    case.dfw
        .sees(&case.hub_ns, "web", "follows", |object| {
            object["spec"]["scaleSettings"]["minReplicas"] == 3
        })
        .await;
    let gateway = &case.suite.gateway;
    assert!(
        gateway.metric("fedgate_garbage_brake", &[]).await > 0.0,
        "the brake is on"
    );
    wait_for("the hub admits what cells write", seconds(120), || async {
        let namespace = case.hub.get(&NAMESPACE, "", &case.hub_ns).await?;
        let delivered = case.dfw.deployment(&case.hub_ns, "web").await;
        let mut instance = case.dfw.instance_of(&delivered, 0);
        instance["metadata"]["uid"] = json!("of the cell");
        let written = case
            .dfw
            .write_back_of(&instance, &namespace, &case.copy("web").await);
        let admitted = case.dfw.hub.would_create(&INSTANCE, &case.hub_ns, written).await;
        admitted.then_some(())
    })
    .await;
    for ordinal in 0..MANY {
        writes_back(&case, "web", ordinal).await;
    }
    // A member that has lost its deployment with its Work reports anew; another one has reported all the while.
    case.dfw.report(&case.hub_ns, "web", MANY, MANY).await;
    wait_for("the brake ends", seconds(60), || async {
        (gateway.metric("fedgate_garbage_brake", &[]).await == 0.0).then_some(())
    })
    .await;
    case.quiet().await;
    for (name, before) in &shown {
        let now = case.project.exists(&INSTANCE, &case.ns, name, seconds(10)).await;
        assert_eq!(uid(&now), uid(before), "the tenant's Instance {name} stays");
    }
    let gone = case.suite.alpha_log.since(alpha, GATEWAY).into_iter();
    let gone: Vec<_> = gone.filter(|e| e.action() == "delete instances").collect();
    assert!(gone.is_empty(), "{gone:?}");
    case.hub
        .exists(&DEPLOYMENT, &bystander.hub_ns, "web", seconds(60))
        .await;
    bystander.leaves(&case).await;
}
