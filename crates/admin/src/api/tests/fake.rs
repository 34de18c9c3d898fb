//! A role with the rows that a test gives it.

use fedgate_operations::{
    API_VERSION, CellRow, Changes, ErrorAnswer, Header, Instances, JournalRow, NoAnswer, OperationsSource,
    Overview, PlaneRow, PlaneState, ProjectDetail, ProjectRow, RefusedProject, Replica, ReplicaRole, Rows,
    StuckGroup, Time, Trace, TracedObject, Verdict,
    query::{From, Query},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::Receiver,
};

/// The state that a test sets.
#[derive(Default)]
pub(super) struct State {
    pub(super) projects: BTreeMap<String, ProjectRow>,
    pub(super) stuck: Vec<StuckGroup>,
    pub(super) journal: Vec<JournalRow>,
    pub(super) deployments: usize,
    pub(super) changes: Changes,
    pub(super) collects: bool,
    pub(super) questions: Vec<String>,
    /// An overview waits for a word of the test.
    pub(super) block: Option<Receiver<()>>,
}

/// A role.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) state: Mutex<State>,
}

/// A row of a project.
pub(super) fn project(name: &str, deployments: usize) -> ProjectRow {
    ProjectRow {
        project: name.to_owned(),
        state: PlaneState::Connected,
        deployments,
        instances: Instances::default(),
        cities: vec!["DFW".to_owned()],
        worst: None,
        undelivered: 0,
        stuck: 0,
    }
}

/// A write with this number.
pub(super) fn write(seq: u64, project: &str) -> JournalRow {
    JournalRow {
        seq,
        at: Time::from_second(0),
        plane: "hub".to_owned(),
        project: project.to_owned(),
        object: "configmaps default/web".to_owned(),
        verb: "apply".to_owned(),
        reason: "spec changed".to_owned(),
        result: "ok".to_owned(),
        took_ms: 9,
        resource_version: None,
        message: String::new(),
    }
}

impl Fake {
    /// A role with `count` projects.
    pub(super) fn with_projects(count: usize) -> std::sync::Arc<Self> {
        let fake = Self::default();
        for n in 0..count {
            fake.set(&format!("p{n:05}"), n);
        }
        fake.state.lock().changes = Changes::default();
        std::sync::Arc::new(fake)
    }

    /// Changes a project's row.
    pub(super) fn set(&self, name: &str, deployments: usize) {
        let mut state = self.state.lock();
        state.projects.insert(name.to_owned(), project(name, deployments));
        state.changes.projects.insert(name.to_owned());
    }

    /// Takes a project away.
    pub(super) fn remove(&self, name: &str) {
        let mut state = self.state.lock();
        state.projects.remove(name);
        state.changes.projects.insert(name.to_owned());
    }

    /// Adds a write.
    pub(super) fn wrote(&self, seq: u64, project: &str) {
        self.state.lock().journal.insert(0, write(seq, project));
    }

    fn note(&self, question: &impl std::fmt::Debug) {
        self.state.lock().questions.push(format!("{question:?}"));
    }
}

impl OperationsSource for Fake {
    fn header(&self) -> Header {
        Header {
            as_of: Time::from_second(1_000),
            complete: true,
            missing: Vec::new(),
            replica: Replica {
                identity: "gateway-1".to_owned(),
                role: ReplicaRole::Leader,
                leader: Some("gateway-1".to_owned()),
                version: "0.1.0".to_owned(),
                revision: "unknown".to_owned(),
                started_at: Time::from_second(0),
            },
        }
    }

    fn overview(&self) -> Overview {
        let block = self.state.lock().block.take();
        if let Some(block) = block {
            block.recv().unwrap();
        }
        let mut overview = Overview::default();
        overview.deployments.total = self.state.lock().deployments;
        overview
    }

    fn planes(&self, query: &Query) -> (Rows<PlaneRow>, Vec<RefusedProject>) {
        self.note(query);
        (Rows::default(), Vec::new())
    }

    fn stuck(&self, query: &Query) -> Rows<StuckGroup> {
        self.note(query);
        let mut items = self.state.lock().stuck.clone();
        if let Some(project) = &query.project {
            items.retain(|group| group.items.iter().any(|item| item.project == *project));
        }
        Rows {
            items,
            ..Rows::default()
        }
    }

    fn journal(&self, query: &Query) -> Rows<JournalRow> {
        let state = self.state.lock();
        let mut items: Vec<_> = state.journal.clone();
        items.retain(|row| query.after.is_none_or(|after| row.seq > after));
        items.retain(|row| {
            query
                .project
                .as_ref()
                .is_none_or(|project| row.project == *project)
        });
        if let From::After(seq) = &query.page.from {
            let seq: u64 = seq.parse().unwrap();
            items.retain(|row| row.seq < seq);
        }
        let remaining = items.len().saturating_sub(query.page.limit);
        items.truncate(query.page.limit);
        let next = items.last().map(|row| From::After(row.seq.to_string()));
        Rows {
            items,
            next: next.filter(|_| remaining > 0),
            remaining,
        }
    }

    fn projects(&self, query: &Query) -> Result<Rows<ProjectRow>, NoAnswer> {
        self.note(query);
        let state = self.state.lock();
        let after = |row: &&ProjectRow| match &query.page.from {
            From::After(name) => row.project > *name,
            From::Start | From::Skip(_) => true,
        };
        let skipped = match query.page.from {
            From::Skip(rows) => rows,
            _ => 0,
        };
        let rest: Vec<_> = state
            .projects
            .values()
            .filter(after)
            .skip(skipped)
            .cloned()
            .collect();
        let limit = query.page.limit.min(rest.len());
        Ok(Rows {
            items: rest[..limit].to_vec(),
            next: (limit < rest.len()).then(|| match query.sort {
                fedgate_operations::query::Sort::Name => From::After(rest[limit - 1].project.clone()),
                _ => From::Skip(skipped + limit),
            }),
            remaining: rest.len() - limit,
        })
    }

    fn project(&self, project: &str) -> Result<ProjectDetail, NoAnswer> {
        let row = self.state.lock().projects.get(project).cloned();
        let row = row.ok_or_else(|| NoAnswer::Unknown {
            message: format!("there is no project {project:?}"),
            next: "see /api/v1/projects".to_owned(),
        })?;
        Ok(ProjectDetail {
            row,
            namespaces: Vec::new(),
            stuck_objects: Vec::new(),
        })
    }

    fn project_rows(&self, projects: &BTreeSet<String>) -> Vec<ProjectRow> {
        let state = self.state.lock();
        projects
            .iter()
            .filter_map(|name| state.projects.get(name).cloned())
            .collect()
    }

    fn cell_rows(&self, _cells: &BTreeSet<String>) -> Vec<CellRow> {
        Vec::new()
    }

    fn trace(&self, object: &TracedObject) -> Result<Trace, NoAnswer> {
        Ok(Trace {
            object: object.clone(),
            verdict: Verdict::Whole,
            first_broken: None,
            branches: Vec::new(),
            instances: Vec::new(),
            journal: Vec::new(),
        })
    }

    fn collect_changes(&self, on: bool) {
        let mut state = self.state.lock();
        state.collects = on;
        state.changes = Changes::default();
    }

    fn take_changes(&self) -> Changes {
        std::mem::take(&mut self.state.lock().changes)
    }
}

/// The document of an error, checked.
pub(super) fn error(document: &serde_json::Value) -> ErrorAnswer {
    let error: ErrorAnswer = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(
        (error.api_version.as_str(), error.kind.as_str()),
        (API_VERSION, "Error")
    );
    assert!(!error.message.is_empty() && !error.next.is_empty(), "{error:?}");
    let plain = |text: &str| !text.chars().any(char::is_control);
    assert!(plain(&error.message) && plain(&error.next), "{error:?}");
    error
}
