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

macro_rules! checks {
    ($($check:ident $name:literal $meaning:literal,)*) => {
        /// A check; its name is interface.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub enum Check {
            $(#[doc = $meaning] #[serde(rename = $name)] $check,)*
        }

        impl Check {
            /// All checks.
            pub const ALL: &'static [Self] = &[$(Self::$check,)*];

            /// The stable name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$check => $name,)*
                }
            }
        }
    };
}

checks! {
    Reach "reach" "The API server answers.",
    Clock "clock" "Its clock agrees with the one here.",
    Credential "credential" "The credential is read, accepted and lasts.",
    Version "version" "Its Kubernetes is new enough, and no newer than those that were tested.",
    Kinds "kinds" "All kinds are served.",
    Definitions "definitions" "The definitions of our kinds are those of this executable.",
    Permissions "rights" "The user has the rights of the shipped roles.",
    Webhook "webhook" "Karmada's webhook acts.",
    Admission "admission" "The admission policies of `manifests/hub` are there and deny.",
    Cells "cells" "Each Cluster has a city and is ready, as the gateway sees it, and none has the name of no member.",
    Members "members" "The hub's proxy lets the gateway ask each member whether a deleted object is gone.",
    Works "works" "No Work that is being deleted keeps its object, and with it its Cluster.",
    CellLogin "cell-login" "A cell's user on the hub is the one of its Cluster.",
    Karmada "karmada" "Karmada's kinds have the fields that fedgate writes.",
    PropagateDeps "propagate-deps" "Karmada propagates dependencies.",
    SkippedPropagatingApis "skipped-propagating-apis" "Karmada does not propagate Instances.",
    RetryDelay "retry-delay" "Karmada retries within half a minute.",
    Gateway "gateway" "A replica of the gateway leads, all are of one version, and nothing is degraded.",
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
        write!(f, "{word} {} {}: {}", self.plane, self.check.name(), self.text)?;
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
