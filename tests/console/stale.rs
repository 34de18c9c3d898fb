//! A gateway that ends and comes back.

use super::{browser::Browser, fleet::Fleet};

#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_gateway_has_ended_says_since_when_and_is_live_again_by_itself() {
    let mut fleet = Fleet::full("stale").await;
    let browser = Browser::start().await;
    browser.open(&fleet.url(), "#/now").await;
    browser.js("(window.same = true)").await;
    fleet.stop().await;
    browser.wait("body[data-connection=reconnecting]").await;
    browser.wait("body[data-connection=stale][data-stale]").await;
    let words = browser
        .text("document.getElementById('connection').textContent")
        .await;
    assert!(words.starts_with("stale since "), "{words}");
    fleet.start().await;
    browser.wait("body[data-connection=live]:not([data-stale])").await;
    assert_eq!(browser.js("window.same").await, true, "it was not loaded again");
    browser.quit().await;
}
