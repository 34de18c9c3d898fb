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

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_that_another_replica_leads_until_the_notice_is_closed() {
    let mut fleet = Fleet::full("leader").await;
    let browser = Browser::start().await;
    Fleet::leads(fleet.address()).await;
    browser.open(&fleet.url(), "#/now").await;
    assert_eq!(
        browser
            .js("document.querySelectorAll('[data-notice]').length")
            .await,
        0
    );
    let (_standby, address) = fleet.standby();
    fleet.stop().await;
    Fleet::leads(address).await;
    fleet.start().await;
    browser
        .wait("body[data-connection=live] [data-notice=standby]")
        .await;
    browser.wait("[data-notice=leader]").await;
    let words = browser
        .text("document.querySelector('[data-notice=leader]').textContent")
        .await;
    assert!(words.contains("The leader changed from "), "{words}");
    browser
        .js("document.querySelector('[data-notice=leader] button').click()")
        .await;
    browser.gone("[data-notice=leader]").await;
    browser.wait("[data-notice=standby]").await;
    browser.quit().await;
}
