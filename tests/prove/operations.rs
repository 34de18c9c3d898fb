//! The answers of the operations API: sums that agree with the tables after any run, and answers from memory alone.

use crate::{
    ops::Op::*,
    rig::{HUB, Rig, rest, simulate},
    scenarios::SETTLED,
};
use fedgate_engine::{metrics::Build, store::table::Table};
use fedgate_gateway::index::{GatewayIndex, ObjectRef, Project, derived::undelivered::is_of_leader};
use fedgate_operations::views::header::Process;
use fedgate_operations::{
    Class, HealthState, HopKind, HopState, Instances, NoAnswer, OperationsSource, ReplicaRole, Stage, Time,
    TracedObject, Verdict, query::Query,
};
use fedgate_simulator::{Down, Fault, Rule, Verb, When};
use fedgate_views::Operations;
use std::{collections::BTreeMap, time::Duration};

/// Sums that differ from the tables, and objects that wait although all is well; a line each.
pub(crate) fn wrong(rig: &Rig) -> Vec<String> {
    let Some(gateway) = rig.running() else {
        return Vec::new();
    };
    let index = gateway.shared.index.lock();
    let mut lines = sums(&index);
    // A cell that does not report is the matter of the cell.
    for &stage in Stage::ALL.iter().filter(|stage| **stage != Stage::HubToCell) {
        let waiting = index.undelivered.of(stage).iter();
        if gateway.shared.planes.lease.may_write() || !is_of_leader(stage) {
            lines.extend(waiting.map(|(ObjectRef { hub, name, .. }, since)| {
                format!("{hub}/{name} waits at {} since {}", stage.as_str(), since.at)
            }));
        }
    }
    lines
}

fn sums(index: &GatewayIndex) -> Vec<String> {
    let mut lines = Vec::new();
    let counted: usize = index.summary.federated().map(|(_, count)| count).sum();
    let projects = index.projects.values();
    let kept: usize = projects
        .flat_map(|project| project.sources.iter())
        .map(Table::len)
        .sum();
    if counted != kept {
        lines.push(format!("{counted} federated objects are summed, {kept} are kept"));
    }
    let mut all = Instances::default();
    for (key, project) in &index.projects {
        let of_project = reported(project);
        if of_project != project.instances {
            let summed = project.instances;
            lines.push(format!(
                "project {key} reports {of_project:?}, {summed:?} are summed"
            ));
        }
        all += of_project;
    }
    if all != index.reported_instances() {
        let summed = index.reported_instances();
        lines.push(format!("projects report {all:?}, {summed:?} are summed"));
    }
    let mut written_back: BTreeMap<&str, u64> = BTreeMap::new();
    for table in index.hub.write_backs.iter() {
        for ((hub, _), _) in table.iter() {
            *written_back.entry(hub).or_default() += 1;
        }
    }
    for (hub, count) in written_back {
        let summed: u64 = index
            .summary
            .places(hub)
            .iter()
            .map(|(_, part)| part.existing)
            .sum();
        if summed != count {
            lines.push(format!("{hub} has {count} write-backs, {summed} are summed"));
        }
    }
    lines
}

/// The Instances that the objects of a project report.
fn reported(project: &Project) -> Instances {
    let mut all = Instances::default();
    for (_, row) in project.sources.iter().flat_map(Table::iter) {
        if let Some(counts) = row.digest.rolled_up().map(|rollup| &rollup.counts) {
            all.desired += u64::try_from(counts.desired_replicas).unwrap();
            all.existing += u64::try_from(counts.replicas).unwrap();
            all.ready += u64::try_from(counts.ready_replicas).unwrap();
            all.updated += u64::try_from(counts.updated_replicas).unwrap();
        }
    }
    all
}

pub(crate) fn operations(rig: &Rig) -> Operations {
    operations_of(rig, 0)
}

/// Those of one of several replicas.
pub(crate) fn operations_of(rig: &Rig, replica: u32) -> Operations {
    let process = Process {
        identity: format!("replica-{replica}"),
        build: Build {
            version: "1.2.3",
            revision: "abc",
            rustc: "1",
        },
        started: Time::from_second(0),
    };
    Operations::new(rig.replica(replica), process)
}

pub(crate) fn traced(
    operations: &Operations,
    kind: &str,
    name: &str,
) -> Result<fedgate_operations::Trace, NoAnswer> {
    operations.trace(&TracedObject {
        project: "p".to_owned(),
        namespace: "default".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    })
}

#[test]
fn all_that_is_well_is_shown_from_memory_alone() {
    simulate(async {
        let mut rig = Rig::new(1, &["p", "q"]);
        rig.start();
        Create("p", "default", "web", "DFW", 2).apply(&mut rig);
        Create("q", "default", "api", "LHR", 1).apply(&mut rig);
        rest(SETTLED).await;
        let operations = operations(&rig);
        rig.simulator.log().clear();
        let header = operations.header();
        assert!(header.complete, "{:?}", header.missing);
        assert_eq!(header.replica.role, ReplicaRole::Alone);
        let overview = operations.overview();
        assert_eq!(overview.health.state, HealthState::Ok, "{:?}", overview.health);
        assert_eq!(overview.deployments.total, 2);
        assert_eq!(
            overview.deployments.federated,
            [("Delivered".to_owned(), 2)].into()
        );
        assert!(overview.stuck.is_empty(), "{:?}", overview.stuck);
        assert_eq!(overview.projects.unwrap().connected, 2);
        assert_eq!(overview.undelivered.len(), 4);
        let text = serde_json::to_string(&overview).unwrap();
        assert!(text.len() < 16 * 1024, "{text}");

        let projects = operations.projects(&Query::default()).unwrap();
        let names: Vec<_> = projects
            .items
            .iter()
            .map(|row| (row.project.as_str(), row.deployments))
            .collect();
        assert_eq!(names, [("p", 1), ("q", 1)]);
        assert_eq!(projects.items[0].cities, ["DFW"]);
        assert!(projects.items[0].worst.is_none(), "{:?}", projects.items[0].worst);
        let cells = operations.cells(&Query::default()).unwrap();
        let dfw = cells
            .items
            .iter()
            .find(|row| row.city.as_deref() == Some("DFW"))
            .unwrap();
        assert_eq!(
            (dfw.projects, dfw.deployments, dfw.instances.existing),
            (1, 1, 2),
            "{dfw:?}"
        );
        let flows = operations.flows(&Query::default()).unwrap();
        let bands: Vec<_> = flows
            .items
            .iter()
            .map(|row| (row.project.as_str(), row.city.as_str(), row.instances))
            .collect();
        assert_eq!(bands, [("p", "DFW", 2), ("q", "LHR", 1)]);
        let flows = operations
            .flows(&Query {
                top: Some(1),
                ..Query::default()
            })
            .unwrap();
        let rest: Vec<_> = flows
            .items
            .iter()
            .map(|row| (row.project.as_str(), row.projects, row.instances))
            .collect();
        assert_eq!(rest, [("p", None, 2), ("*", Some(1), 1)]);
        assert_eq!(operations.stuck(&Query::default()).items, []);
        let (planes, refused) = operations.planes(&Query::default());
        let planes: Vec<_> = planes.items.iter().map(|row| row.plane.as_str()).collect();
        assert_eq!((planes, refused.len()), (vec!["hub", "p", "q"], 0));
        let detail = operations.project("p").unwrap();
        assert!(
            detail
                .namespaces
                .iter()
                .any(|row| row.namespace == "default" && row.hub_namespace.starts_with("ns-"))
        );
        assert!(matches!(
            operations.project("nobody"),
            Err(NoAnswer::Unknown { .. })
        ));
        let cell = operations.cell(&dfw.cell).unwrap();
        assert_eq!(cell.project_names, ["p"]);

        let asked = rig.simulator.log().entries();
        assert!(asked.is_empty(), "answers sent requests: {asked:?}");
        assert_eq!(wrong(&rig), [""; 0]);
    });
}

#[test]
fn a_trace_is_whole_and_the_journal_has_the_writes() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Create("p", "default", "web", "DFW", 2).apply(&mut rig);
        rest(SETTLED).await;
        let operations = operations(&rig);
        rig.simulator.log().clear();
        let trace = traced(&operations, "workloaddeployments", "web").unwrap();
        let hops: Vec<_> = trace.branches[0]
            .hops
            .iter()
            .map(|hop| (hop.hop, hop.state))
            .collect();
        let whole = [
            HopKind::Project,
            HopKind::Hub,
            HopKind::Binding,
            HopKind::Cell,
            HopKind::Instances,
            HopKind::Projection,
        ];
        assert_eq!(hops, whole.map(|hop| (hop, HopState::Ok)), "{trace:#?}");
        assert_eq!((trace.verdict, trace.instances.len()), (Verdict::Whole, 2));
        assert!(
            trace
                .journal
                .iter()
                .any(|row| row.project == "p" && row.result == "ok"),
            "{:?}",
            trace.journal
        );
        for (kind, name) in [
            ("workloaddeployments", "other"),
            ("workloads", "web"),
            ("things", "web"),
        ] {
            assert!(traced(&operations, kind, name).is_err(), "{kind} {name}");
        }
        let journal = operations.journal(&Query {
            project: Some("p".to_owned()),
            ..Query::default()
        });
        assert!(!journal.items.is_empty());
        assert!(
            journal
                .items
                .iter()
                .all(|row| row.project == "p" && row.result == "ok")
        );
        assert!(
            journal.items.windows(2).all(|two| two[0].seq > two[1].seq),
            "newest first"
        );
        let asked = rig.simulator.log().entries();
        assert!(asked.is_empty(), "answers sent requests: {asked:?}");
        assert_eq!(wrong(&rig), [""; 0]);
    });
}

#[test]
fn an_outage_of_the_hub_is_shown_with_what_waits_for_it() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        for name in ["web", "api", "db"] {
            Create("p", "default", name, "DFW", 1).apply(&mut rig);
        }
        rest(SETTLED).await;
        let operations = operations(&rig);
        let hub = rig.simulator.plane(HUB).unwrap();
        hub.set_down(Some(Down::Refused));
        rest(Duration::from_secs(1)).await;
        Scale("p", "default", "web", 2).apply(&mut rig);
        Delete("p", "default", "db").apply(&mut rig);
        rest(Duration::from_mins(3)).await;
        let overview = operations.overview();
        assert_eq!(overview.health.state, HealthState::Degraded);
        let reason = &overview.health.reasons[0];
        assert_eq!(
            (reason.class, reason.plane.as_str(), reason.count),
            (Class::Plane, "hub", 1)
        );
        assert!(reason.since.is_some());
        let waiting = overview.undelivered[&Stage::ProjectToHub];
        assert_eq!(waiting.count, 2, "an edit and a deletion");
        let stuck = operations.stuck(&Query::default());
        let groups: Vec<_> = stuck
            .items
            .iter()
            .map(|group| (group.class, group.count))
            .collect();
        assert_eq!(
            groups[..2],
            [(Class::Plane, 1), (Class::Undelivered, 2)],
            "{:#?}",
            stuck.items
        );
        let trace = traced(&operations, "workloaddeployments", "web").unwrap();
        assert_eq!(trace.verdict, Verdict::Broken);
        let broken = trace.first_broken.unwrap();
        assert_eq!(broken.hop, HopKind::Hub, "{broken:?}");
        let whole = traced(&operations, "workloaddeployments", "api").unwrap();
        assert_eq!(
            whole.verdict,
            Verdict::Whole,
            "at rest nothing of it waits: {whole:#?}"
        );
        hub.set_down(None);
        rest(SETTLED).await;
        let overview = operations.overview();
        assert_eq!(overview.health.state, HealthState::Ok, "{:?}", overview.health);
        assert_eq!(wrong(&rig), [""; 0]);
    });
}

/// A Workload whose deployment the project's admission refuses: its tenant and `fedgate stuck` have the server's words.
#[test]
fn a_deployment_that_its_project_refuses_is_told_on_its_workload_and_in_stuck() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        let denied = Rule::new(When::Always, Fault::Denied)
            .plane("p")
            .verb(Verb::Create)
            .kind("workloaddeployments");
        let rule = rig.simulator.faults().add(denied);
        rig.start();
        Workload("p", "default", "shop", &["DFW"]).apply(&mut rig);
        rest(Duration::from_mins(1)).await;
        let said = |rig: &Rig| {
            let object = rig.projects["p"].get("Workload", "default", "shop").unwrap();
            let mut conditions = object["status"]["conditions"].as_array().unwrap().iter();
            let available = conditions.find(|c| c["type"] == "Available").unwrap();
            (available["reason"].clone(), available["message"].to_string())
        };
        let (reason, message) = said(&rig);
        assert_eq!(reason, "ApplyFailed");
        assert!(
            message.contains("the project refuses deployment shop-main-dfw: ")
                && message.contains("cannot have this"),
            "{message}"
        );
        let stuck = operations(&rig).stuck(&Query::default()).items;
        let items: Vec<_> = stuck.iter().flat_map(|group| &group.items).collect();
        assert!(
            items.len() == 1 && items[0].name == "shop" && items[0].message.contains("cannot have this"),
            "{stuck:?}"
        );
        rig.simulator.faults().remove(rule);
        rest(Duration::from_mins(6)).await;
        assert_ne!(said(&rig).0, "ApplyFailed");
        assert_eq!(operations(&rig).stuck(&Query::default()).items, []);
    });
}

/// A projection that the project's admission refuses.
#[test]
fn an_instance_that_its_project_refuses_is_in_stuck_with_the_projects_words() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        let denied = Rule::new(When::Always, Fault::Denied)
            .plane("p")
            .verb(Verb::Create)
            .kind("instances");
        rig.simulator.faults().add(denied);
        rig.start();
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        rest(Duration::from_mins(1)).await;
        let stuck = operations(&rig).stuck(&Query::default()).items;
        let mut items = stuck.iter().flat_map(|group| &group.items);
        assert!(
            items.any(|item| item.name == "web-0" && item.message.contains("cannot have this")),
            "{stuck:?}"
        );
    });
}
