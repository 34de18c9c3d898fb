//! Answers about more projects than are read under one lock of the index.

use super::*;
use crate::{gateway::operations::Operations, views::header::Process};
use fedgate_engine::{metrics::Build, runtime::inspect::SLICE};
use fedgate_operations::{OperationsSource, Time, query::ProjectsQuery};

/// A number of projects that fills two slices and begins a third.
const PROJECTS: usize = 2 * SLICE + 1;

#[tokio::test]
async fn each_project_is_in_an_answer_once_however_many_slices_it_takes() {
    let (hub, project) = (Server::new(false, Vec::new()), project(false));
    let gateway = gateway(&hub);
    let names: Vec<String> = (0..PROJECTS).map(|n| format!("p{n:04}")).collect();
    for name in &names {
        gateway.role.on_project(&gateway.shared, engaged(name, &project));
        let key = ProjectKey::parse(name).unwrap();
        let mut index = gateway.shared.index.lock();
        let leaving = serde_json::from_value(fixture::leaving("web", "DFW")).unwrap();
        index.project_event(&key, TableId::DEPLOYMENTS, WatchEvent::Apply(Box::new(leaving)));
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
    let page = operations.projects(&ProjectsQuery::default()).unwrap();
    let listed: Vec<&str> = page.items.iter().map(|row| row.project.as_str()).collect();
    let first: Vec<&str> = names.iter().take(listed.len()).map(String::as_str).collect();
    assert_eq!(listed, first);
    assert_eq!(page.remaining, PROJECTS - listed.len());
}
