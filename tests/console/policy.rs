//! Limits of the page; a message of a cell makes no element.

use super::{
    browser::{Browser, VIEWS},
    fleet::{Fleet, MARKUP},
};

#[tokio::test(flavor = "multi_thread")]
async fn no_view_asks_another_origin_or_breaks_its_policy_and_no_message_is_markup() {
    let fleet = Fleet::full("policy").await;
    let browser = Browser::start().await;
    let origin = fleet.url().replace("/console", "");
    for (name, address) in VIEWS {
        browser.goto("about:blank").await;
        browser.open(&fleet.url(), address).await;
        assert_eq!(
            browser.js("window.refused").await,
            serde_json::json!([]),
            "{name}"
        );
        let asked = browser
            .js("performance.getEntriesByType('resource').map((entry) => entry.name)")
            .await;
        let asked = asked.as_array().unwrap();
        assert!(!asked.is_empty());
        for url in asked {
            assert!(
                url.as_str().unwrap().starts_with(&format!("{origin}/")),
                "{name}: {url}"
            );
        }
        let images = browser
            .js("document.querySelectorAll('main img, [onerror]').length")
            .await;
        assert_eq!(images, 0, "{name}");
        if name == "trace" {
            let opened =
                "document.querySelector('[data-row$=\"/cell\"][aria-expanded=\"false\"]')?.click() ?? 0";
            browser.js(opened).await;
            let shown = browser.text("document.querySelector('main').textContent").await;
            assert!(shown.contains(MARKUP), "the message of the cell is text: {shown}");
        }
        assert_ne!(browser.driver.title().await.unwrap(), "run");
    }
    // The policy is in force: a script and a style of the page's own making do not run.
    let made = browser
        .js("(() => { try { document.body.innerHTML += '<p>'; return 'made'; } catch (error) { return error.name; } })()")
        .await;
    assert_eq!(made, "TypeError");
    browser.wait("body").await;
    let refused = browser.text("window.refused.join()").await;
    assert!(refused.contains("require-trusted-types-for"), "{refused}");
    browser.quit().await;
}
