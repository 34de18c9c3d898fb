//! A cell: its API server, and `fedgate cell` as a separate process under its own users.

use super::{audit::AuditLog, credentials::with_server, line::Line, plane::Plane, role::Role};
use anyhow::{Context, Result};
use fedgate_sandbox::{Sandbox, User};
use serde_json::Value;
use std::{ffi::OsString, ops::Deref, path::Path};
use tokio::sync::Mutex;

/// One cell, which tests may stop, kill, cut off and start again.
pub(crate) struct CellRole {
    pub(crate) name: String,
    /// Its API server, as administrator.
    pub(crate) plane: Plane,
    /// What was asked of its API server.
    pub(crate) log: AuditLog,
    role: Role,
    arguments: Vec<OsString>,
    /// Where it asks for quota, unless a test says otherwise.
    directory: Vec<OsString>,
    /// Given in place of the usual flags, by a test that runs it in another way.
    further: Mutex<Vec<OsString>>,
    /// Its way to the hub, and its ways to the projects.
    pub(crate) hub: Option<Line>,
    pub(crate) quota: Vec<Line>,
}

impl Deref for CellRole {
    type Target = Role;

    fn deref(&self) -> &Role {
        &self.role
    }
}

/// A kubeconfig like that at `from`, whose connections go through a line.
pub(crate) async fn through_a_line(from: &Path, to: &Path) -> Result<Line> {
    let text = std::fs::read_to_string(from).with_context(|| format!("read {}", from.display()))?;
    let config: Value = serde_saphyr::from_str(&text).with_context(|| format!("read {}", from.display()))?;
    let server = config["clusters"][0]["cluster"]["server"].as_str();
    let server = server.and_then(|server| server.strip_prefix("https://"));
    let server = server
        .with_context(|| format!("{} names no server", from.display()))?
        .to_owned();
    let line = Line::to(server).await.context("open a line")?;
    let config = with_server(from, line.address);
    std::fs::write(to, config).with_context(|| format!("write {}", to.display()))?;
    Ok(line)
}

impl CellRole {
    fn new(sandbox: &Sandbox, name: &str, dir: &Path, arguments: &[&str]) -> Result<Self> {
        let admin = sandbox
            .client(name, User::Admin)
            .with_context(|| format!("connect to {name}"))?;
        let own = sandbox.kubeconfig(name, User::Cell(name));
        let mut all: Vec<OsString> = vec!["cell".into(), "--cell-kubeconfig".into(), own.into()];
        all.extend(arguments.iter().map(Into::into));
        Ok(Self {
            plane: Plane::new(name, admin),
            log: AuditLog::new(&sandbox.audit_log(name)),
            role: Role::new(&format!("cell {name}"), dir.join(format!("{name}.log"))),
            arguments: all,
            directory: Vec::new(),
            further: Mutex::default(),
            hub: None,
            quota: Vec::new(),
            name: name.to_owned(),
        })
    }

    /// A member of the hub, with quota in these projects.
    pub(crate) async fn member(sandbox: &Sandbox, name: &str, dir: &Path, projects: &[&str]) -> Result<Self> {
        let mut cell = Self::new(sandbox, name, dir, &["--name", name, "--networking"])?;
        let hub = dir.join(format!("{name}-hub.yaml"));
        cell.hub = Some(through_a_line(&sandbox.kubeconfig("hub", User::Cell(name)), &hub).await?);
        let quota = dir.join(format!("{name}-quota"));
        std::fs::create_dir_all(&quota).with_context(|| format!("create {}", quota.display()))?;
        for project in projects {
            let from = sandbox.kubeconfig(project, User::Quota(name));
            let line = through_a_line(&from, &quota.join(format!("{project}.yaml"))).await?;
            cell.quota.push(line);
        }
        cell.arguments.extend(["--hub-kubeconfig".into(), hub.into()]);
        cell.directory = vec!["--quota-directory".into(), quota.into()];
        Ok(cell)
    }

    /// A member that logs in to the hub with the credential in a file, in a city that it is told.
    pub(crate) fn joined(sandbox: &Sandbox, name: &str, dir: &Path, hub: &Path, city: &str) -> Result<Self> {
        let mut cell = Self::new(
            sandbox,
            name,
            dir,
            &["--name", name, "--location", &city.to_lowercase(), "--city", city],
        )?;
        cell.arguments.extend(["--hub-kubeconfig".into(), hub.into()]);
        Ok(cell)
    }

    /// A cell that stands alone: one API server for everything, in a city that it is told.
    pub(crate) fn standalone(sandbox: &Sandbox, name: &str, dir: &Path, city: &str) -> Result<Self> {
        Self::new(
            sandbox,
            name,
            dir,
            &["--location", &city.to_lowercase(), "--city", city],
        )
    }

    /// The users under which audit logs name it: on cells and hub, and in projects.
    pub(crate) fn users(&self) -> [String; 2] {
        [
            format!("fedgate-cell-{}", self.name),
            format!("fedgate-quota:{}", self.name),
        ]
    }

    pub(crate) async fn start(&self) {
        let mut arguments = self.arguments.clone();
        let further = self.further.lock().await.clone();
        if !further.iter().any(|flag| flag == "--quota-kubeconfig") {
            arguments.extend(self.directory.iter().cloned());
        }
        arguments.extend(further);
        self.role.spawn(&arguments).await;
        self.role.ready().await;
    }

    pub(crate) async fn restart(&self) {
        self.role.stop().await;
        self.start().await;
    }

    /// Starts it anew with these flags beside its own.
    pub(crate) async fn restart_with(&self, flags: &[&str]) {
        *self.further.lock().await = flags.iter().map(Into::into).collect();
        self.restart().await;
    }

    /// Cuts its ways to the hub and to all projects.
    pub(crate) fn cut_off(&self) {
        self.lines().for_each(Line::cut);
    }

    /// Restores its ways to the hub and to all projects.
    pub(crate) fn restore(&self) {
        self.lines().for_each(Line::restore);
    }

    fn lines(&self) -> impl Iterator<Item = &Line> {
        self.hub.iter().chain(&self.quota)
    }
}
