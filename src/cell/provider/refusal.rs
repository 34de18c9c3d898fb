//! What a server does not take as it is, in words for whoever wrote the template.

use crate::{
    cell::world::role::Role,
    engine::error::{Category, Failure},
};

/// So much of what a server says is passed on.
const LONGEST_REASON: usize = 1024;

/// Whether a request for an object of this role failed.
pub fn is_of(failure: &Failure, role: Role) -> bool {
    let named = failure.object.split_once(' ').map(|(kind, _)| kind.to_owned());
    named == Some(role.kind().to_string())
}

/// Why the server does not take a Pod, Service or `NetworkPolicy` as it is, for people; `None` of a failure that may pass by itself.
pub fn of(failure: &Failure) -> Option<String> {
    let role = Role::PROVIDER.into_iter().find(|role| is_of(failure, *role))?;
    let what = role.resource().kind;
    match failure.category {
        Category::Refused => {
            let said: String = failure.message.chars().take(LONGEST_REASON).collect();
            Some(format!("{REFUSES} the {what}: {said}"))
        }
        Category::Forbidden => Some(format!(
            "the cell has no right to make the {what}; its operator applies manifests/cell/provider-role.yaml"
        )),
        _ => None,
    }
}

/// What a server that refuses an object says, before its own words.
const REFUSES: &str = "the cell's API server refuses";

/// Whether a server refuses for the same reason: numbers and ids in its words may differ each time, and each difference
/// that is written leads to another try.
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
    use crate::engine::key::Plane;
    use std::time::Duration;

    fn failure(category: Category, role: Role, message: &str) -> Failure {
        Failure {
            plane: Plane::Cell,
            verb: "create",
            object: format!("{} ns-a1/web-0", role.kind()),
            category,
            message: message.to_owned(),
            retry_after: Duration::ZERO,
        }
    }

    #[test]
    fn what_a_server_refuses_is_passed_on_and_what_may_pass_by_itself_is_not() {
        let why = |category, role| {
            of(&failure(
                category,
                role,
                "violates PodSecurity \"restricted:latest\"",
            ))
        };
        assert_eq!(
            why(Category::Refused, Role::Pods).unwrap(),
            "the cell's API server refuses the Pod: violates PodSecurity \"restricted:latest\""
        );
        let service = why(Category::Refused, Role::Services).unwrap();
        assert!(
            service.starts_with("the cell's API server refuses the Service: "),
            "{service}"
        );
        let policy = why(Category::Refused, Role::NetworkPolicies).unwrap();
        assert!(policy.contains("refuses the NetworkPolicy: "), "{policy}");
        let right = why(Category::Forbidden, Role::Pods).unwrap();
        assert!(right.contains("no right to make the Pod"), "{right}");
        assert_eq!(why(Category::Refused, Role::Instances), None);
        for passing in [
            Category::Timeout,
            Category::Server,
            Category::Throttled,
            Category::Conflict,
        ] {
            assert_eq!(why(passing, Role::Pods), None);
        }
    }

    #[test]
    fn numbers_and_ids_make_no_other_reason() {
        let said = |text: &str| of(&failure(Category::Refused, Role::Pods, text)).unwrap();
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
