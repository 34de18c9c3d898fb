//! The page as a screen reader has it.

use super::{
    browser::{Browser, VIEWS},
    fleet::Fleet,
};
use serde_json::{Value, json};

/// Roles that need a name.
const NAMED: [&str; 9] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "slider",
    "table",
    "dialog",
    "navigation",
];

fn text<'a>(node: &'a Value, field: &str) -> &'a str {
    node[field]["value"].as_str().unwrap_or_default()
}

async fn nodes(browser: &Browser) -> Vec<Value> {
    let tree = browser.cdp("Accessibility.getFullAXTree", json!({})).await;
    let nodes = tree["nodes"].as_array().unwrap().clone();
    nodes.into_iter().filter(|node| node["ignored"] != true).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_view_has_one_heading_landmarks_and_names() {
    let fleet = Fleet::full("tree").await;
    let browser = Browser::start().await;
    browser.cdp("Accessibility.enable", json!({})).await;
    for (name, address) in VIEWS {
        browser.goto("about:blank").await;
        browser.open(&fleet.url(), address).await;
        let nodes = nodes(&browser).await;
        let count = |role: &str| nodes.iter().filter(|node| text(node, "role") == role).count();
        let headings = nodes.iter().filter(|node| {
            let properties = node["properties"].as_array().into_iter().flatten();
            let mut levels = properties.filter(|property| property["name"] == "level");
            text(node, "role") == "heading" && levels.any(|level| level["value"]["value"] == 1)
        });
        assert_eq!(headings.count(), 1, "{name}");
        for landmark in ["banner", "main", "contentinfo", "search"] {
            assert_eq!(count(landmark), 1, "{name}: {landmark}");
        }
        assert!(count("navigation") >= 1, "{name}");
        for node in &nodes {
            let role = text(node, "role");
            assert!(
                !NAMED.contains(&role) || !text(node, "name").is_empty(),
                "{name}: {role} without a name: {node}"
            );
        }
    }
    browser.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn map_and_trace_are_tables_with_the_figures_of_their_drawings() {
    let fleet = Fleet::full("tables").await;
    let browser = Browser::start().await;
    browser.open(&fleet.url(), "#/map").await;
    browser.wait("main .drawing[aria-hidden=true] [data-band]").await;
    let bands = browser
        .js("document.querySelectorAll('main [data-band]').length")
        .await;
    browser.keys("t").await;
    browser.wait("main table tbody tr").await;
    browser.gone("main .drawing:not([hidden]) [data-band]").await;
    let rows = browser
        .js("document.querySelectorAll('main table tbody tr').length")
        .await;
    assert_eq!(rows, bands, "a row for each band");
    let instances = browser
        .text("document.querySelector('main table').textContent")
        .await;
    assert!(
        instances.contains("p-00000") && instances.contains("dfw-1"),
        "{instances}"
    );
    browser.open(&fleet.url(), VIEWS[3].1).await;
    browser.wait("main .tree .hop").await;
    let hops = browser
        .js("document.querySelectorAll('main .tree .hop').length")
        .await;
    browser.keys("t").await;
    browser.wait("main table tbody tr").await;
    let rows = browser
        .js("document.querySelector('main table').querySelectorAll('tbody tr').length")
        .await;
    assert_eq!(rows, hops, "a row for each hop");
    browser.quit().await;
}
