use super::*;
use crate::plane::tests::{in_process, over_tcp};
use fedgate_simulator::{Down, Fault, Rule, RuleId, Simulator, Verb, When};
use kube::{Client, client::Body};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

const KIND: &str = "ConfigMap";
const PLURAL: &str = "configmaps";

struct Scene {
    simulator: Simulator,
    server: fedgate_simulator::Plane,
    follow: Follow,
}

impl Scene {
    /// ConfigMaps and Events of a plane, of which the first ones meet this fault.
    fn start(fault: Option<(Verb, Fault)>) -> Self {
        Self::with_timeout(fault, Some(Duration::from_secs(10)))
    }

    fn with_timeout(fault: Option<(Verb, Fault)>, request_timeout: Option<Duration>) -> Self {
        let simulator = Simulator::new(1);
        let server = simulator.add("p");
        if let Some((verb, fault)) = fault {
            let rule = Rule::new(When::Always, fault).verb(verb).kind(PLURAL);
            simulator.faults().add(rule);
        }
        let plane = Plane {
            request_timeout,
            ..in_process(&simulator, "p")
        };
        let kinds = [Resource::ConfigMaps, Resource::Events].map(|kind| (kind, ListParams::default()));
        Self {
            server,
            follow: Follow::start(&plane, &kinds),
            simulator,
        }
    }

    fn add(&self, verb: Verb, fault: Fault) -> RuleId {
        let rule = Rule::new(When::Always, fault).verb(verb).kind(PLURAL);
        self.simulator.faults().add(rule)
    }

    fn names(&self) -> Vec<&str> {
        self.follow
            .objects(Resource::ConfigMaps)
            .map(Object::name)
            .collect()
    }

    /// The next notice within this time.
    async fn notice(&mut self, time: u64) -> Option<String> {
        let wait = async {
            loop {
                if let Some(notice) = self.follow.next().await.unwrap() {
                    return notice;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(time), wait).await.ok()
    }

    async fn changed(&mut self) {
        while self.follow.next().await.unwrap().is_some() {}
    }

    fn requests(&self, verb: Verb) -> usize {
        let entries = self.simulator.log().entries();
        let fits = entries
            .iter()
            .filter(|entry| entry.verb == verb && &*entry.resource == PLURAL);
        fits.count()
    }
}

fn create(server: &fedgate_simulator::Plane, name: &str) {
    let object =
        json!({"apiVersion": "v1", "kind": KIND, "metadata": {"name": name, "namespace": "default"}});
    server.create(object).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_told_once_and_tried_less_and_less_often() {
    let mut scene = Scene::start(Some((Verb::List, Fault::Internal)));
    let begun = Instant::now();
    assert_eq!(
        scene.notice(60).await.as_deref(),
        Some("no answer for 30s: cannot list configmaps: Internal error occurred: by script; still trying")
    );
    assert_eq!(begun.elapsed().as_secs(), 30);
    assert!(scene.follow.is_lost());
    assert_eq!(scene.notice(600).await, None, "once");
    let lists = scene.requests(Verb::List);
    assert!((20..60).contains(&lists), "{lists} in 11 minutes");
    scene.simulator.faults().clear();
    scene.changed().await;
    assert!(!scene.follow.is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_is_told_too() {
    for (verb, timeout) in [
        (Verb::List, Some(10)),
        (Verb::List, None),
        (Verb::Watch, Some(10)),
        (Verb::Watch, None),
    ] {
        let timeout = timeout.map(Duration::from_secs);
        let mut scene = Scene::with_timeout(Some((verb, Fault::Hang)), timeout);
        let cause = if timeout.is_some() {
            ": no answer within 10s"
        } else {
            ""
        };
        assert_eq!(
            scene.notice(60).await,
            Some(format!(
                "no answer for 30s: cannot reach simulator{cause}; still trying"
            )),
            "{verb} {timeout:?}"
        );
        assert_eq!(
            scene.requests(verb) > 1,
            timeout.is_some(),
            "a hung request is given up"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_is_no_silence_and_its_reset_is_none() {
    let mut scene = Scene::start(None);
    scene.changed().await;
    assert_eq!(scene.notice(100).await, None);
    let watches = scene.requests(Verb::Watch);
    scene.server.set_down(Some(Down::Refused));
    assert_eq!(scene.notice(5).await, None);
    assert!(scene.follow.is_lost());
    scene.server.set_down(None);
    assert_eq!(scene.notice(60).await, None);
    assert!(!scene.follow.is_lost());
    assert!(scene.requests(Verb::Watch) > watches);
    // After contact, the next silence is reported again.
    for _ in 0..2 {
        scene.server.set_down(Some(Down::Refused));
        assert!(scene.notice(31).await.is_some());
        scene.server.set_down(None);
        scene.changed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_not_opened_in_a_hurry() {
    let mut scene = Scene::start(None);
    scene.changed().await;
    scene.add(Verb::Watch, Fault::Reset);
    scene.server.close_watches(Some(KIND));
    let before = scene.requests(Verb::Watch);
    assert_eq!(scene.notice(60).await, None, "each of them is an answer");
    let watches = scene.requests(Verb::Watch) - before;
    assert!((4..20).contains(&watches), "{watches} in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_lines_is_not_opened_in_a_hurry() {
    let watches = Arc::new(AtomicUsize::new(0));
    let opened = watches.clone();
    let server = tower::service_fn(move |request: http::Request<_>| {
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        opened.fetch_add(usize::from(is_watch), Ordering::Relaxed);
        let list = json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": "1"}, "items": []});
        let body = if is_watch { String::new() } else { list.to_string() };
        std::future::ready(Ok::<_, std::io::Error>(http::Response::new(Body::from(
            body.into_bytes(),
        ))))
    });
    let plane = Plane {
        client: Client::new(server, "default"),
        ..in_process(&Simulator::new(1), "p")
    };
    let mut follow = Follow::start(&plane, &[(Resource::ConfigMaps, ListParams::default())]);
    follow.next().await.unwrap();
    let quiet = tokio::time::timeout(Duration::from_secs(60), follow.next());
    assert!(quiet.await.is_err(), "each of them is an answer");
    let watches = watches.load(Ordering::Relaxed);
    assert!((4..20).contains(&watches), "{watches} in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_leads_to_a_list() {
    for in_stream in [false, true] {
        let mut scene = Scene::start(None);
        create(&scene.server, "a");
        scene.changed().await;
        scene.server.gone_in_stream(in_stream);
        scene.server.pause_watches(KIND);
        create(&scene.server, "b");
        scene.server.compact();
        scene.server.close_watches(Some(KIND));
        scene.server.resume_watches(KIND);
        while scene.names().len() < 2 {
            scene.follow.next().await.unwrap();
        }
        assert_eq!(scene.requests(Verb::List), 2, "{in_stream}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_after_which_no_request_makes_sense_end_it() {
    for (fault, kind) in [
        (Fault::Forbidden, Kind::Forbidden),
        (Fault::Unauthorized, Kind::Forbidden),
    ] {
        let mut scene = Scene::start(None);
        scene.changed().await;
        scene.add(Verb::Watch, fault);
        scene.server.close_watches(Some(KIND));
        let error = loop {
            if let Err(error) = scene.follow.next().await {
                break error;
            }
        };
        assert_eq!(error.kind, kind);
    }
    let plane = in_process(&Simulator::new(1), "p");
    let simulator = Simulator::new(1);
    simulator.add("p");
    let plane = Plane {
        client: in_process(&simulator, "p").client,
        ..plane
    };
    let mut follow = Follow::start(&plane, &[(Resource::Workloads, ListParams::default())]);
    assert_eq!(follow.next().await.unwrap_err().kind, Kind::NotServed);
}

#[tokio::test]
async fn a_burst_over_tcp_is_taken_over_in_few_steps() {
    let simulator = Simulator::new(1);
    let server = simulator.add("burst");
    let plane = over_tcp(&simulator, "burst").await;
    let mut follow = Follow::start(&plane, &[(Resource::ConfigMaps, ListParams::default())]);
    follow.next().await.unwrap();
    for n in 0..1_000 {
        create(&server, &format!("c{n}"));
    }
    let mut steps = 0;
    while follow.objects(Resource::ConfigMaps).count() < 1_000 {
        follow.next().await.unwrap();
        steps += 1;
    }
    assert!(steps < 50, "{steps} steps");
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_taken_over_at_once() {
    let mut scene = Scene::start(None);
    scene.changed().await;
    scene.server.pause_watches(KIND);
    for n in 0..1_000 {
        create(&scene.server, &format!("c{n}"));
    }
    scene.server.resume_watches(KIND);
    scene.changed().await;
    assert_eq!(scene.names().len(), 1_000);
}
