//! The way to a project's quota: a connection that cannot be made at first, another address, a project that nobody needs,
//! and quota that is switched off.

use super::{
    courses::SETTLED,
    end::{settled, unready},
    ops::Op::*,
    planes::{self, HOME, NS, PROJECT},
    rig::{Reach, Rig},
};
use crate::rig::{rest, simulate};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{metrics::PlaneKind, plane::discovery::ProjectEvent};
use serde_json::json;
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

#[test]
fn a_connection_that_fails_at_first_is_made_again() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        rig.options.reach = Reach::Made(3);
        rig.start();
        Create("web", 1).apply(&rig);
        rest(2 * MINUTE).await;
        assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]));
    });
}

#[test]
fn a_project_that_comes_back_at_another_address_wakes_who_waits_for_quota() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        rig.start();
        Budget(0).apply(&rig);
        Create("web", 1).apply(&rig);
        rest(MINUTE).await;
        let other = planes::project(&rig.simulator, "shop-2");
        let quota = super::players::quota(&other, usize::MAX);
        let key = ProjectKey::parse(PROJECT).unwrap();
        rig.discovery.send(ProjectEvent::Removed { key }).unwrap();
        rest(Duration::from_secs(5)).await;
        rig.found(rig.connection(PlaneKind::Project, "shop-2"));
        rest(Duration::from_secs(10)).await;
        assert_eq!(other.count("ResourceClaim"), 1, "asked for at the other address");
        let pod = rig.cell.get("Pod", NS, "web-0");
        assert!(pod.is_some(), "granted there");
        quota.abort();
    });
}

/// How many claims of the project are watched.
fn watched(rig: &Rig) -> usize {
    rig.watches(PROJECT)
}

#[test]
fn a_project_that_nobody_needs_is_let_go_and_found_again() {
    for reach in [Reach::Found, Reach::Made(0)] {
        simulate(async move {
            let mut rig = Rig::new(1, false);
            rig.options.reach = reach;
            rig.start();
            Create("web", 1).apply(&rig);
            rest(MINUTE).await;
            assert_eq!(watched(&rig), 1);
            Delete("web").apply(&rig);
            rest(MINUTE).await;
            rest(3 * SETTLED).await;
            assert_eq!(watched(&rig), 0, "{reach:?}");
            Create("web", 1).apply(&rig);
            rest(MINUTE).await;
            assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]));
        });
    }
}

#[test]
fn quota_that_is_switched_off_releases_what_was_claimed_when_the_project_can_be_reached() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        rig.start();
        Create("web", 2).apply(&rig);
        rest(MINUTE).await;
        assert_eq!(rig.project.count("ResourceClaim"), 2);
        rig.kill().await;
        rig.options.quota = false;
        rig.options.reach = Reach::Lost;
        rig.start();
        rest(MINUTE).await;
        assert_eq!(rig.project.count("ResourceClaim"), 2, "there is no way to them");
        assert_eq!(rig.records(), 2, "but they are not forgotten");
        Scale("web", 3).apply(&rig);
        rest(MINUTE).await;
        assert_eq!(
            rig.records(),
            2,
            "of an Instance that never asked nothing is recorded"
        );
        rig.kill().await;
        rig.options.reach = Reach::Found;
        rig.start();
        rest(MINUTE).await;
        assert_eq!(rig.project.count("ResourceClaim"), 0);
        assert_eq!(rig.records(), 0);
        assert_eq!(rig.cell.count("Pod"), 3, "nothing was taken down");
    });
}

#[test]
fn claims_of_instances_that_live_are_kept_when_quota_is_switched_on_again() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        rig.start();
        Create("web", 1).apply(&rig);
        rest(MINUTE).await;
        let claim = || {
            let claim = rig.project.get("ResourceClaim", HOME, "instance-web-0").unwrap();
            claim["metadata"]["uid"].clone()
        };
        let before = claim();
        rig.kill().await;
        rig.options.quota = false;
        rig.options.reach = Reach::Lost;
        rig.start();
        rest(MINUTE).await;
        rig.kill().await;
        rig.options.quota = true;
        rig.options.reach = Reach::Found;
        rig.start();
        rest(MINUTE).await;
        let now = rig.project.get("ResourceClaim", HOME, "instance-web-0").unwrap();
        assert_eq!(now["metadata"]["uid"], before);
        assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]));
    });
}

/// Records as an earlier life of the cell has left them: of a project that nobody finds.
fn recorded(rig: &Rig, since: &[Option<jiff::Timestamp>]) {
    let records = since.iter().enumerate().map(|(n, since)| {
        let mut record = json!({"plane": "gone", "kind": "ResourceClaim", "namespace": HOME, "name": format!("instance-{n}")});
        if let Some(since) = since {
            record["since"] = json!(since);
        }
        (format!("u-{n}"), json!(json!([record]).to_string()))
    });
    let data: serde_json::Map<String, serde_json::Value> = records.collect();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "fedgate-releases-0123456789", "namespace": planes::OWN,
            "labels": {"app.kubernetes.io/managed-by": "fedgate"}}, "data": data});
    rig.cell.create(map).unwrap();
}

#[test]
fn records_of_a_project_that_never_comes_back_end_after_a_week() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        let long_ago = rig.wall() - jiff::SignedDuration::from_hours(7 * 24 - 1);
        recorded(&rig, &[Some(long_ago), None]);
        rig.start();
        rest(30 * MINUTE).await;
        assert_eq!(rig.records(), 2);
        rig.kill().await;
        rig.start();
        rest(40 * MINUTE).await;
        assert_eq!(rig.records(), 1, "the younger one has its week yet");
        rig.simulator.log().clear();
        rest(SETTLED).await;
        assert_eq!(rig.writes(), Vec::<String>::new());
    });
}

#[test]
fn a_label_that_is_taken_off_records_holds_up_no_deletion() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        rig.start();
        Create("web", 2).apply(&rig);
        rest(MINUTE).await;
        Away(true).apply(&rig);
        Scale("web", 1).apply(&rig);
        rest(MINUTE).await;
        let record = rig.cell.list("ConfigMap");
        let record = record
            .iter()
            .find(|map| {
                let name = map["metadata"]["name"].as_str();
                name.is_some_and(|name| name.starts_with("fedgate-releases-"))
            })
            .unwrap();
        let name = record["metadata"]["name"].as_str().unwrap();
        let strip = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
        rig.cell.merge("ConfigMap", planes::OWN, name, strip).unwrap();
        Delete("web").apply(&rig);
        // Karmada's part, which is away with the hub.
        rig.cell.delete("WorkloadDeployment", NS, "web").unwrap();
        rest(MINUTE).await;
        assert_eq!(rig.cell.count("Instance"), 0);
        assert_eq!(rig.records(), 2);
    });
}
