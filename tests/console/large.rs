//! Ten thousand projects of which five hundred change each second (contract: operations.md §4 rule 6).

use super::{acts, browser::Browser, fleet::Fleet, results};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Projects; `FEDGATE_CONSOLE_PROJECTS` has others.
const PROJECTS: usize = 10_000;
const CHANGES: usize = 500;
/// Seconds of change for each view.
const SECONDS: usize = 10;
const WARM: &str = "({elements: document.querySelectorAll('*').length, \
    rows: Math.max(0, ...[...document.querySelectorAll('main table tbody, main ol, main ul')].map((l) => l.children.length)), \
    bands: document.querySelectorAll('[data-band]').length, longest: Math.max(0, ...window.tasks.map(([, long]) => long))})";

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_projects_fit_into_the_page() {
    let projects = std::env::var("FEDGATE_CONSOLE_PROJECTS").ok();
    let projects = projects.map_or(PROJECTS, |text| text.parse().unwrap());
    let fleet = Fleet::empty("large", projects).await;
    fleet.planes.watched().await.unwrap();
    let deployments = projects.max(CHANGES);
    fleet.planes.fill(0..projects, 0..deployments).await.unwrap();
    fleet.planes.bind().unwrap();
    fleet.planes.write_back(1).unwrap();
    let browser = Browser::start().await;
    let mut figures = Vec::new();
    for (view, address) in [
        ("now", "#/now"),
        ("map", "#/map"),
        ("project", "#/project"),
        ("stuck", "#/stuck"),
        ("journal", "#/journal"),
    ] {
        browser.goto("about:blank").await;
        let began = Instant::now();
        browser.open(&fleet.url(), address).await;
        let first = began.elapsed();
        browser.js("(window.tasks = []) && 0").await;
        let mut most = json!({});
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        for second in 0..SECONDS {
            ticks.tick().await;
            for n in 0..CHANGES {
                let number = (second * CHANGES + n) % deployments;
                let project = &fleet.planes.projects[number % projects];
                acts::edit(project, &acts::filled(number), 1 + second % 3).unwrap();
            }
            let now = browser.js(WARM).await;
            for (name, value) in now.as_object().unwrap() {
                let before = most[name].as_f64().unwrap_or_default();
                most[name] = json!(before.max(value.as_f64().unwrap()));
            }
        }
        browser.cdp("HeapProfiler.collectGarbage", json!({})).await;
        let heap = browser.cdp("Runtime.getHeapUsage", json!({})).await;
        let heap = heap["usedSize"].as_f64().unwrap() / 1_048_576.0;
        assert!(most["elements"].as_f64().unwrap() <= 3_000.0, "{view}: {most}");
        assert!(most["rows"].as_f64().unwrap() <= 60.0, "{view}: {most}");
        assert!(most["bands"].as_f64().unwrap() <= 1_500.0, "{view}: {most}");
        figures.push(json!({
            "view": view, "projects": projects, "changes a second": CHANGES,
            "first view ms": first.as_millis(), "longest task ms": most["longest"], "elements": most["elements"],
            "rows": most["rows"], "bands": most["bands"], "heap MiB": heap,
        }));
    }
    browser.quit().await;
    let text = format!("{:#}\n", Value::Array(figures));
    std::fs::write(results().join("figures.json"), text).unwrap();
}
