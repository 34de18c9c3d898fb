//! The result of a run: a finding for each check, as text or JSON, and the exit code.

use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;

/// Verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No problem.
    Ok,
    /// Undecidable from here, or no problem yet.
    Open,
    /// A problem.
    Fail,
}

fedgate_engine::words! {
    /// A check; its name is interface.
    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Check {
        /// The API server answers.
        Reach = "reach",
        /// Its clock agrees with the one here.
        Clock = "clock",
        /// The credential is read, accepted and lasts.
        Credential = "credential",
        /// Its Kubernetes is new enough, and no newer than those that were tested.
        Version = "version",
        /// All kinds are served.
        Kinds = "kinds",
        /// The definitions of our kinds are those of this executable.
        Definitions = "definitions",
        /// The user has the rights of the shipped roles.
        #[serde(rename = "rights")]
        Permissions = "rights",
        /// Karmada's webhook acts.
        Webhook = "webhook",
        /// The admission policies of `manifests/hub` are there and deny.
        Admission = "admission",
        /// Each Cluster has a city and is ready, as the gateway sees it, and none has the name of no member.
        Cells = "cells",
        /// The hub's proxy lets the gateway ask each member whether a deleted object is gone.
        Members = "members",
        /// No Work that is being deleted keeps its object, and with it its Cluster.
        Works = "works",
        /// A cell's user on the hub is the one of its Cluster.
        CellLogin = "cell-login",
        /// Karmada's kinds have the fields that fedgate writes.
        Karmada = "karmada",
        /// Karmada propagates dependencies.
        PropagateDeps = "propagate-deps",
        /// Karmada does not propagate Instances.
        SkippedPropagatingApis = "skipped-propagating-apis",
        /// Karmada retries within half a minute.
        RetryDelay = "retry-delay",
        /// A replica of the gateway leads, all are of one version, and nothing is degraded.
        Gateway = "gateway",
    }
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The plane that was asked, e.g. `project alpha`.
    pub plane: String,
    /// The check.
    pub check: Check,
    /// How the check ended.
    pub verdict: Verdict,
    /// The result.
    pub text: String,
    /// The next step; empty if none is needed.
    pub next: String,
    /// True if the plane gave no answer, or refused the credential.
    #[serde(skip)]
    pub absent: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.verdict {
            Verdict::Ok => "ok  ",
            Verdict::Open => "?   ",
            Verdict::Fail => "FAIL",
        };
        write!(f, "{word} {} {}: {}", self.plane, self.check.as_str(), self.text)?;
        if self.next.is_empty() {
            Ok(())
        } else {
            write!(f, "; {}", self.next)
        }
    }
}

/// All findings of a run, those of a plane together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Report {
    fn count(&self, verdict: Verdict) -> usize {
        self.findings.iter().filter(|f| f.verdict == verdict).count()
    }

    /// The exit code: 3 if a plane was absent, else 1 if a check failed or, with `strict`, is open.
    pub fn exit_code(&self, strict: bool) -> u8 {
        let failed = self.count(Verdict::Fail) > 0 || strict && self.count(Verdict::Open) > 0;
        if self.findings.iter().any(|f| f.absent) {
            3
        } else {
            u8::from(failed)
        }
    }

    /// The report as a JSON object.
    pub fn json(&self) -> Value {
        let [ok, open, fail] = [Verdict::Ok, Verdict::Open, Verdict::Fail].map(|verdict| self.count(verdict));
        json!({
            "apiVersion": "doctor.fedgate.dev/v1",
            "findings": self.findings,
            "counts": {"ok": ok, "open": open, "fail": fail},
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings
            .iter()
            .try_for_each(|finding| writeln!(f, "{finding}"))
    }
}
