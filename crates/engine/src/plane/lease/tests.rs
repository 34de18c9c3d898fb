use super::*;
use crate::testing::lease::{Failure, Server};
use serde_json::json;

fn stand(server: &Server, identity: &str) -> LeaseHandle {
    Lease::run(&server.plane(), "fedgate-system", "gate", identity)
}

async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

async fn until(handle: &LeaseHandle, leading: bool) -> Duration {
    let began = Instant::now();
    handle.changes().wait_for(|leads| leads == leading).await;
    began.elapsed()
}

/// Timers have a resolution of 1 ms.
fn close_to(time: Duration, wanted: Duration) -> bool {
    time.abs_diff(wanted) < Duration::from_millis(20)
}

#[tokio::test(start_paused = true)]
async fn one_of_two_leads_and_keeps_leading() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    let b = stand(&server, "b");
    for _ in 0..120 {
        seconds(1).await;
        assert!(a.may_write() && !b.may_write());
    }
    let writes = server.writes();
    assert!((24..=27).contains(&writes), "one renewal per 5 s, not {writes}");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once_and_one_of_a_dead_holder_after_15_seconds() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    let b = stand(&server, "b");
    seconds(7).await;
    a.release().await;
    assert!(!a.may_write());
    assert!(until(&b, true).await < Duration::from_millis(200));
    let c = stand(&server, "c");
    seconds(1).await;
    // A dead process neither renews nor releases.
    b.task.as_ref().unwrap().lock().take().unwrap().abort();
    let waited = until(&c, true).await;
    assert!(
        (Duration::from_secs(9)..=Duration::from_secs(16)).contains(&waited),
        "{waited:?}"
    );
    assert_eq!(server.holder(), "c");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_stops_before_another_may_begin() {
    for failure in [Failure::Hang, Failure::Error] {
        let server = Server::new();
        let a = stand(&server, "a");
        until(&a, true).await;
        seconds(1).await;
        server.fail(Some(failure));
        let waited = until(&a, false).await;
        assert!(
            waited <= RENEW_DEADLINE && waited > Duration::from_secs(3),
            "{waited:?}"
        );
        assert!(!a.may_write());
        server.fail(None);
        // Its own Lease need not expire: no other candidate holds it.
        assert!(until(&a, true).await < Duration::from_mins(1));
    }
}

#[tokio::test(start_paused = true)]
async fn may_write_ends_by_itself_even_if_the_renewing_task_is_stuck() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    a.task.as_ref().unwrap().lock().take().unwrap().abort();
    assert!(a.may_write());
    tokio::time::advance(RENEW_DEADLINE + Duration::from_millis(1)).await;
    assert!(!a.may_write());
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_force_ends_the_leadership_and_a_label_does_not() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    server.edit(|lease| lease["metadata"]["labels"] = json!({"x": "y"}));
    seconds(30).await;
    assert!(a.may_write(), "still ours");
    assert_eq!(
        server.0.lock().lease.as_ref().unwrap()["metadata"]["labels"]["x"],
        "y"
    );
    server.edit(|lease| lease["spec"]["holderIdentity"] = json!("z"));
    assert!(until(&a, false).await <= RENEW_EVERY);
    assert_eq!(server.holder(), "z");
    server.0.lock().lease = None;
    assert!(
        until(&a, true).await < Duration::from_mins(1),
        "a deleted Lease is made anew"
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_watch_the_election_still_works() {
    let server = Server::new();
    server.fail(Some(Failure::NoWatch));
    let a = stand(&server, "a");
    until(&a, true).await;
    let b = stand(&server, "b");
    seconds(60).await;
    assert!(a.may_write() && !b.may_write());
    a.release().await;
    assert!(until(&b, true).await <= Duration::from_secs(16));
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_cannot_reach_the_plane_knows_no_leader() {
    for failure in [Failure::Hang, Failure::Error] {
        let server = Server::new();
        let a = stand(&server, "a");
        until(&a, true).await;
        let b = stand(&server, "b");
        for _ in 0..60 {
            seconds(1).await;
            assert_eq!(b.leader().as_deref(), Some("a"), "it renews");
        }
        server.fail(Some(failure));
        seconds(20).await;
        assert_eq!((a.may_write(), b.leader()), (false, None), "{failure:?}");
        server.fail(None);
        let mut changes = (a.changes(), b.changes());
        tokio::select! {
            () = changes.0.wait_for(|leads| leads) => {}
            () = changes.1.wait_for(|leads| leads) => {}
        }
        seconds(15).await;
        let holder = server.holder();
        let leader = if holder == "a" { &b } else { &a }.leader();
        assert_eq!(leader, Some(holder), "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_may_not_watch_knows_the_leader_all_the_time() {
    let server = Server::new();
    server.fail(Some(Failure::NoWatch));
    let a = stand(&server, "a");
    until(&a, true).await;
    let b = stand(&server, "b");
    seconds(5).await;
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(b.leader().as_deref(), Some("a"));
    }
}

#[tokio::test]
async fn a_single_replica_always_writes_until_it_is_released() {
    let alone = LeaseHandle::always();
    assert!(alone.may_write() && alone.changes().borrow_and_update());
    alone.release().await;
    assert!(!alone.may_write());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_is_tried_again_before_the_deadline() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    let changes = a.changes();
    for _ in 0..5 {
        server.fail(Some(Failure::HangOnce));
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(a.may_write());
        }
        assert!(server.0.lock().fail.is_none(), "a renewal has hung");
    }
    assert!(!changes.has_changed());
}

#[tokio::test(start_paused = true)]
async fn the_right_counts_from_the_sending_of_a_late_answer_and_leadership_ends_with_it() {
    let server = Server::new();
    server.fail(Some(Failure::Late(2)));
    let a = stand(&server, "a");
    until(&a, true).await;
    server.fail(Some(Failure::Error));
    let led = until(&a, false).await + Duration::from_secs(2);
    assert!(
        close_to(led, RENEW_DEADLINE),
        "no time in which it leads and may not write: {led:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_unheard_is_found_out() {
    let server = Server::new();
    server.fail(Some(Failure::Late(4)));
    let a = stand(&server, "a");
    // The list, the watch and the write that takes the Lease are all late.
    while server.holder() != "a" {
        seconds(1).await;
        assert!(!a.may_write());
    }
    seconds(4).await;
    server.fail(None);
    assert!(until(&a, true).await <= Duration::from_secs(6));
    assert!(a.may_write());
}

/// Name of a way to delete the Lease, and the function that does so.
type Deletion<'a> = (&'a str, &'a dyn Fn(&Server));

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_not_free_before_its_holder_has_stopped() {
    let empty = || json!({"metadata": {"name": "gate"}, "spec": {"holderIdentity": ""}});
    let deletions: [Deletion; 3] = [
        ("deleted", &Server::delete),
        ("made anew", &|server| {
            server.delete();
            server.0.lock().store(empty());
        }),
        ("replaced unseen", &|server| {
            let mut stored = server.0.lock();
            stored.lease = None;
            stored.store(empty());
        }),
    ];
    for (how, delete) in deletions {
        let server = Server::new();
        let a = stand(&server, "a");
        until(&a, true).await;
        let b = stand(&server, "b");
        seconds(7).await;
        // The holder neither renews nor learns of the deletion, and writes until its deadline.
        a.task.as_ref().unwrap().lock().take().unwrap().abort();
        delete(&server);
        let deleted = Instant::now();
        while !b.may_write() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let waited = deleted.elapsed();
        assert!(!a.may_write());
        assert!(
            (LEASE_DURATION..Duration::from_secs(17)).contains(&waited),
            "{how}: {waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_living_holder_makes_its_deleted_lease_anew() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    let b = stand(&server, "b");
    seconds(1).await;
    server.delete();
    for _ in 0..60 {
        seconds(1).await;
        assert!(a.may_write() && !b.may_write());
    }
    assert_eq!(server.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_right_that_comes_back_is_told_even_if_nobody_saw_the_gap() {
    let right = WritePermit::none(crate::plane::client::Fence::default());
    let second = Duration::from_secs(1);
    right.allow(Some(Instant::now() + second));
    let mut changes = right.changes();
    right.allow(Some(Instant::now() + 2 * second));
    assert!(!changes.has_changed(), "a renewal in time is no news");
    tokio::time::advance(3 * second).await;
    assert!(
        !right.may_write() && right.changes().borrow_and_update(),
        "it leads and may not write"
    );
    right.allow(Some(Instant::now() + second));
    assert!(changes.has_changed() && changes.borrow_and_update());
    right.allow(None);
    right.allow(Some(Instant::now() + second));
    assert!(changes.has_changed() && changes.borrow_and_update());
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_ends_with_the_right_and_not_with_a_renewal() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    let ends = tokio::spawn({
        let a = a.clone();
        async move { a.permit_expired().await }
    });
    seconds(60).await;
    assert!(!ends.is_finished());
    server.edit(|lease| lease["spec"]["holderIdentity"] = json!("z"));
    until(&a, false).await;
    ends.await.unwrap();
    a.permit_expired().await;

    let b = stand(&Server::new(), "b");
    until(&b, true).await;
    b.task.as_ref().unwrap().lock().take().unwrap().abort();
    let began = Instant::now();
    b.permit_expired().await;
    assert!(close_to(began.elapsed(), RENEW_DEADLINE));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_begins_nothing_and_keeps_the_lease_until_it_is_released() {
    let server = Server::new();
    let a = stand(&server, "a");
    until(&a, true).await;
    a.revoke();
    for _ in 0..20 {
        seconds(1).await;
        assert!(!a.may_write() && a.changes().borrow_and_update());
    }
    assert_eq!(server.holder(), "a");
    a.release().await;
    assert_eq!(server.holder(), "");
    a.permit_expired().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_given_back_while_an_unanswered_write_may_still_be_carried_out() {
    for (after, holder) in [(0, "a"), (3, "a"), (4, "")] {
        let server = Server::new();
        let a = stand(&server, "a");
        until(&a, true).await;
        a.unanswered();
        seconds(after).await;
        a.release().await;
        assert_eq!(server.holder(), holder, "after {after} s");
    }
}
