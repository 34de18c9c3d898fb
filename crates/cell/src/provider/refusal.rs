//! Rejections by the API server, as messages for the author of the template.

use crate::{conditions::REFUSES, index::tables::TableId};
use fedgate_engine::error::{Category, Failure};

/// True if the failed request was for an object of this table.
pub fn is_of(failure: &Failure, table: TableId) -> bool {
    let named = failure.object.split_once(' ').map(|(kind, _)| kind.to_owned());
    named == Some(table.kind().to_string())
}

/// Message why the API server rejects a Pod, Service or `NetworkPolicy`; `None` for a failure that may be transient.
/// `is_denied` is true if the executor held the request back because the cell lacks the right.
pub fn of(failure: &Failure, is_denied: bool) -> Option<String> {
    let table = TableId::PROVIDER
        .into_iter()
        .find(|table| is_of(failure, *table))?;
    let what = table.resource().kind;
    match failure.category {
        Category::Refused => Some(format!("{REFUSES} the {what}: {}", failure.message)),
        Category::Server => {
            let webhook = webhook(&failure.message)?;
            Some(format!(
                "{REFUSES} the {what}: its webhook {webhook} does not answer; the cell's operator has to correct it"
            ))
        }
        _ if is_denied || failure.category == Category::Forbidden => Some(format!(
            "the cell has no right to make the {what}; its operator applies manifests/cell/provider-role.yaml"
        )),
        _ => None,
    }
}

/// Longest name of a webhook in a message, in characters.
const WEBHOOK: usize = 128;

/// Name of a webhook that the API server could not call. The rest of the server's text has addresses of the cell.
fn webhook(message: &str) -> Option<String> {
    let (_, named) = message.split_once("failed calling webhook \"")?;
    let (name, _) = named.split_once('"')?;
    Some(name.chars().take(WEBHOOK).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_engine::key::Plane;
    use std::time::Duration;

    fn failure(category: Category, table: TableId, message: &str) -> Failure {
        Failure {
            plane: Plane::Cell,
            verb: "create",
            object: format!("{} ns-a1/web-0", table.kind()),
            category,
            message: message.to_owned(),
            retry_after: Duration::ZERO,
        }
    }

    #[test]
    fn what_a_server_refuses_is_passed_on_and_what_may_pass_by_itself_is_not() {
        let why = |category, table| {
            let failure = failure(category, table, "violates PodSecurity \"restricted:latest\"");
            of(&failure, false)
        };
        assert_eq!(
            why(Category::Refused, TableId::Pods).unwrap(),
            "the cell's API server refuses the Pod: violates PodSecurity \"restricted:latest\""
        );
        let service = why(Category::Refused, TableId::Services).unwrap();
        assert!(
            service.starts_with("the cell's API server refuses the Service: "),
            "{service}"
        );
        let policy = why(Category::Refused, TableId::NetworkPolicies).unwrap();
        assert!(policy.contains("refuses the NetworkPolicy: "), "{policy}");
        let right = why(Category::Forbidden, TableId::Pods).unwrap();
        assert!(right.contains("no right to make the Pod"), "{right}");
        assert_eq!(why(Category::Refused, TableId::Instances), None);
        for passing in [
            Category::Timeout,
            Category::Server,
            Category::Throttled,
            Category::Conflict,
        ] {
            assert_eq!(why(passing, TableId::Pods), None);
        }
    }

    #[test]
    fn a_webhook_that_does_not_answer_is_named_without_the_cells_addresses() {
        let text = "Internal error occurred: failed calling webhook \"pods.policy.example.com\": failed to call webhook: \
                    Post \"https://policy.ops.svc:443/pods\": dial tcp 10.0.0.7:443: connect: connection refused";
        let why = of(&failure(Category::Server, TableId::Pods, text), false);
        let expected = "the cell's API server refuses the Pod: its webhook pods.policy.example.com does not answer; \
                        the cell's operator has to correct it";
        assert_eq!(why.as_deref(), Some(expected));
        let denied = of(
            &failure(Category::CircuitOpen, TableId::Services, "held back"),
            true,
        );
        assert!(denied.unwrap().contains("no right to make the Service"));
    }
}
