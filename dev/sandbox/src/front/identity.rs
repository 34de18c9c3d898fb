//! The user of a request: by client certificate, or by a token that the core API server reviews.

use http::{HeaderMap, HeaderValue, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::{Api, Client, api::PostParams};

/// A user as API servers behind a proxy are told of him.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
}

/// The group that may do anything, also in a suspended project.
const MASTERS: &str = "system:masters";
/// Headers by which a proxy names the user. A client's own must never pass.
const REMOTE: &str = "x-remote-";

impl Identity {
    /// Whether the user is in the group that may do anything.
    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    /// Replaces what the client says of itself by what was found; false if the name cannot be said.
    pub(crate) fn put(&self, headers: &mut HeaderMap) -> bool {
        let forged: Vec<_> = headers
            .keys()
            .filter(|name| name.as_str().starts_with(REMOTE))
            .cloned()
            .collect();
        for name in forged {
            headers.remove(name);
        }
        self.put_as("x-remote-user", "x-remote-group", headers)
    }

    /// Puts the user into headers of these names, in place of the client's own credential; false if the name cannot be said.
    pub(crate) fn put_as(&self, user: &'static str, group: &'static str, headers: &mut HeaderMap) -> bool {
        headers.remove(header::AUTHORIZATION);
        let Ok(name) = HeaderValue::from_str(&self.user) else {
            return false;
        };
        headers.insert(user, name);
        self.groups.iter().all(|name| {
            let value = HeaderValue::from_str(name);
            value.map(|value| headers.append(group, value)).is_ok()
        })
    }
}

/// The token of a request.
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
}

/// The user of a token; `None` if the core API server does not accept it.
pub(crate) async fn of_token(core: &Client, token: &str) -> Option<Identity> {
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: token.to_owned(),
            ..TokenReviewSpec::default()
        },
        ..TokenReview::default()
    };
    let reviews: Api<TokenReview> = Api::all(core.clone());
    let status = reviews
        .create(&PostParams::default(), &review)
        .await
        .ok()?
        .status?;
    let user = status.user.filter(|_| status.authenticated == Some(true))?;
    Some(Identity {
        user: user.username.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::Identity;
    use http::HeaderMap;

    #[test]
    fn a_client_cannot_name_itself() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("authorization", "Bearer t"),
            ("accept", "application/json"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let identity = Identity {
            user: "tenant".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
        };
        assert!(identity.put(&mut headers));
        let all = |name: &str| headers.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(all("x-remote-user"), ["tenant"]);
        assert_eq!(all("x-remote-group"), ["a", "b"]);
        assert!(all("x-remote-extra-scopes").is_empty() && all("authorization").is_empty());
        assert_eq!(all("accept"), ["application/json"]);
    }
}
