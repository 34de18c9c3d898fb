//! Answers about a hub namespace for the projects that claim it, about a hub of another platform, and about more projects than
//! are read under one lock of the index.

use super::{Operations, projects, stuck};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    metrics::Build,
    plane::{
        client::Connection,
        discovery::{Answer, Beginning, Inquiry, ProjectEvent},
        watch::WatchEvent,
    },
    runtime::{inspect::SLICE, role::Role},
};
use fedgate_gateway::index::{
    GatewayIndex, TableId,
    derived::summary::Problem,
    fixture::{self, HUB, binding, shop, zoo},
};
use fedgate_kinds::{FederatedKind, KindId};
use fedgate_operations::{Class, OperationsSource, Time, query::Query, views::header::Process};
use serde_json::json;
use std::{convert::Infallible, future::pending};

#[test]
fn only_the_project_of_a_hub_namespace_reads_its_cells_and_its_name() {
    let mut index = GatewayIndex::fixture();
    let mut bound = binding("web");
    bound["spec"]["clusters"] = json!([{"name": "dfw-1"}]);
    index.hub_has(TableId::Bindings, &bound);
    index.with_zoo("z1", "a1");
    let problem = Problem {
        class: Class::Refused,
        reason: "HubNamespaceClaimed".into(),
        since: 0,
    };
    for (project, namespace, cell) in [(shop(), "default", "dfw-1"), (zoo(), "cages", "")] {
        let object = (project.clone(), (KindId::FIRST, (namespace.into(), "web".into())));
        let found = stuck::of_problem(&index, &object, &problem);
        assert_eq!(found.item.cell, cell, "{project}");
    }
    let shows = |project| {
        let rows = projects::namespaces(&index, &project);
        rows.iter().any(|row| row.hub_namespace == HUB)
    };
    assert_eq!([shows(shop()), shows(zoo())], [true, false]);
}

#[test]
fn a_project_that_the_platform_does_not_have_is_a_brake_with_its_name() {
    let mut index = GatewayIndex::fixture();
    index.disengage(&shop());
    index.platform_listed(Inquiry::default(), Beginning::Server);
    index.platform_answered(Answer {
        absent: ["p1".into()].into(),
        ..Answer::default()
    });
    let found = stuck::unknown_projects(&index);
    let shown: Vec<_> = found
        .iter()
        .map(|one| (one.class, one.word.as_str(), one.item.name.as_str()))
        .collect();
    assert_eq!(shown, [(Class::Brake, "platform", "cluster-shop")]);
}

/// A number of projects that fills two slices and begins a third.
const PROJECTS: usize = 2 * SLICE + 1;

/// A plane that never answers.
fn silent() -> Connection {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
        pending::<Result<http::Response<kube::client::Body>, Infallible>>()
    });
    Connection::of_client(kube::Client::new(service, "default"))
}

#[tokio::test]
async fn each_project_is_in_an_answer_once_however_many_slices_it_takes() {
    let kinds = FederatedKind::builtin().unwrap().into();
    let gateway = fedgate_gateway::new(silent(), kinds, fixture::settings(), fixture::setup());
    let names: Vec<String> = (0..PROJECTS).map(|n| format!("p{n:04}")).collect();
    for name in &names {
        let key = ProjectKey::parse(name).unwrap();
        let engaged = ProjectEvent::Engaged {
            key: key.clone(),
            connection: silent(),
            uid: None,
        };
        gateway.role.on_project(&gateway.shared, engaged);
        let mut index = gateway.shared.index.lock();
        let leaving = serde_json::from_value(fixture::leaving("web", "DFW")).unwrap();
        let deployments = TableId::Federated(KindId::FIRST);
        index.project_event(&key, deployments, WatchEvent::Apply(Box::new(leaving)));
    }
    let process = Process {
        identity: "a".to_owned(),
        build: Build {
            version: "1",
            revision: "r",
            rustc: "c",
        },
        started: Time::from_second(0),
    };
    let operations = Operations::new(gateway, process);

    let overview = operations.overview();
    assert_eq!(overview.projects.unwrap().engaged, PROJECTS);
    assert_eq!(overview.deletions.pending, PROJECTS);
    let page = operations.projects(&Query::default()).unwrap();
    let listed: Vec<&str> = page.items.iter().map(|row| row.project.as_str()).collect();
    let first: Vec<&str> = names.iter().take(listed.len()).map(String::as_str).collect();
    assert_eq!(listed, first);
    assert_eq!(page.remaining, PROJECTS - listed.len());
}
