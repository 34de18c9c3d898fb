//! Many cities and Instances: every row is there, in order and in its columns, for a number of requests that does not grow
//! with them.

use crate::{
    cells,
    project::{NAMESPACE, Project},
};
use fedgate_simulator::Verb;
use serde_json::{Value, json};

fn placement(name: &str, cities: &[String], minimum: usize) -> Value {
    json!({"name": name, "cityCodes": cities, "scaleSettings": {"minReplicas": minimum}})
}

/// A Workload with these placements, whose cells have brought it where it should be.
async fn whole(placements: &[Value]) -> Project {
    let shop = Project::start("shop").await;
    shop.workload("web", "nginx", &["DFW"]);
    let spec = json!({"spec": {"placements": placements}});
    shop.plane.merge("Workload", NAMESPACE, "web", spec).unwrap();
    cells::pass(&shop.plane);
    shop
}

fn cities(number: usize) -> Vec<String> {
    (0..number).map(|n| format!("C{n:02}")).collect()
}

fn requests(shop: &Project) -> u64 {
    Verb::ALL.iter().map(|verb| shop.plane.requests(*verb)).sum()
}

/// The lines below the header, whose cells begin where the header's words begin.
fn rows(table: &str) -> Vec<&str> {
    let mut lines = table.lines();
    let head = lines.next().unwrap();
    let starts: Vec<usize> = head
        .match_indices(|c: char| c != ' ')
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || head[..*at].ends_with("  "))
        .collect();
    let rows: Vec<&str> = lines
        .take_while(|line| line.starts_with(|c: char| c.is_ascii_lowercase() || c == 'C'))
        .collect();
    for row in &rows {
        for start in starts.iter().filter(|start| **start > 0) {
            let (before, cell) = row.split_at(*start);
            assert!(
                before.ends_with("  ") && !cell.starts_with(' '),
                "{start}: {row:?}"
            );
        }
    }
    rows
}

/// Runs a command; returns its rows, which so many requests have brought.
async fn listed(shop: &Project, words: &[&str], expected: u64) -> Vec<String> {
    let before = requests(shop);
    let seen = shop.run(words).await.ok();
    assert_eq!(requests(shop) - before, expected, "{words:?}");
    rows(&seen.stdout).into_iter().map(str::to_owned).collect()
}

/// All listings of a Workload with so many cities and Instances in each; Instances are read in so many pages.
async fn all_listings(number: usize, each: usize, pages: u64) {
    let shop = whole(&[placement("us", &cities(number), each)]).await;
    // One request is for the entitlement.
    let instances = listed(&shop, &["instances", "-q"], 3 + pages).await;
    let names: Vec<&str> = instances
        .iter()
        .map(|row| row.split(' ').next().unwrap())
        .collect();
    let expected: Vec<String> = (0..number)
        .flat_map(|n| (0..each).map(move |ordinal| format!("web-us-c{n:02}-{ordinal}")))
        .collect();
    assert_eq!(names, expected);
    let trace = listed(&shop, &["trace", "web"], 3 + pages).await;
    assert_eq!(trace.len(), number * 6);
    assert!(trace.iter().all(|row| row.contains(" ok ")), "{trace:#?}");
    let status = shop.run(&["status", "web"]).await.ok().stdout;
    let (_, table) = status.split_once("\n\n").unwrap();
    let full = format!("{each}/{each}");
    let is_done = |row: &&str| row.contains("Done") && row.contains(&full);
    assert_eq!(rows(table).into_iter().filter(is_done).count(), number);
    let rollout = listed(&shop, &["rollout", "status", "web", "-w=false"], 3 + pages).await;
    assert_eq!(
        rollout.iter().filter(|row| row.contains(" Done ")).count(),
        number
    );
    let workloads = listed(&shop, &["workloads", "-q"], 3).await;
    let total = number * each;
    assert!(
        workloads[0].contains(&format!("{total}/{total}")),
        "{workloads:?}"
    );
    for format in ["json", "yaml"] {
        let list = shop.run(&["instances", "-o", format]).await.ok().stdout;
        let list: Value = serde_saphyr::from_str(&list).unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), total);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_cities_with_three_hundred_instances_are_listed_in_full() {
    all_listings(20, 15, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_cities_with_a_thousand_instances_are_listed_in_full() {
    all_listings(100, 10, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_come_in_the_order_of_the_placements() {
    let city = |code: &str| vec![code.to_owned()];
    let shop = whole(&[placement("us", &city("DFW"), 2), placement("eu", &city("LHR"), 1)]).await;
    let rows = listed(&shop, &["instances", "-q"], 4).await;
    let names: Vec<&str> = rows.iter().map(|row| row.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["web-us-dfw-0", "web-us-dfw-1", "web-eu-lhr-0"]);
    let json = shop.run(&["instances", "-o", "name"]).await.ok().stdout;
    assert!(json.ends_with("/web-eu-lhr-0\n"), "{json}");
}
