//! The next step for each group of stuck objects.

use super::stuck::INTRUDER;
use fedgate_engine::error::Category;
use fedgate_gateway::index::{NO_PROJECT_UID, OTHER_HUB, derived::known_plane};
use fedgate_operations::Class;

/// The word of a project that is suspended.
const SUSPENDED: &str = Category::ProjectSuspended.as_str();

/// The next step for a class, a kind of plane, and a word.
pub(super) fn next_step(class: Class, plane: &str, word: &str) -> String {
    let step = step(class, plane, word);
    match runbook(class, plane, word) {
        Some(alert) => format!("{step}; docs/runbooks/{alert}.md"),
        None => step,
    }
}

/// The alert whose runbook goes on from the next step.
pub(super) fn runbook(class: Class, plane: &str, word: &str) -> Option<&'static str> {
    let alert = match (class, plane, word) {
        (Class::Plane, _, "refused" | "other_hub" | "plane_is_hub" | "plane_is_cell" | "plane_is_taken") => {
            "FedgateProjectRefused"
        }
        (Class::Plane, _, "credential_expired") => "FedgateCredentialExpiresToday",
        (Class::Plane, "hub", _) => "FedgateHubDisconnected",
        (Class::Plane, ..) => "FedgateProjectsDisconnected",
        (Class::Right, ..) => "FedgateMissingRight",
        (Class::Brake, _, INTRUDER) => return None,
        (Class::Brake, _, "drift") => "FedgateInterpreterDrift",
        (Class::Brake, _, "cells") => "FedgateMovesHeld",
        (Class::Brake, ..) => "FedgateGarbageBrake",
        (Class::Quarantined, ..) => "FedgateQuarantine",
        (Class::Refused, _, "NoCellForCity") => "FedgateCityWithoutCell",
        (Class::Refused, _, "CellLost") => "FedgateCellNotReady",
        (Class::Waiting, _, SUSPENDED) | (Class::Refused | Class::Unavailable, ..) => return None,
        (Class::Retrying | Class::Waiting, ..) => "FedgateStuckKeys",
        (Class::Undelivered, _, "project_to_hub") => "FedgateUndelivered",
        (Class::Undelivered, _, "hub_to_cell") => "FedgateCellDelivery",
        (Class::Undelivered, ..) => "FedgateNotReturned",
        (Class::Deleting, ..) => "FedgateStuckDeletion",
        (Class::Orphan, ..) => "FedgateOrphans",
    };
    Some(alert)
}

fn step(class: Class, plane: &str, word: &str) -> String {
    let step = match (class, word) {
        (Class::Plane, _) => return of_plane(plane, word),
        (Class::Right, _) => {
            return format!("apply manifests/{plane} on this plane and bind its roles: {word} is denied");
        }
        (Class::Retrying, _) => {
            return format!(
                "fedgate trace an object of the group, then see the log of the {plane}'s API server"
            );
        }
        (Class::Brake, "projections") => {
            "the hub lost many write-backs at once: check whether it was restored; the projections stay until the cells report again"
        }
        (Class::Brake, "platform") => {
            "check that this hub is of the platform whose projects the gateway serves, and that the platform's state is its latest: --hub-kubeconfig, --discovery-kubeconfig; fedgate stuck --class brake -o wide names these projects, of which nothing is changed before"
        }
        (Class::Brake, INTRUDER) => {
            "give its resourceSelectors a namespace, a name or a label of its owner's objects, on the hub; what it has taken to clusters, Karmada takes back"
        }
        (Class::Brake, "drift") => {
            "another client changes the ResourceInterpreterCustomizations: kubectl get ric -o yaml --show-managed-fields on the hub"
        }
        (Class::Brake, "cells") => {
            "find out which cells are gone, then run fedgate cells drain for each of them; its deployments move, and those of another held cell may move with them"
        }
        (Class::Brake, _) => {
            "too many copies have no origin: check whether a project was restored or removed; docs/contract/federation.md says when the brake ends"
        }
        (Class::Quarantined, _) => {
            "fedgate trace each object; the verdict is in the log of the gateway and in an Event in the project"
        }
        (Class::Refused, "NoCellForCity") => {
            "join a cell in that city, or tell the tenant: kubectl get clusters --show-labels on the hub"
        }
        (Class::Refused, "CellLost") => {
            "bring the cell back, or join another one in that city: the deployment goes there by itself"
        }
        (Class::Refused, "NoCellForLocation") => {
            "label the Cluster of that location's cell on the hub with topology.datum.net/location, beside its city: the condition says what is missing"
        }
        (Class::Refused, "HubNameTaken") => "another object has the name on the hub: remove or rename it",
        (Class::Refused, "HubNamespaceClaimed") => {
            "two projects have the same namespace UID: disengage the copy, or reassign the hub namespace (docs/security.md)"
        }
        (Class::Refused, "HubRefused") => "the hub's admission rejects the object: the message says why",
        (Class::Refused, "ApplyFailed") => {
            "a cell rejects the object: the message says why; kubectl describe resourcebinding on the hub"
        }
        (Class::Refused, "EndedByMember") => {
            "a controller of the member deletes the object each time that Karmada has made it, as an expired lease does: see its log there; then the tenant edits the object's spec, or deletes it"
        }
        (Class::Refused, _) => "the tenant's matter: the condition Federated says what to change",
        (Class::Undelivered, "project_to_hub") => {
            "fedgate trace an object of the group; if many wait: fedgate status, and hub_limits in /debug/planes"
        }
        (Class::Undelivered, "hub_to_cell") => {
            "Karmada has not delivered: fedgate trace an object of the group, then see the log of karmada-controller-manager"
        }
        (Class::Undelivered, "hub_status_to_project") => {
            "fedgate trace an object of the group: the project lacks a status that the hub has"
        }
        (Class::Undelivered, _) => {
            "fedgate trace an object of the group: the project lacks an Instance that a cell wrote back"
        }
        (Class::Waiting, SUSPENDED) => {
            "nothing: the platform suspends the project, and its writes go on when that ends"
        }
        (Class::Waiting, _) => "fedgate trace an object of the group: its next attempt follows a change",
        (Class::Deleting, _) => {
            "check the cells that have not confirmed: fedgate stuck --class plane, kubectl get clusters on the hub"
        }
        (Class::Orphan, _) => {
            "wait for --orphan-after, or fix the project if its objects should exist; see garbageBrakes in /debug/planes"
        }
        (Class::Unavailable, _) => {
            "the tenant's or the cell's matter: fedgate trace shows the hop; kubectl compute describe shows the Instances"
        }
    };
    step.to_owned()
}

fn of_plane(plane: &str, word: &str) -> String {
    let file = match plane {
        "hub" => "the file of --hub-kubeconfig",
        "cell" => "the kubeconfig of the cell",
        _ => "the project's kubeconfig",
    };
    match word {
        "refused" => format!("correct {file} as the message says: fedgate doctor --project-kubeconfig FILE"),
        "credential_expired" | "unauthorized" => format!("renew the credential in {file}; it is taken up without a restart"),
        word if word == NO_PROJECT_UID.word => NO_PROJECT_UID.next.to_owned(),
        word if word == OTHER_HUB.word => OTHER_HUB.next.to_owned(),
        "plane_is_hub" | "plane_is_cell" | "plane_is_taken" => known_plane::NEXT.to_owned(),
        "not_served" => "install the CustomResourceDefinitions on this plane: kubectl apply --server-side -f manifests/crds".to_owned(),
        "throttled" => "give the gateway's user a FlowSchema of its own: kubectl apply --server-side -f manifests/project/flow-control".to_owned(),
        _ => format!("check clusters[].cluster.server in {file}, the network and the API server itself"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_runbook_exists() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbooks");
        let words = [
            "refused",
            "other_hub",
            "plane_is_hub",
            "credential_expired",
            "unreachable",
            "drift",
            "cells",
            "CellLost",
            "platform",
            "projections",
            "NoCellForCity",
            "project_to_hub",
            "hub_to_cell",
            "writeback_to_projection",
        ];
        for &class in Class::ALL {
            for plane in ["hub", "project"] {
                for word in words {
                    let step = next_step(class, plane, word);
                    let Some(alert) = runbook(class, plane, word) else {
                        assert!(!step.contains("docs/runbooks"), "{step}");
                        continue;
                    };
                    assert!(folder.join(format!("{alert}.md")).is_file(), "{alert}");
                    assert!(step.ends_with(&format!("docs/runbooks/{alert}.md")), "{step}");
                }
            }
        }
    }
}
