//! Everything without a mouse.

use super::{
    browser::{Browser, VIEWS},
    fleet::Fleet,
};
use thirtyfour::Key;

/// The views in the order of their keys.
const BY_KEY: [&str; 7] = ["now", "map", "stuck", "trace", "cell", "project", "journal"];

#[tokio::test(flavor = "multi_thread")]
async fn all_views_and_deep_links_are_reached_by_the_keyboard() {
    let fleet = Fleet::full("keyboard").await;
    let browser = Browser::start().await;
    browser.open(&fleet.url(), "#/journal").await;
    for (key, view) in (1..).zip(BY_KEY) {
        browser.keys(key.to_string()).await;
        browser.shows(view).await;
        assert_eq!(
            browser.text("document.activeElement.tagName").await,
            "H1",
            "{view}"
        );
        let current = browser
            .text("document.querySelector('#views [aria-current=page]').hash")
            .await;
        assert!(current.starts_with(&format!("#/{view}")), "{current}");
    }
    // Back and forward keep their views.
    browser.driver.back().await.unwrap();
    browser.shows("project").await;
    browser.driver.forward().await.unwrap();
    browser.shows("journal").await;
    for (name, address) in VIEWS {
        browser.goto("about:blank").await;
        browser.open(&fleet.url(), address).await;
        assert_eq!(browser.text("location.hash").await, address, "{name}");
    }
    browser.goto("about:blank").await;
    browser.goto(&format!("{}#/nonsense", fleet.url())).await;
    browser.shows("now").await;
    let notice = browser.wait("#notices .notice").await.text().await.unwrap();
    assert!(
        notice.contains("There is no view") && notice.contains("nonsense"),
        "{notice}"
    );
    browser.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tab_walks_everything_with_a_visible_focus_and_the_skip_link_skips() {
    let fleet = Fleet::full("focus").await;
    let browser = Browser::start().await;
    for (name, address) in VIEWS {
        browser.goto("about:blank").await;
        browser.open(&fleet.url(), address).await;
        browser.keys(Key::Tab + "").await;
        assert_eq!(browser.text("document.activeElement.id").await, "skip", "{name}");
        let mut seen = 0;
        loop {
            let focus = browser
                .js("(() => { const e = document.activeElement; if (e === document.body) return null; \
                     const s = getComputedStyle(e); const b = e.getBoundingClientRect(); \
                     return {what: e.outerHTML.slice(0, 120), seen: b.width > 0 && b.height > 0 && \
                     (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0 || s.boxShadow !== 'none')}; })()")
                .await;
            if focus.is_null() || seen > 150 {
                break;
            }
            assert_eq!(focus["seen"], true, "{name}: no visible focus: {}", focus["what"]);
            seen += 1;
            browser.keys(Key::Tab + "").await;
        }
        assert!(seen > 10, "{name}: {seen}");
    }
    browser.goto("about:blank").await;
    browser.open(&fleet.url(), "#/now").await;
    browser.keys(Key::Tab + Key::Enter).await;
    assert_eq!(browser.text("document.activeElement.id").await, "main");
    browser.keys("?").await;
    browser.wait("#keys[open]").await;
    browser.keys(Key::Escape + "").await;
    browser.gone("#keys[open]").await;
    browser.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_search_finds_projects_cells_and_objects() {
    let fleet = Fleet::full("search").await;
    let browser = Browser::start().await;
    for (words, wanted) in [
        ("p-00001", "#/project/p-00001"),
        ("dfw", "#/cell/dfw-1"),
        ("p-00000 production/web-0", "/p-00000/production/workloads/web-0"),
    ] {
        browser.goto("about:blank").await;
        browser.open(&fleet.url(), "#/now").await;
        browser.keys("/").await;
        assert_eq!(browser.text("document.activeElement.id").await, "search");
        browser.keys(words).await;
        browser
            .wait(&format!("#found:not([hidden]) [href$='{wanted}']"))
            .await;
        browser.keys(Key::Escape + "").await;
        browser.wait("#found[hidden]").await;
    }
    browser.quit().await;
}
