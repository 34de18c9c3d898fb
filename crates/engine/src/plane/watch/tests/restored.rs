//! Servers restored to an older state between two watches.

use super::*;

fn ends() -> Answer {
    Answer::Watch(String::new(), End::Ends)
}

fn stays() -> Answer {
    Answer::Watch(String::new(), End::Stays)
}

/// Asserts that the watch lists the server again after `script`, which ends the first watch; the new lists are at
/// version `older`.
async fn is_read_anew(version: u64, older: u64, script: impl IntoIterator<Item = Answer>) {
    let older = || Answer::List(older, vec![object("a", 1)]);
    let script = std::iter::once(first())
        .chain(script)
        .chain([older(), older(), stays()]);
    let mut watch = Running::start(script);
    watch.server.store(version, Ordering::Relaxed);
    watch.tells(&FIRST).await;
    watch.tells(&["began", "rewound"]).await;
    watch
        .tells(&["began", "listed a@1", r#"complete, gone: ["b"]"#])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_with_an_older_state_is_read_anew() {
    let bookmark = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"resourceVersion": "30"}});
    let expired = line("BOOKMARK", &bookmark) + &line("ERROR", &status(410));
    is_read_anew(4, 4, [Answer::Watch(String::new(), End::Breaks)]).await;
    is_read_anew(1_000, 29, [Answer::Watch(expired, End::Stays)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lost_an_answered_write_is_read_anew() {
    let list = || Answer::List(12, vec![object("a", 1), object("b", 2)]);
    let breaks = Answer::Watch(String::new(), End::Breaks);
    let mut watch = Running::start([first(), breaks, list(), stays()]);
    watch.health.note_written("15");
    // The server has all that the watch has delivered, up to version 10.
    watch.server.store(12, Ordering::Relaxed);
    watch.tells(&FIRST).await;
    watch.tells(&FIRST).await;
    assert_eq!(watch.versions_asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_behind_a_proxy_that_ends_its_watches_or_answers_for_it_is_read_anew() {
    is_read_anew(4, 4, [ends(), stays()]).await;
    for code in [401, 502, 503] {
        is_read_anew(4, 4, [Answer::Refuse(code), Answer::Refuse(code), stays()]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_each_watch_is_not_asked_for_its_version() {
    let refusals = std::iter::repeat_with(|| Answer::Refuse(401)).take(20);
    let mut watch = Running::start(std::iter::once(first()).chain(refusals).chain([stays()]));
    watch.tells(&FIRST).await;
    let began = Instant::now();
    while watch.asked().len() < 22 {
        assert_eq!(watch.versions_asked.load(Ordering::Relaxed), 0);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        began.elapsed() > Duration::from_secs(60),
        "each waits for its turn: {:?}",
        began.elapsed()
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(watch.versions_asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_in_time_are_begun_again_and_nothing_else_is_asked() {
    let longest = Duration::from_secs(290);
    let mut watch = Running::start([
        first(),
        Answer::Watch(String::new(), End::After(longest)),
        stays(),
    ]);
    watch.tells(&FIRST).await;
    tokio::time::sleep(longest + Duration::from_secs(1)).await;
    assert_eq!(watch.asked(), ["list", "watch 10", "watch 10"]);
    assert_eq!(watch.versions_asked.load(Ordering::Relaxed), 0);
}
