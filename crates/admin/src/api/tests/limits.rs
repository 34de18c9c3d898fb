//! Requests at a time, and the time of a request.

use super::{fake::error, *};
use fedgate_operations::ErrorCode;
use std::sync::mpsc;

/// Asks for the overview of a role that does not answer until the returned sender is dropped or used.
async fn blocked(api: &Arc<Operations>, fake: &Fake) -> (tokio::task::JoinHandle<u16>, mpsc::Sender<()>) {
    let (sender, receiver) = mpsc::channel();
    fake.state.lock().block = Some(receiver);
    let api = api.clone();
    let asked = tokio::spawn(async move { get(&api, "overview").await.0 });
    // The role takes the receiver when it is asked.
    while fake.state.lock().block.is_some() {
        tokio::task::yield_now().await;
    }
    (asked, sender)
}

#[tokio::test]
async fn the_ninth_request_at_a_time_is_refused() {
    let fake = Arc::new(Fake::default());
    let api = api(&fake);
    let mut waiting = Vec::new();
    for _ in 0..AT_ONCE {
        waiting.push(blocked(&api, &fake).await);
    }
    let (status, document) = get(&api, "overview").await;
    assert_eq!((status, error(&document).code), (429, ErrorCode::Busy));
    for (asked, sender) in waiting {
        sender.send(()).unwrap();
        assert_eq!(asked.await.unwrap(), 200);
    }
    assert_eq!(get(&api, "overview").await.0, 200);
}

#[tokio::test]
async fn the_fifth_request_of_a_user_is_refused_and_that_of_another_is_not() {
    let fake = Arc::new(Fake::default());
    let api = api(&fake);
    let ask = |user: &str| {
        let request = Request::get("/api/v1/overview").extension(User(user.to_owned()));
        let asked = api.router().oneshot(request.body(Body::empty()).unwrap());
        async move { asked.await.unwrap().status().as_u16() }
    };
    let mut waiting = Vec::new();
    for _ in 0..OF_USER {
        let (sender, receiver) = mpsc::channel();
        fake.state.lock().block = Some(receiver);
        waiting.push((tokio::spawn(ask("one")), sender));
        while fake.state.lock().block.is_some() {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(ask("one").await, 429);
    assert_eq!(ask("other").await, 200);
    for (asked, sender) in waiting {
        sender.send(()).unwrap();
        assert_eq!(asked.await.unwrap(), 200);
    }
    assert_eq!(ask("one").await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_after_two_seconds_and_keeps_its_place_until_the_role_has_answered() {
    let fake = Arc::new(Fake::default());
    let api = api(&fake);
    let mut senders = Vec::new();
    for _ in 0..AT_ONCE {
        let (asked, sender) = blocked(&api, &fake).await;
        tokio::time::advance(ANSWER_WITHIN).await;
        assert_eq!(asked.await.unwrap(), 503);
        senders.push(sender);
    }
    assert_eq!(get(&api, "overview").await.0, 429);
    for sender in senders {
        sender.send(()).unwrap();
    }
    while api.permits.available_permits() < AT_ONCE {
        tokio::task::yield_now().await;
    }
    assert_eq!(get(&api, "overview").await.0, 200);
}

#[tokio::test]
async fn a_role_that_panics_costs_one_answer() {
    let fake = Arc::new(Fake::default());
    let api = api(&fake);
    let (asked, sender) = blocked(&api, &fake).await;
    drop(sender);
    assert_eq!(asked.await.unwrap(), 503);
    assert_eq!(get(&api, "overview").await.0, 200);
}
