//! Requests and watches: choice of the plane, pages, faults of the server, and the errors that name them.

use crate::{
    project::{NAMESPACE, Project, instance},
    scripted::{Answer, Server, kubeconfig, not_found, status},
};
use fedgate_simulator::{Fault, Rule, Verb, When};
use serde_json::{Value, json};
use std::time::Duration;

fn list(kind: &str, items: &[Value], token: &str) -> Answer {
    let list = json!({"kind": format!("{kind}List"), "apiVersion": "compute.datumapis.com/v1alpha",
        "metadata": {"resourceVersion": "7", "continue": token}, "items": items});
    (200, list.to_string())
}

fn workload(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "resourceVersion": "5"},
        "spec": {"placements": []}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_whose_version_is_gone_lists_again() {
    for in_stream in [false, true] {
        let shop = Project::start("shop").await;
        shop.workload("api", "nginx", &["DFW"]);
        let mut watch = shop.start_run(&["workloads", "-w", "-o", "json"]);
        assert_eq!(watch.json().await["metadata"]["name"], "api");
        shop.plane.gone_in_stream(in_stream);
        if in_stream {
            shop.workload("web", "nginx", &["DFW"]);
            shop.plane.compact();
        } else {
            let gone = Rule::new(When::Always, Fault::Gone).verb(Verb::Watch);
            shop.faults.add(gone.kind("workloads"));
            shop.plane.close_watches(Some("Workload"));
            shop.workload("web", "nginx", &["DFW"]);
        }
        assert_eq!(watch.json().await["metadata"]["name"], "web", "{in_stream}");
        watch.interrupt().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_not_served_ends_a_watch_as_it_ends_a_list() {
    let shop = Project::start("shop").await;
    shop.bare("bare");
    for words in [
        &["workloads"][..],
        &["workloads", "-w"],
        &["instances", "-w"],
        &["status", "web"],
        &["destroy", "web", "--ignore-not-found"],
        &["destroy", "web", "--ignore-not-found", "--yes"],
    ] {
        let seen = shop.run(&[words, &["--project", "bare"]].concat()).await;
        assert_eq!(seen.code, 1, "{words:?}: {}", seen.stderr);
        assert_eq!(
            seen.stderr,
            "error: compute is not served by this control plane\n  next: kubectl config current-context\n",
            "{words:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_keeps_the_host_and_replaces_the_path() {
    let shop = Project::start("shop").await;
    let server = Server::start(|_| not_found()).await;
    let organization = "/apis/resourcemanager.miloapis.com/v1alpha1/organizations/acme/control-plane";
    for path in [
        "",
        "/",
        organization,
        "/apis/resourcemanager.miloapis.com/v1alpha1/projects/old/control-plane/",
    ] {
        server.run(&shop, path, &["workloads", "--project", "new"]).await;
        let requests = server.take_requests();
        let prefix = "GET /apis/resourcemanager.miloapis.com/v1alpha1/projects/new/control-plane/apis/";
        assert!(
            !requests.is_empty() && requests.iter().all(|line| line.starts_with(prefix)),
            "{path}: {requests:?}"
        );
    }
    let seen = server.run(&shop, "", &["workloads", "--project", "a/b"]).await;
    assert_eq!(seen.code, 2, "{}", seen.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_projects_name_is_in_the_path_without_a_flag() {
    let shop = Project::start("shop").await;
    let server = Server::start(|line| match line {
        line if line.contains("/workloads?") => list("Workload", &[], ""),
        line if line.contains("/workloaddeployments?") => list("WorkloadDeployment", &[], ""),
        _ => not_found(),
    })
    .await;
    let path = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/p1/control-plane/";
    let seen = server
        .run(&shop, path, &["workloads", "--city", "DFW"])
        .await
        .ok();
    assert_eq!(seen.stderr, "No workloads in project p1 match --city=DFW.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_namespace_flag_is_none() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    shop.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}));
    let mut far = (*shop.plane.get("Workload", NAMESPACE, "web").unwrap()).clone();
    far["metadata"] = json!({"name": "far", "namespace": "other"});
    shop.create(far);
    let seen = shop.run(&["workloads", "-n", "", "-o", "name"]).await.ok();
    assert_eq!(seen.stdout, "workload.compute.datumapis.com/web\n");
    let seen = shop.run(&["workloads", "--context", "", "-o", "name"]).await.ok();
    assert_eq!(seen.stdout, "workload.compute.datumapis.com/web\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_repeat_end_a_list() {
    let shop = Project::start("shop").await;
    let server = Server::start(|line| match line {
        line if line.contains("/workloads?") => list("Workload", &[workload("web")], "again"),
        line if line.contains("/workloaddeployments?") => list("WorkloadDeployment", &[], ""),
        _ => not_found(),
    })
    .await;
    for words in [&["workloads"][..], &["workloads", "-w"]] {
        let seen = server.run(&shop, "", words).await;
        assert_eq!(seen.code, 1, "{words:?}");
        assert!(
            seen.stderr
                .contains("error: the answer about workloads cannot be decoded\n  cause: its pages repeat"),
            "{}",
            seen.stderr
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_whose_pages_expire_begins_again_once() {
    let shop = Project::start("shop").await;
    for n in 0..1_200 {
        shop.create(instance(&format!("web-us-dfw-{n}"), &json!({})));
    }
    let gone = Rule::new(When::Nth(2), Fault::Gone).verb(Verb::List);
    shop.faults.add(gone.kind("instances"));
    let seen = shop.run(&["instances", "-o", "name"]).await.ok();
    assert_eq!(seen.stdout.lines().count(), 1_200);
    assert_eq!(
        shop.requests(Verb::List, "instances"),
        5,
        "two pages, then all three"
    );
    shop.faults.clear();
    let gone = Rule::new(When::Every(2), Fault::Gone).verb(Verb::List);
    shop.faults.add(gone.kind("instances"));
    let seen = shop.run(&["instances", "-o", "name"]).await;
    assert_eq!(seen.code, 1, "{}", seen.stderr);
    assert!(
        seen.stderr.contains("error: cannot list instances\n"),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_request_is_for_its_whole_answer() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let slow = Fault::SlowDrip {
        bytes: 1,
        every: Duration::from_millis(100),
    };
    shop.faults.add(Rule::new(When::Always, slow).kind("workloads"));
    let seen = shop.run(&["workloads", "--request-timeout", "1s"]).await;
    assert_eq!(seen.code, 1, "{}", seen.stderr);
    assert!(
        seen.stderr.contains("  cause: no answer within 1s\n"),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_there_is_not_found_also_without_the_right_to_list() {
    for (words, kind) in [
        (&["status", "nope"][..], "workloads"),
        (&["instances", "describe", "nope"], "instances"),
    ] {
        let shop = Project::start("shop").await;
        let refused = Rule::new(When::Always, Fault::Forbidden).verb(Verb::List);
        shop.faults.add(refused.kind(kind));
        let seen = shop.run(words).await;
        assert_eq!(seen.code, 3, "{words:?}: {}", seen.stderr);
        assert!(
            seen.stderr.contains("\"nope\" not found in project shop"),
            "{}",
            seen.stderr
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_object_and_the_place() {
    let shop = Project::start("shop").await;
    let missing = json!({"name": "nope", "kind": "namespaces"});
    let suspended = json!({"causes": [{"reason": "ProjectSuspended", "message": "", "field": ""}]});
    let server = Server::start(move |line| match line {
        line if line.starts_with("POST") && line.contains("/nope/") => {
            status(404, "NotFound", "namespaces \"nope\" not found", &missing)
        }
        line if line.starts_with("PUT") => status(403, "Forbidden", "suspended", &suspended),
        line if line.contains("/workloads/web") && !line.contains("/nope/") => {
            (200, workload("web").to_string())
        }
        line if line.contains("/workloads/") => {
            let details = json!({"name": "web", "group": "compute.datumapis.com", "kind": "workloads"});
            status(
                404,
                "NotFound",
                "workloads.compute.datumapis.com \"web\" not found",
                &details,
            )
        }
        line if line.contains("/workloads?") => (200, "<html>Please log in</html>".to_owned()),
        line if line.contains("/serviceentitlements?") => status(403, "Forbidden", "no", &json!({})),
        line if line.contains("/workloaddeployments?") => list("WorkloadDeployment", &[], ""),
        _ => not_found(),
    })
    .await;
    for (words, code, text) in [
        (
            &["deploy", "web", "--image", "nginx", "--city", "DFW", "-n", "nope"][..],
            3,
            "error: namespace \"nope\" does not exist\n  next: kubectl get namespaces\n",
        ),
        (
            &["workloads"],
            1,
            "error: the answer about workloads cannot be decoded\n  cause: expected value at line 1 column 1\n",
        ),
        (
            &["activation"],
            6,
            "error: you may not list serviceentitlements\n  cause: no\n  next: kubectl auth can-i list \
             serviceentitlements.services.miloapis.com\n",
        ),
        (
            &["restart", "web"],
            6,
            "error: project scripted is suspended; changes are refused, reading works\n  next: kubectl compute status \
             web\n",
        ),
    ] {
        let seen = server.run(&shop, "", words).await;
        assert_eq!((seen.code, &*seen.stderr), (code, text), "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_the_kubeconfig_is_named() {
    let shop = Project::start("shop").await;
    let run = |file: String| {
        let shop = &shop;
        async move { shop.run(&["workloads", "--kubeconfig", &file]).await }
    };
    let plugin = |script: &str| {
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
            "interactiveMode": "Never"}})
    };
    let absent = shop.folder().join("absent").display().to_string();
    let server = "http://127.0.0.1:9";
    let failing = plugin("echo token expired >&2; exit 3");
    let empty = shop.file("empty.yaml", "apiVersion: v1\nkind: Config\n");
    let broken = shop.file("broken.yaml", "clusters: [\ntoken: secret\n");
    let unset = shop.file(
        "unset.yaml",
        "apiVersion: v1\nkind: Config\ncurrent-context: ''\n",
    );
    for (file, text) in [
        (
            absent.clone(),
            format!("error: no control plane: {absent} cannot be read\n  cause: No such file or directory\n"),
        ),
        (
            empty,
            "error: no control plane: no context is set\n".to_owned(),
        ),
        (
            unset,
            "error: no control plane: no context is set\n".to_owned(),
        ),
        (
            broken.clone(),
            format!("error: no control plane: {broken} is no kubeconfig\n  cause: line "),
        ),
        (
            kubeconfig(&shop, "failing", server, &failing),
            "error: no credentials for context failing\n  cause: sh failed with exit status: 3: token expired\n".to_owned(),
        ),
        (
            kubeconfig(&shop, "talking", server, &plugin("echo secret: [")),
            "error: no credentials for context talking\n  cause: sh printed no ExecCredential\n".to_owned(),
        ),
        (
            kubeconfig(&shop, "hinted", server, &json!({"exec": {"apiVersion": "x", "command": "/no/plugin",
                "installHint": "Install it:\n  brew install plugin\n"}})),
            "error: no credentials for context hinted\n  cause: /no/plugin cannot be started: No such file or directory; \
             Install it:"
                .to_owned(),
        ),
        (
            kubeconfig(&shop, "asking", server, &json!({"exec": {"apiVersion": "x", "command": "login", "interactiveMode": "Always"}})),
            "error: no control plane: login has to ask you (interactiveMode: Always), and standard input is no terminal\n"
                .to_owned(),
        ),
        (
            kubeconfig(&shop, "expired", server, &json!({"auth-provider": {"name": "oidc", "config": {"id-token": "e30.eyJleHAiOjEwMDAwMDAwMDB9.x"}}})),
            "error: no control plane: the oidc token of the context's user has expired; kubectl renews it: kubectl auth \
             whoami --context expired\n  next: kubectl auth whoami --context expired\n"
                .to_owned(),
        ),
        (
            kubeconfig(&shop, "missing", server, &json!({"exec": {"apiVersion": "x", "command": "/no/plugin"}})),
            "error: no credentials for context missing\n  cause: /no/plugin cannot be started: No such file or \
             directory\n"
                .to_owned(),
        ),
    ] {
        let seen = run(file).await;
        assert_eq!(seen.code, 1);
        assert!(seen.stderr.starts_with(&text), "{}\n{text}", seen.stderr);
        assert!(!seen.stderr.contains("secret"), "{}", seen.stderr);
    }
}
