//! The command line of tenants on the whole way: real API servers, the gateway, the cells and their Pods.

use crate::support::{
    Case, Wish,
    case::name,
    compute::{Compute, Ended},
    kinds::{CONFIG_MAP, DEFINITION, INSTANCE, ROLE, ROLE_BINDING},
    lone_trials, seconds, trials, wait_for, with_cleanup,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

trials![
    #[core]
    c01_a_deployment_is_waited_for_and_is_whole,
    c04_two_users_at_once_lose_nothing,
    c05_without_a_terminal_nothing_is_lost,
    #[core]
    c06_a_right_that_is_missing_is_named,
];
lone_trials![
    c07_a_trace_names_the_link_that_broke,
    c08_definitions_of_the_peer_are_enough,
];

const RBAC: &str = "rbac.authorization.k8s.io";

/// A deployment of one Instance in each of these cities.
async fn deploy(compute: &Compute, cities: &str) -> Ended {
    let words = [
        "deploy",
        "web",
        "--image",
        "shop/web:1",
        "--city",
        cities,
        "--yes",
    ];
    compute.run(&words).await.exits(0)
}

/// Changes that this user asked of the planes, as `plane: action`.
fn writes(case: &Case, compute: &Compute) -> Vec<String> {
    let asked = case.asked(&case.begin()).into_iter();
    asked
        .filter(|(_, entry)| entry.user.username == compute.user && entry.is_write())
        .map(|(plane, entry)| format!("{plane}: {}", entry.action()))
        .collect()
}

/// Numbers of the revisions that are kept, with who made them, oldest first.
async fn history(compute: &Compute) -> Vec<(u64, String)> {
    let all = compute
        .run(&["rollout", "history", "web", "-o", "json"])
        .await
        .exits(0)
        .json();
    let mut revisions: Vec<(u64, String)> = all["revisions"]
        .as_array()
        .expect("a history has revisions")
        .iter()
        .filter_map(|revision| {
            let actor = revision["actor"]["name"].as_str().unwrap_or_default();
            Some((revision["rev"].as_u64()?, actor.to_owned()))
        })
        .collect();
    revisions.sort();
    revisions
}

async fn instances(case: &Case) -> Vec<Value> {
    case.project.list(&INSTANCE, &case.ns, "").await
}

async fn c01_a_deployment_is_waited_for_and_is_whole(case: Case) {
    let ann = Compute::administrator(&case, "ann");
    let deployed = deploy(&ann, "DFW,LHR").await;
    assert_eq!(
        deployed.stdout,
        "workload.compute.datumapis.com/web created (rev #1)\n"
    );
    assert!(
        deployed.stderr.contains("Rollout complete in "),
        "{}",
        deployed.stderr
    );
    // An Instance comes to the project beside its deployment's status, not before it.
    wait_for("both Instances are listed as available", seconds(20), || async {
        let listed = ann.run(&["instances", "--workload", "web"]).await.exits(0);
        let states: Vec<[&str; 3]> = listed
            .rows()
            .iter()
            .map(|row| [row[0], row[2], row.last().expect("a row has cells")])
            .collect();
        let wanted = [
            ["web-default-dfw-0", "DFW", "Available"],
            ["web-default-lhr-0", "LHR", "Available"],
        ];
        (states == wanted).then_some(())
    })
    .await;
    assert_eq!(history(&ann).await, [(1, ann.user.clone())]);
    let trace = ann.run(&["trace", "web", "-o", "wide"]).await.exits(0);
    assert!(trace.stdout.ends_with("Whole.\n"), "{}", trace.stdout);
    let sources: BTreeSet<&str> = trace
        .rows()
        .into_iter()
        .filter(|row| row.len() > 6)
        .filter_map(|row| row.last().copied())
        .collect();
    assert_eq!(sources, BTreeSet::from(["inferred", "project"]));
    let planes: BTreeSet<String> = case
        .asked(&case.begin())
        .into_iter()
        .filter(|(_, entry)| entry.user.username == ann.user)
        .map(|(plane, _)| plane)
        .collect();
    assert_eq!(
        planes,
        BTreeSet::from([case.project.name.clone()]),
        "project access is enough"
    );
    let traced = ann.run(&["trace", "web", "-o", "json"]).await.exits(0).json();
    for city in traced["cities"].as_array().expect("a trace has cities") {
        for hop in city["hops"].as_array().expect("a city has hops") {
            assert_eq!(hop["state"], "ok", "{hop}");
        }
    }
    let destroyed = ann.run(&["destroy", "web", "--yes"]).await.exits(0);
    assert_eq!(destroyed.stdout, "workload.compute.datumapis.com/web deleted\n");
    assert_eq!(instances(&case).await, Vec::<Value>::new());
    case.project
        .gone(&CONFIG_MAP, &case.ns, "compute-revisions.web", seconds(60))
        .await;
}

async fn c04_two_users_at_once_lose_nothing(case: Case) {
    let ann = Compute::administrator(&case, "ann");
    let bob = Compute::administrator(&case, "bob");
    deploy(&ann, "DFW").await;
    let (to_two, to_three) = tokio::join!(
        ann.run(&["scale", "web", "--min", "2", "--wait=false"]),
        bob.run(&["scale", "web", "--min", "3", "--wait=false"]),
    );
    to_two.exits(0);
    to_three.exits(0);
    let revisions = history(&ann).await;
    let numbers: Vec<u64> = revisions.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let authors: BTreeSet<&str> = revisions[1..].iter().map(|(_, actor)| actor.as_str()).collect();
    assert_eq!(authors, BTreeSet::from([ann.user.as_str(), bob.user.as_str()]));
    let undo = ["rollout", "undo", "web", "--yes", "--wait=false"];
    let (first, second) = tokio::join!(ann.run(&undo), bob.run(&undo));
    let both = [&first, &second];
    assert!(both.iter().all(|end| [0, 5].contains(&end.code)), "{both:?}");
    // Who finds the revision live already writes nothing.
    let written = both.iter().filter(|end| end.stdout.contains("(rev #")).count();
    assert!(written >= 1, "{both:?}");
    let after = history(&ann).await;
    assert_eq!(after.len(), revisions.len() + written, "{both:?}");
    // The newest revision is what is live: no row without a number stands above it.
    let shown = ann.run(&["rollout", "history", "web"]).await.exits(0);
    let newest = &after[after.len() - 1];
    assert_eq!(shown.rows()[0][0], format!("#{}", newest.0), "{}", shown.stdout);
}

async fn c05_without_a_terminal_nothing_is_lost(case: Case) {
    let ann = Compute::administrator(&case, "ann");
    let bob = Compute::administrator(&case, "bob");
    deploy(&ann, "DFW,LHR").await;
    for words in [
        &["destroy", "web"][..],
        &["deploy", "web", "--city", "DFW"],
        &["rollout", "undo", "web", "--to-revision", "1"],
    ] {
        let refused = bob.run(words).await;
        assert!([0, 4].contains(&refused.code), "{words:?}: {refused:?}");
    }
    bob.run(&["deploy", "web", "--city", "DFW", "--dry-run=server"])
        .await
        .exits(0);
    let saved = case.suite.dir.join(format!("{}.yaml", case.ns));
    let saved = saved.to_str().expect("a path of text");
    let words = [
        "deploy",
        "web",
        "--env",
        "A=1",
        "--save",
        saved,
        "--dry-run=client",
    ];
    bob.run(&words).await.exits(0);
    let diff = bob.run(&["diff", "-f", saved]).await.exits(1);
    assert!(diff.stdout.contains("env[A]"), "{}", diff.stdout);
    assert_eq!(writes(&case, &bob), Vec::<String>::new());
    let planned = ann.run(&["deploy", "-f", saved, "--yes"]).await.exits(0);
    for line in diff.stdout.lines() {
        assert!(
            planned.stderr.contains(line),
            "{line} is not in {}",
            planned.stderr
        );
    }
    let before = writes(&case, &ann).len();
    let same = ann.run(&["deploy", "-f", saved]).await.exits(0);
    assert!(same.stderr.contains("No changes."), "{}", same.stderr);
    assert_eq!(writes(&case, &ann).len(), before);
    ann.run(&["diff", "-f", saved]).await.exits(0);
}

/// Lets a user do this in the test's namespace.
async fn allow(case: &Case, compute: &Compute, rules: Value) {
    let project = &case.project;
    let role = compute.user.replace('@', "-");
    project
        .create(
            &ROLE,
            &case.ns,
            json!({"metadata": {"name": role}, "rules": rules}),
        )
        .await;
    let binding = json!({
        "metadata": {"name": role},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": compute.user}],
    });
    project.create(&ROLE_BINDING, &case.ns, binding).await;
}

async fn c06_a_right_that_is_missing_is_named(case: Case) {
    let ann = Compute::administrator(&case, "ann");
    let (eve, dan) = (Compute::new(&case, "eve", &[]), Compute::new(&case, "dan", &[]));
    deploy(&ann, "DFW").await;
    let compute = |verbs: &[&str]| json!([{"apiGroups": ["compute.datumapis.com"], "resources": ["*"], "verbs": verbs}]);
    allow(&case, &eve, compute(&["get", "list", "watch"])).await;
    allow(&case, &dan, compute(&["*"])).await;
    // An API server may take a moment to see a role.
    wait_for("eve may read", seconds(20), || async {
        (eve.run(&["status", "web"]).await.code == 0).then_some(())
    })
    .await;
    let refused = eve.run(&["scale", "web", "--min", "2"]).await.exits(6);
    let expected = format!("error: you may not update workloads in namespace {}\n", case.ns);
    assert!(refused.stderr.starts_with(&expected), "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("next: kubectl auth can-i update workloads.compute.datumapis.com"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        writes(&case, &eve),
        Vec::<String>::new(),
        "the dry run was refused"
    );
    // Without the right to ConfigMaps the change stands, and is not recorded.
    let scaled = wait_for("dan may scale", seconds(20), || async {
        let scaled = dan.run(&["scale", "web", "--min", "2"]).await;
        (scaled.code == 0).then_some(scaled)
    })
    .await;
    assert!(scaled.stderr.contains("warning: "), "{}", scaled.stderr);
    assert_eq!(instances(&case).await.len(), 2);
}

async fn c07_a_trace_names_the_link_that_broke(case: Case) {
    let ann = Compute::administrator(&case, "ann");
    deploy(&ann, "DFW").await;
    let link = |trace: &Ended| {
        let last = trace
            .stdout
            .lines()
            .find(|line| line.starts_with("First broken link"));
        last.map_or_else(|| panic!("{trace:?}"), str::to_owned)
    };
    let words = ["trace", "web", "--stuck-after", "2s"];
    let change = |image: &'static str| ["deploy", "web", "--image", image, "--wait=false"];
    let dfw = case.dfw();
    // The cell's program is stopped: everything up to the cell's API server has the change.
    dfw.stop().await;
    let body = async {
        ann.run(&change("shop/web:2")).await.exits(0);
        let trace = wait_for("the trace names a broken link", seconds(60), || async {
            let trace = ann.run(&words).await;
            (trace.code == 9).then_some(trace)
        })
        .await;
        assert!(link(&trace).contains("-> cell"), "{}", link(&trace));
    };
    with_cleanup(body, dfw.start()).await;
    ann.run(&["rollout", "status", "web"]).await.exits(0);
    ann.run(&words).await.exits(0);
    // The gateway is stopped: the project's own objects are not brought up to date.
    case.suite.gateway.stop().await;
    let body = async {
        ann.run(&change("shop/web:3")).await.exits(0);
        let trace = wait_for("the trace names a broken link", seconds(60), || async {
            let trace = ann.run(&words).await;
            (trace.code == 9).then_some(trace)
        })
        .await;
        assert!(link(&trace).contains("project"), "{}", link(&trace));
    };
    with_cleanup(body, case.suite.gateway.start()).await;
    ann.run(&["rollout", "status", "web"]).await.exits(0);
}

/// The definition without what the peer's lacks: our columns and short names.
fn as_of_the_peer(definition: &Value) -> Value {
    let mut peer = definition.clone();
    for key in ["shortNames", "categories"] {
        if let Some(names) = peer["spec"]["names"].as_object_mut() {
            names.remove(key);
        }
    }
    for version in peer["spec"]["versions"].as_array_mut().into_iter().flatten() {
        if let Some(version) = version.as_object_mut() {
            version.remove("additionalPrinterColumns");
        }
    }
    peer
}

async fn c08_definitions_of_the_peer_are_enough(case: Case) {
    let ann = Compute::administrator(&case, "ann");
    let project = &case.project;
    let kinds = ["workloads", "workloaddeployments", "instances"];
    let names: Vec<String> = kinds
        .iter()
        .map(|plural| format!("{plural}.compute.datumapis.com"))
        .collect();
    let mut before = Vec::new();
    for name in &names {
        let definition = project.get(&DEFINITION, "", name).await.expect("it is defined");
        let peer = as_of_the_peer(&definition);
        assert_ne!(peer["spec"], definition["spec"], "the peer's has less");
        // A merge patch of the versions replaces the whole list.
        let patch = json!({"spec": {"versions": peer["spec"]["versions"], "names": {"shortNames": null, "categories": null}}});
        project.merge(&DEFINITION, "", name, patch).await;
        before.push(definition);
    }
    let body = async {
        deploy(&ann, "DFW").await;
        ann.run(&["scale", "web", "--min", "2"]).await.exits(0);
        let listed = ann.run(&["workloads"]).await.exits(0);
        let rows = listed.rows();
        assert_eq!(
            rows[0][..4],
            [
                "web",
                "Available - all placements at desired replicas",
                "2/2",
                "2/2"
            ]
        );
        ann.run(&["restart", "web"]).await.exits(0);
        for words in [
            &["status", "web"][..],
            &["workloads", "describe", "web"],
            &["instances", "describe", "web-default-dfw-0"],
            &["rollout", "history", "web"],
            &["trace", "web"],
            &["quota"],
        ] {
            ann.run(words).await.exits(0);
        }
        ann.run(&["rollout", "undo", "web", "--yes"]).await.exits(0);
        ann.run(&["destroy", "web", "--yes"]).await.exits(0);
    };
    let cleanup = async {
        for definition in &before {
            let spec = &definition["spec"];
            let patch = json!({"spec": {"versions": spec["versions"], "names": spec["names"]}});
            project.merge(&DEFINITION, "", name(definition), patch).await;
        }
    };
    with_cleanup(body, cleanup).await;
    case.run(&Wish::new("other", 1)).await;
}
