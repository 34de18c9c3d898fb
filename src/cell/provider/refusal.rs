//! Rejections by the API server, as messages for the author of the template.

use crate::cell::index::tables::TableId;
use fedgate_engine::error::{Category, Failure};

/// True if the failed request was for an object of this table.
pub fn is_of(failure: &Failure, table: TableId) -> bool {
    let named = failure.object.split_once(' ').map(|(kind, _)| kind.to_owned());
    named == Some(table.kind().to_string())
}

/// Message why the API server rejects a Pod, Service or `NetworkPolicy`; `None` for a failure that may be transient.
pub fn of(failure: &Failure) -> Option<String> {
    let table = TableId::PROVIDER
        .into_iter()
        .find(|table| is_of(failure, *table))?;
    let what = table.resource().kind;
    match failure.category {
        Category::Refused => Some(format!("{REFUSES} the {what}: {}", failure.message)),
        Category::Forbidden => Some(format!(
            "the cell has no right to make the {what}; its operator applies manifests/cell/provider-role.yaml"
        )),
        _ => None,
    }
}

/// Prefix of a rejection message, before the server's text.
const REFUSES: &str = "the cell's API server refuses";

/// True if two rejections have the same reason. Numbers and ids in server messages may differ each time, and each
/// written difference would trigger another retry.
pub fn is_alike(before: &str, now: &str) -> bool {
    let words = |text: &'_ str| -> Vec<String> {
        let all = text.split_whitespace();
        let all = all.filter(|word| !word.bytes().any(|b| b.is_ascii_digit()));
        all.map(str::to_owned).collect()
    };
    before.starts_with(REFUSES) && now.starts_with(REFUSES) && words(before) == words(now)
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
            of(&failure(
                category,
                table,
                "violates PodSecurity \"restricted:latest\"",
            ))
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
    fn numbers_and_ids_make_no_other_reason() {
        let said = |text: &str| of(&failure(Category::Refused, TableId::Pods, text)).unwrap();
        assert!(is_alike(
            &said("exceeded quota, used cpu=3"),
            &said("exceeded quota, used cpu=4")
        ));
        assert!(!is_alike(&said("exceeded quota"), &said("violates PodSecurity")));
        assert!(!is_alike(
            "port 80/TCP is used twice",
            "port 81/TCP is used twice"
        ));
    }
}
