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
async fn a_page_of_a_standby_names_the_leader_and_says_so_when_it_leads_itself() {
    let mut fleet = Fleet::full("leader").await;
    let standby = fleet.replica().await;
    let browser = Browser::start().await;
    let identity = async |url: &str| {
        browser.open(url, "#/now").await;
        browser.wait("#about bdi").await.text().await.unwrap()
    };
    let leader = identity(&fleet.url()).await;
    browser.gone("#notices .notice").await;
    let own = identity(&standby.url()).await;
    assert_ne!(own, leader);
    let notice = browser.wait("#notices .notice").await.text().await.unwrap();
    assert!(
        notice.contains("This replica is a standby") && notice.contains(&format!("The leader is {leader}.")),
        "{notice}"
    );
    browser.js("(window.same = true)").await;
    fleet.stop().await;
    let closes = "#notices button[aria-label='Close this notice']";
    browser.wait(closes).await;
    let words = browser
        .text("document.getElementById('notices').textContent")
        .await;
    assert!(
        words.contains(&format!("The leader changed from {leader} to {own}.")) && !words.contains("standby"),
        "{words}"
    );
    assert_eq!(browser.js("window.same").await, true, "it was not loaded again");
    browser.wait(closes).await.click().await.unwrap();
    browser.gone("#notices .notice").await;
    browser.quit().await;
}
