//! Deleted Projects: what discovery reports of them, and what a list of all Projects proves.

use super::*;
use crate::plane::{client::PlaneClient, discovery::Answer};
use std::collections::VecDeque;

/// A platform whose watch has a selector. The list of all Projects is another one, and may fail.
struct Platform {
    selected: Vec<Value>,
    all: Vec<Value>,
    /// The version of its lists.
    version: u64,
    /// Codes that the pages of lists of all Projects answer first.
    failures: VecDeque<u16>,
    asked: Vec<String>,
    client: Option<kube::Client>,
}

type Shared = Arc<Mutex<Platform>>;

/// A server for this platform, by its only watch; each list of all has pages of two.
fn serve(selected: Vec<Value>, all: Vec<Value>) -> (Connection, mpsc::UnboundedSender<Value>, Shared) {
    let (send, events) = mpsc::unbounded::<Value>();
    let platform = Arc::new(Mutex::new(Platform {
        selected,
        all,
        version: 9,
        failures: VecDeque::new(),
        asked: Vec::new(),
        client: None,
    }));
    let (shared, events) = (platform.clone(), Arc::new(Mutex::new(Some(events))));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let (mut platform, mut events) = (shared.lock(), events.lock());
        let (code, body) = if query.contains("watch=true") {
            let events = events.take().map_or_else(
                || futures::stream::pending().boxed(),
                |events| events.chain(futures::stream::pending()).boxed(),
            );
            let lines = events.map(|event| Ok::<_, Infallible>(format!("{event}\n")));
            (200, Body::from_stream(lines))
        } else if query.contains("labelSelector=hub") {
            let version = platform.version.to_string();
            let list = json!({"metadata": {"resourceVersion": version}, "items": platform.selected});
            (200, Body::from(list.to_string()))
        } else {
            platform.asked.push(query.clone());
            let accept = request.headers()["accept"].to_str().unwrap();
            assert!(accept.contains("PartialObjectMetadataList"), "{accept}");
            let from = if query.contains("continue=") { 2 } else { 0 };
            let page: Vec<&Value> = platform.all.iter().skip(from).take(2).collect();
            let more = (from == 0 && platform.all.len() > 2).then_some("more");
            let version = platform.version.to_string();
            let list = json!({"metadata": {"resourceVersion": version, "continue": more}, "items": page});
            match platform.failures.pop_front() {
                Some(code) if code != 200 => {
                    let status = json!({"kind": "Status", "code": code, "status": "Failure", "reason": "x", "message": "no"});
                    (code, Body::from(status.to_string()))
                }
                _ => (200, Body::from(list.to_string())),
            }
        };
        let response = Response::builder().status(code).body(body).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    let client = kube::Client::new(service, "default");
    platform.lock().client = Some(client.clone());
    (Connection::of_client(client), send, platform)
}

fn ending(name: &str, uid: &str) -> Value {
    let mut project = project(name, uid, "True");
    project["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    project
}

fn uids(of: &[&str]) -> BTreeSet<Arc<str>> {
    of.iter().map(|uid| Arc::from(*uid)).collect()
}

impl Events {
    /// Waits until the platform can be asked, and asks for these Projects.
    async fn ask(&mut self, projects: &[(&str, &str)]) -> Answer {
        let inquiry = self.inquiry.clone().expect("a complete list");
        inquiry.ask(projects.iter().map(|(uid, name)| ((*uid).into(), (*name).into())));
        match self.next().await {
            ProjectEvent::Answered(answer) => answer,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    async fn listed(&mut self) {
        while self.inquiry.is_none() {
            self.pass().await;
        }
    }

    async fn gone(&mut self, uid: &str) {
        while self.gone.is_empty() {
            self.pass().await;
        }
        assert_eq!(std::mem::take(&mut self.gone), [Arc::from(uid)]);
    }

    /// Takes one event, whatever it is.
    async fn pass(&mut self) {
        let event = tokio::time::timeout(PATIENCE, self.stream.next());
        match event.await.expect("an event in time").unwrap() {
            ProjectEvent::Listed { inquiry, begins } => self.listed_by(inquiry, begins),
            ProjectEvent::Gone { uid } => self.gone.push(uid),
            ProjectEvent::Removed { .. } | ProjectEvent::Engaged { .. } | ProjectEvent::Suspension { .. } => {
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_project_that_lost_its_label_lives_and_one_that_is_deleted_does_not() {
    let template = Template::new("selector");
    let [alpha, beta, gamma] =
        [("alpha", "u1"), ("beta", "u2"), ("gamma", "u3")].map(|(name, uid)| project(name, uid, "True"));
    let selected = vec![alpha.clone(), beta.clone(), gamma.clone()];
    let (plane, send, platform) = serve(selected, vec![beta.clone(), ending("gamma", "u3"), alpha]);
    let mut events = Events::of(plane, MiloForm::Projects, "hub=eu", &template);
    events.listed().await;
    assert_eq!(platform.lock().asked, [""; 0], "nobody asked");
    for (object, uid) in [
        (event("DELETED", &beta), "u2"),
        (event("MODIFIED", &ending("gamma", "u3")), "u3"),
    ] {
        send.unbounded_send(object).unwrap();
        events.gone(uid).await;
    }
    let all = [
        ("u1", "alpha"),
        ("u2", "beta"),
        ("u3", "gamma"),
        ("u4", "alpha"),
        ("u5", "delta"),
    ];
    assert_eq!(
        events.ask(&all).await,
        Answer {
            living: uids(&["u1", "u2"]),
            deleted: uids(&["u3"]),
            replaced: uids(&["u4"]),
            absent: uids(&["u5"]),
        }
    );
    let pages = platform.lock().asked.clone();
    assert_eq!(pages.len(), 2, "{pages:?}");
    assert!(
        pages.iter().all(|query| !query.contains("labelSelector")),
        "{pages:?}"
    );
    // A deletion is reported though its label was lost and given back before.
    for object in [
        event("ADDED", &beta),
        event("MODIFIED", &ending("beta", "u2")),
        event("MODIFIED", &ending("beta", "u2")),
        event("DELETED", &ending("beta", "u2")),
    ] {
        send.unbounded_send(object).unwrap();
    }
    events.gone("u2").await;
    // Until then it was engaged.
    events.gone("u2").await;
    // The platform no longer has the Project whose deletion the watch showed.
    platform
        .lock()
        .all
        .retain(|project| project["metadata"]["name"] == "alpha");
    let answer = events
        .ask(&[("u2", "beta"), ("u3", "gamma"), ("u6", "eta")])
        .await;
    assert_eq!(
        (answer.deleted, answer.absent),
        (uids(&["u2", "u3"]), uids(&["u6"]))
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_on_any_page_answers_nothing_and_is_begun_anew() {
    let template = Template::new("failing");
    let all = ["a", "b", "c"].map(|name| project(name, &format!("u-{name}"), "True"));
    let (plane, _send, platform) = serve(Vec::new(), all.to_vec());
    let mut events = Events::of(plane, MiloForm::Projects, "hub=eu", &template);
    events.listed().await;
    // The second list fails on its second page.
    platform.lock().failures = [403, 200, 410].into();
    let inquiry = events.inquiry.clone().unwrap();
    inquiry.ask([("u-c".into(), "c".into())]);
    let answer = tokio::time::timeout(PAUSE * 3, events.stream.next());
    let answered = answer.await.expect("an answer after two failures");
    let Some(ProjectEvent::Answered(answer)) = answered else {
        panic!("no answer")
    };
    assert_eq!((answer.living, answer.absent), (uids(&["u-c"]), uids(&[])));
    assert_eq!(platform.lock().asked.len(), 5, "one page, two, and two");
}

#[tokio::test]
async fn another_life_of_a_name_is_a_hint_and_a_list_that_lacks_a_project_no_observation() {
    let template = Template::new("again");
    let first = project("alpha", "u1", "True");
    let (plane, send, platform) = serve(vec![first.clone()], vec![project("alpha", "u2", "True")]);
    let mut events = Events::of(plane.clone(), MiloForm::Projects, "hub=eu", &template);
    events.listed().await;
    send.unbounded_send(event("MODIFIED", &project("alpha", "u2", "True")))
        .unwrap();
    events.gone("u1").await;
    // Its deletion would have been an event; a platform that was restored lacks it, too.
    let answer = events.ask(&[("u1", "alpha"), ("u2", "alpha")]).await;
    assert_eq!((answer.replaced, answer.living), (uids(&["u1"]), uids(&["u2"])));
    // Another server may be another platform, or an older state of this one: it is asked anew.
    platform.lock().selected.clear();
    platform.lock().all.clear();
    events.inquiry = None;
    let client = platform.lock().client.clone().unwrap();
    plane.replace(PlaneClient::of(client));
    events.listed().await;
    assert_eq!(events.gone, [Arc::from("u2")]);
    let answer = events.ask(&[("u1", "alpha"), ("u2", "alpha")]).await;
    assert_eq!((answer.deleted, answer.absent), (uids(&[]), uids(&["u1", "u2"])));
}

#[tokio::test]
async fn a_control_plane_without_its_projects_uid_leaves_absence_unproven() {
    let template = Template::new("anonymous");
    let control_plane = |name: &str, uid: Option<&str>| {
        json!({"apiVersion": "infrastructure.miloapis.com/v1alpha1", "kind": "ProjectControlPlane",
            "metadata": {"name": name, "uid": "its own", "resourceVersion": "9",
                "labels": {"resourcemanager.miloapis.com/project-uid": uid.unwrap_or_default()}}})
    };
    let all = vec![control_plane("alpha", Some("u1")), control_plane("beta", None)];
    let (plane, _send, _) = serve(Vec::new(), all);
    let mut events = Events::of(plane, MiloForm::ControlPlanes, "hub=eu", &template);
    events.listed().await;
    let answer = events.ask(&[("u1", "alpha"), ("u2", "gamma")]).await;
    let only = Answer {
        living: uids(&["u1"]),
        ..Answer::default()
    };
    assert_eq!(answer, only);
}

fn at(mut project: Value, version: &str) -> Value {
    project["metadata"]["resourceVersion"] = json!(version);
    project
}

/// The watch has shown a deletion at version 20; then the platform is put back to version 12.
#[tokio::test(start_paused = true)]
async fn a_list_older_than_what_the_watch_has_shown_proves_nothing() {
    let template = Template::new("restored");
    let [alpha, beta] = [("alpha", "u1"), ("beta", "u2")].map(|(name, uid)| project(name, uid, "True"));
    let (plane, send, platform) = serve(vec![alpha.clone(), beta.clone()], vec![alpha.clone()]);
    let mut events = Events::of(plane, MiloForm::Projects, "hub=eu", &template);
    events.listed().await;
    send.unbounded_send(event("DELETED", &at(beta, "20"))).unwrap();
    events.gone("u2").await;
    platform.lock().version = 12;
    platform.lock().selected = vec![alpha];
    let answer = events.ask(&[("u1", "alpha"), ("u2", "beta")]).await;
    assert_eq!((answer.living, answer.deleted), (uids(&["u1"]), uids(&[])));
    assert_eq!(answer.absent, uids(&["u2"]), "nobody saw it go since the restore");
    assert_eq!(events.lists, [Beginning::Server, Beginning::Restored]);
}

/// A server that was restored lets a watch from a version that it does not have yet wait in silence.
#[tokio::test(start_paused = true)]
async fn a_watch_that_failed_asks_for_the_version_of_the_platform() {
    let template = Template::new("doubt");
    let [alpha, beta] = [("alpha", "u1"), ("beta", "u2")].map(|(name, uid)| project(name, uid, "True"));
    let (plane, send, platform) = serve(vec![alpha.clone()], vec![alpha.clone(), beta.clone()]);
    let mut events = Events::of(plane, MiloForm::Projects, "hub=eu", &template);
    events.engaged("alpha", "u1").await;
    send.unbounded_send(event("MODIFIED", &at(alpha.clone(), "20")))
        .unwrap();
    let failure = json!({"kind": "Status", "code": 500, "status": "Failure", "reason": "InternalError", "message": "no"});
    platform.lock().selected = vec![alpha, beta];
    platform.lock().version = 12;
    send.unbounded_send(event("ERROR", &failure)).unwrap();
    events.engaged("beta", "u2").await;
    events.listed().await;
    let asked = platform.lock().asked.clone();
    assert!(asked.len() == 1 && asked[0].contains("limit=1"), "{asked:?}");
}
