//! `workloads describe`, `instances describe`, and lists that are watched.

use crate::{
    cells,
    project::{Project, instance},
};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_description_of_a_workload_has_its_revision_and_no_next_step_if_all_is_well() {
    let mut shop = Project::start("shop").await;
    shop.cells();
    shop.run(&[
        "deploy", "web", "--image", "nginx", "--city", "DFW", "--env", "A=1",
    ])
    .await
    .ok();
    let seen = shop.run(&["workloads", "describe", "web"]).await.ok().stdout;
    for line in [
        "Workload:   web",
        "Revision:   #1",
        "  default  scale: 1",
        "    DFW  1/1",
        "    Env:       A=1",
    ] {
        assert!(seen.lines().any(|found| found == line), "{line}: {seen}");
    }
    let wide = shop
        .run(&["workloads", "-o", "wide", "--no-headers"])
        .await
        .ok()
        .stdout;
    assert!(wide.trim_end().ends_with("#1"), "{wide}");
    let object: Value = serde_json::from_str(
        &shop
            .run(&["workloads", "describe", "web", "-o", "json"])
            .await
            .ok()
            .stdout,
    )
    .unwrap();
    assert_eq!(object["kind"], "Workload");
    let name = shop
        .run(&["instances", "describe", "web-default-dfw-0", "-o", "name"])
        .await
        .ok();
    assert_eq!(name.stdout, "instance.compute.datumapis.com/web-default-dfw-0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_does_not_exist_is_answered_with_the_nearest() {
    let shop = Project::start("shop").await;
    shop.create(instance("web-us-dfw-0", &json!({})));
    let seen = shop.run(&["instances", "describe", "web-us-dfw-1"]).await;
    assert_eq!(seen.code, 3);
    assert!(
        seen.stderr.contains("did you mean \"web-us-dfw-0\"?"),
        "{}",
        seen.stderr
    );
    assert_eq!(shop.run(&["workloads", "describe", "web"]).await.code, 3);
    assert_eq!(shop.run(&["workloads", "destroy", "web"]).await.code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_project_is_told_how_to_start() {
    let shop = Project::start("shop").await;
    let seen = shop.run(&["workloads"]).await.ok();
    assert_eq!(
        (&*seen.stdout, &*seen.stderr),
        (
            "",
            "No workloads in project shop.\nGet started: kubectl compute deploy web --image nginx --city CITY\n"
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_are_watched_print_a_row_for_each_change() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let mut watch = shop.start_run(&["workloads", "-w"]);
    assert!(watch.line().await.starts_with("NAME"));
    assert!(watch.line().await.starts_with("web "));
    shop.workload("api", "nginx", &["LHR"]);
    assert!(watch.line().await.starts_with("api "));
    shop.plane.delete("Workload", "default", "web").unwrap();
    assert_eq!(watch.remark().await, "web is gone or matches no more");
    assert_eq!(watch.interrupt().await.code, 130);
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_that_are_watched_are_objects_a_line_each() {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let mut watch = shop.start_run(&["instances", "-w", "-o", "json"]);
    cells::pass(&shop.plane);
    loop {
        let seen = watch.json().await;
        if seen["metadata"]["name"] == "web-us-dfw-1" {
            break;
        }
    }
    assert_eq!(watch.interrupt().await.code, 130);
}
