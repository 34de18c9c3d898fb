//! The findings that the cell adds: the object that Karmada has delivered, and each Instance.

use super::{Beside, Evidence, Finding, Findings, Proof, Source};
use crate::view::{Instances, Object};

/// Annotation of Karmada on a delivered object: the generation of the hub's object that it carries.
const DELIVERED_GENERATION: &str = "resourcetemplate.karmada.io/generation";

/// The objects of the project's namespace in a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CellView {
    /// Name of the cell, as it was reached.
    pub(crate) name: String,
    /// The deployments that Karmada has delivered.
    pub(crate) deployments: Vec<Object>,
    /// Their Instances.
    pub(crate) instances: Instances,
}

/// Adds the cell's proofs.
pub(super) fn refine(findings: &mut Findings, evidence: &Evidence<'_>, deployment: &Object) {
    let view = match evidence.cell {
        Beside::NotNamed(_) => return,
        Beside::Unreadable(cause) => {
            if findings.cell.proof == Proof::NotYet {
                findings.cell.detail = format!("{}; {cause}", findings.cell.detail);
            }
            return;
        }
        Beside::Read(view) => view,
    };
    let finding = Finding::new(Source::Cell, format!("{}/{}", view.name, deployment.name()));
    let delivered = view
        .deployments
        .iter()
        .find(|found| found.name() == deployment.name());
    let Some(delivered) = delivered else {
        let known = &findings.cell;
        // A cluster that is not ready is the reason, and says so already.
        if known.proof != Proof::Refused {
            findings.cell = if known.source == Source::Hub {
                finding.not_yet(known.since, format!("not in the cell; {}", known.detail))
            } else {
                finding.not_yet(deployment.spec_written(), "not in the cell")
            };
        }
        return;
    };
    if findings.cell.proof == Proof::NotYet {
        let detail = match lag(evidence, delivered) {
            Some(lag) => lag,
            None => format!("delivered; {}", findings.cell.detail),
        };
        findings.cell = Finding {
            generation: findings.cell.generation,
            ..finding
        }
        .not_yet(findings.cell.since, detail);
    }
    instances(findings, view, deployment);
}

/// The generation of the hub that the cell lacks.
fn lag(evidence: &Evidence<'_>, delivered: &Object) -> Option<String> {
    let Beside::Read(hub) = evidence.hub else {
        return None;
    };
    let copy = hub.copy(delivered.name())?;
    let has = delivered.0["metadata"]["annotations"][DELIVERED_GENERATION].as_str()?;
    (has != copy.generation().to_string())
        .then(|| format!("has generation {has} of the hub, not {}", copy.generation()))
}

/// Names the gates and reasons of the Instances that are not ready.
fn instances(findings: &mut Findings, view: &CellView, deployment: &Object) {
    if findings.instances.proof != Proof::NotYet {
        return;
    }
    let unready: Vec<String> = view
        .instances
        .of(deployment.name())
        .iter()
        .filter_map(|instance| {
            let gates = instance.list("/spec/controller/schedulingGates").iter();
            let gates: Vec<&str> = gates.filter_map(|gate| gate["name"].as_str()).collect();
            let ready = instance.condition("Ready");
            match (gates.is_empty(), ready) {
                (false, _) => Some(format!("{}: gates {}", instance.name(), gates.join(", "))),
                (true, Some(ready)) if !ready.holds() => {
                    Some(format!("{}: {}", instance.name(), ready.reason))
                }
                (true, _) => None,
            }
        })
        .collect();
    if !unready.is_empty() {
        findings.instances.detail = unready.join("; ");
        findings.instances.source = Source::Cell;
    }
}
