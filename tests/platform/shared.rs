//! The parts that all projects share: one credential, and the connections to one address.

use crate::support::{
    Case,
    credentials::{Twin, replace, with_token},
    kinds::{DEPLOYMENT, NAMESPACE},
    lone_trials, seconds,
    suite::{FIRST, LATE},
    wait_for,
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

lone_trials![
    a_credential_is_rotated_under_load,
    all_projects_share_their_connections,
];

/// Makes deployments until it is told to stop; answers how many.
async fn load(case: Case, stop: Arc<AtomicBool>) -> u32 {
    let mut made = 0;
    while !stop.load(Ordering::Relaxed) {
        case.deploy("alpha", &format!("web-{made}")).await;
        made += 1;
        // The pace of the load, not a wait for something.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    made
}

async fn a_credential_is_rotated_under_load(case: Case) {
    let suite = &case.suite;
    let hub_ns = case.namespace("alpha").await;
    let original = std::fs::read_to_string(&suite.kubeconfig).expect("the shared kubeconfig");
    let stop = Arc::new(AtomicBool::new(false));
    // A test that fails takes its load with it.
    let mut creator = JoinSet::new();
    creator.spawn(load(case.clone(), Arc::clone(&stop)));
    let mut twins = Vec::new();
    let mut old: Option<String> = None;
    for round in 0..2 {
        let name = format!("twin-{round}-{}", case.ns);
        let twin = Twin::without_rights(suite.accounts(), "default", &name).await;
        for plane in suite.with_rights() {
            twin.grant(plane).await;
        }
        let mark = suite.alpha_log.mark();
        let text = with_token(&suite.kubeconfig, &twin.token().await);
        replace(&suite.kubeconfig, &text);
        wait_for("the new credential is used", seconds(60), || async {
            (!suite.alpha_log.since(mark, &twin.user()).is_empty()).then_some(())
        })
        .await;
        if let (Some(text), Some(twin)) = (old.replace(text), twins.last()) {
            let twin: &Twin = twin;
            twin.end(&text).await;
        }
        twins.push(twin);
    }
    stop.store(true, Ordering::Relaxed);
    let made = creator
        .join_next()
        .await
        .expect("there is one")
        .expect("all are created");
    assert!(made > 5, "there was load: {made}");
    for number in 0..made {
        case.copy(&hub_ns, &format!("web-{number}")).await;
    }
    case.scale("alpha", "web-0", 2).await;
    case.copy_scaled(&hub_ns, "web-0", 2).await;
    replace(&suite.kubeconfig, &original);
    if let (Some(text), Some(twin)) = (old, twins.last()) {
        twin.end(&text).await;
    }
    case.scale("alpha", "web-0", 3).await;
    case.copy_scaled(&hub_ns, "web-0", 3).await;
    for twin in twins {
        for plane in suite.with_rights() {
            twin.revoke(plane).await;
        }
    }
    let plane = suite.project("alpha");
    for number in 0..made {
        plane
            .delete(&DEPLOYMENT, &case.ns, &format!("web-{number}"))
            .await;
    }
    assert!(plane.get(&NAMESPACE, "", &case.ns).await.is_some());
}

/// How many connections a process has to a port of loopback.
fn connections(pid: &str, port: u16) -> usize {
    let sockets: BTreeSet<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("the process is there")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(inode.to_owned())
        })
        .collect();
    let remote = format!(":{port:04X}");
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("its connections");
    let established = table.lines().filter(|line| {
        let parts: Vec<&str> = line.split_whitespace().collect();
        parts.get(2).is_some_and(|to| to.ends_with(&remote))
            && parts.get(3) == Some(&"01")
            && parts.get(9).is_some_and(|inode| sockets.contains(*inode))
    });
    established.count()
}

async fn all_projects_share_their_connections(case: Case) {
    let suite = &case.suite;
    suite.ensure(LATE).await;
    suite.gateway.restart().await;
    let mut watches = 0;
    for name in FIRST.into_iter().chain([LATE]) {
        suite.gateway.engaged(name).await;
        let project = suite.gateway.project(name).await.expect("it is engaged");
        watches += project["watches"].as_array().map_or(0, Vec::len);
    }
    let pid = suite.gateway.pid().await.expect("the gateway runs");
    assert!(watches >= 9, "three kinds in each project at least: {watches}");
    // Those of the first lists end when they have been idle; a pool for each project would leave three.
    let what = "the watches of all projects are left with two sockets at most";
    let sockets = wait_for(what, seconds(90), || async {
        let sockets = connections(&pid, suite.port);
        (1..=2).contains(&sockets).then_some(sockets)
    })
    .await;
    eprintln!("    {watches} watches of three projects, {sockets} sockets");
}
