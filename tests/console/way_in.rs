//! Sessions, and `fedgate console`.

use super::{
    browser::Browser,
    fleet::{Fleet, TOKEN},
};
use thirtyfour::Key;

/// Fails if the page, its address, its history's entry or its stores have the token.
async fn has_no_token(browser: &Browser) {
    let everything = browser
        .text(
            "JSON.stringify([document.documentElement.outerHTML, location.href, document.cookie, history.state, \
             {...localStorage}, {...sessionStorage}, [...document.querySelectorAll('input')].map((i) => i.value), \
             performance.getEntries().map((entry) => entry.name)])",
        )
        .await;
    assert!(everything.len() > 1_000);
    assert!(!everything.contains(TOKEN), "{everything}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_a_session_of_this_port_alone() {
    let fleet = Fleet::with_token("session").await;
    let browser = Browser::start().await;
    browser.goto(&fleet.url()).await;
    browser.wait("#signin[open] #token").await;
    browser.keys("0123456789abcdef-wrong").await;
    browser.keys(Key::Enter + "").await;
    browser.wait("#signin .answer:not(:empty)").await;
    browser.keys(TOKEN).await;
    browser.keys(Key::Enter + "").await;
    browser.gone("#signin[open]").await;
    browser.shows("now").await;
    has_no_token(&browser).await;
    assert_eq!(browser.text("document.cookie").await, "");
    browser.driver.refresh().await.unwrap();
    browser.shows("now").await;
    browser.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_opens_the_console_once_and_the_browser_has_no_token() {
    let fleet = Fleet::with_token("command").await;
    let (_console, url) = fleet.console().await;
    let browser = Browser::start().await;
    browser.goto(&url).await;
    browser.shows("now").await;
    let href = browser.text("location.href").await;
    let address = url.split('#').next().unwrap();
    assert!(href.starts_with(address) && !href.contains("code"), "{href}");
    has_no_token(&browser).await;
    for key in ["2", "3", "7"] {
        browser.keys(key).await;
    }
    browser.shows("journal").await;
    browser.quit().await;
    // The same address a second time, and without the code.
    for url in [url.as_str(), address] {
        let stranger = Browser::start().await;
        stranger.goto(url).await;
        stranger.wait("#problem").await;
        let words = stranger.text("document.body.textContent").await;
        assert!(
            words.contains("has no session") && words.contains("fedgate console"),
            "{words}"
        );
        stranger.quit().await;
    }
}
