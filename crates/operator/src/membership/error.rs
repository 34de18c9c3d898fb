//! Errors of requests, with the next step of an administrator (contract: provisioning.md §8).

use fedgate_kubeconfig::root;
use fedgate_terminal::error::{Error, Kind};

const STALE: &str = "another client changes the object all the time; run the command again";
const CONFLICT: &str = "let the owner of the field give it up or set the same value, then run the command again; nothing \
                        was overwritten. --skip-crds leaves CustomResourceDefinitions to their owner";

/// The refusal of an object that is not ours to change.
pub fn foreign(title: &str) -> Error {
    Error::refused(format!("{title} was made by another program"))
}

/// The error of a request: `what` was tried on a plane.
pub fn of_request(error: &kube::Error, what: &str) -> Error {
    let failed = |kind| Error::new(kind, format!("cannot {what}"));
    let kube::Error::Api(status) = error else {
        return failed(Kind::Failed)
            .because(root(error))
            .next("check the server's address in the kubeconfig, the network and the server itself");
    };
    let causes = || status.details.iter().flat_map(|details| &details.causes);
    let fields: Vec<String> = causes()
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    let is_ending = causes().any(|cause| cause.reason == "NamespaceTerminating");
    let is_stale = is_ending || status.reason == "Conflict" && fields.is_empty();
    let (kind, next) = match status.code {
        401 | 403 | 404 | 409 if is_stale => (Kind::Stale, STALE),
        401 => (
            Kind::Forbidden,
            "give a kubeconfig whose credential the server accepts",
        ),
        403 => (Kind::Forbidden, "use an administrator's kubeconfig"),
        404 => (
            Kind::NotFound,
            "apply the manifests of this plane: fedgate manifests",
        ),
        409 => (Kind::Conflict, CONFLICT),
        _ => return failed(Kind::Failed).because(&status.message),
    };
    let cause = if fields.is_empty() {
        status.message.clone()
    } else {
        fields.join("; ")
    };
    failed(kind).because(cause).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use serde_json::json;

    #[test]
    fn a_conflict_names_field_and_owner_and_the_next_step() {
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "code": 409, "reason": "Conflict", "message": "Apply failed with 1 conflict",
            "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".rules",
                                    "message": "conflict with \"kubectl\" using v1"}]}
        }))
        .unwrap();
        let error = of_request(
            &kube::Error::Api(Box::new(status)),
            "apply ClusterRole x on cell dfw-1",
        );
        assert_eq!(error.kind.exit(), 5);
        let text = error.to_string();
        for part in [
            "ClusterRole x on cell dfw-1",
            ".rules: conflict with \"kubectl\"",
            "next: let the owner",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_namespace_that_ends_is_no_missing_permission() {
        let refused = |causes: serde_json::Value| {
            let status: Status = serde_json::from_value(json!({
                "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no", "details": {"causes": causes}
            }))
            .unwrap();
            of_request(&kube::Error::Api(Box::new(status)), "create Secret a/b").kind
        };
        assert_eq!(refused(json!([])), Kind::Forbidden);
        assert_eq!(refused(json!([{"reason": "NamespaceTerminating"}])), Kind::Stale);
    }
}
