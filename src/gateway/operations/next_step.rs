//! The next step for each group of stuck objects.

use fedgate_operations::{Class, Stage};

/// The next step for a class, a kind of plane, and a word.
pub(super) fn next_step(class: Class, plane: &str, word: &str) -> String {
    match class {
        Class::Plane => of_plane(plane, word),
        Class::Right => format!("apply manifests/{plane} on this plane and bind its roles: {word} is denied"),
        Class::Brake => of_brake(word).to_owned(),
        Class::Quarantined => {
            "fedgate trace each object; the verdict is in the log of the gateway and in an Event in the project".to_owned()
        }
        Class::Refused => of_refused(word).to_owned(),
        Class::Retrying => {
            format!("fedgate trace an object of the group, then see the log of the {plane}'s API server")
        }
        Class::Undelivered => of_stage(word).to_owned(),
        Class::Waiting => "fedgate trace an object of the group: its next attempt follows a change".to_owned(),
        Class::Deleting => {
            "check the cells that have not confirmed: fedgate stuck --class plane, kubectl get clusters on the hub".to_owned()
        }
        Class::Orphan => {
            "wait for --orphan-after, or fix the project if its objects should exist; see garbageBrakes in /debug/planes".to_owned()
        }
        Class::Unavailable => {
            "the tenant's or the cell's matter: fedgate trace shows the hop; kubectl compute describe shows the Instances".to_owned()
        }
    }
}

fn of_plane(plane: &str, word: &str) -> String {
    let file = match plane {
        "hub" => "the file of --hub-kubeconfig",
        "cell" => "the kubeconfig of the cell",
        _ => "the project's kubeconfig",
    };
    match word {
        "refused" => format!("mend {file} as the message says: fedgate doctor --project-kubeconfig FILE"),
        "credential_expired" | "unauthorized" => format!("renew the credential in {file}; it is taken up without a restart"),
        "not_served" => "install the CustomResourceDefinitions on this plane: kubectl apply --server-side -f manifests/crds".to_owned(),
        _ => format!("check clusters[].cluster.server in {file}, the network and the API server itself"),
    }
}

fn of_brake(word: &str) -> &'static str {
    match word {
        "projections" => {
            "the hub lost many write-backs at once: check whether it was restored; the projections stay until the cells report again"
        }
        "drift" => {
            "another client changes the ResourceInterpreterCustomizations: kubectl get ric -o yaml --show-managed-fields on the hub"
        }
        _ => {
            "too many copies have no origin: check whether a project was restored or removed; docs/contract/federation.md says when the brake ends"
        }
    }
}

fn of_refused(word: &str) -> &'static str {
    match word {
        "NoCellForCity" => {
            "join a cell in that city, or tell the tenant: kubectl get clusters --show-labels on the hub"
        }
        "HubNameTaken" => "another object has the name on the hub: remove or rename it",
        "HubNamespaceClaimed" => {
            "two projects have the same namespace UID: disengage the copy, or reassign the hub namespace (docs/security.md)"
        }
        "HubRefused" => "the hub's admission rejects the object: the message says why",
        "ApplyFailed" => {
            "a cell rejects the object: the message says why; kubectl describe resourcebinding on the hub"
        }
        _ => "the tenant's matter: the condition Federated says what to change",
    }
}

fn of_stage(word: &str) -> &'static str {
    let stage = Stage::ALL.into_iter().find(|stage| stage.as_str() == word);
    match stage {
        Some(Stage::ProjectToHub) => {
            "fedgate trace an object of the group; if many wait: fedgate status, and hub_limits in /debug/planes"
        }
        Some(Stage::HubToCell) => {
            "Karmada has not delivered: fedgate trace an object of the group, then see the log of karmada-controller-manager"
        }
        Some(Stage::HubStatusToProject) => {
            "fedgate trace an object of the group: the project lacks a status that the hub has"
        }
        Some(Stage::WritebackToProjection) | None => {
            "fedgate trace an object of the group: the project lacks an Instance that a cell wrote back"
        }
    }
}
