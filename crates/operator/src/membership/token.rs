//! Tokens of `ServiceAccount`s: issued, proven, and made a kubeconfig.

use super::{
    error::of_request,
    kubeconfig::{self, Server},
    plane::{Plane, built, told},
};
use fedgate_kubeconfig::load_text;
use fedgate_terminal::{error::Error, write::say};
use jiff::SignedDuration;
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, SelfSubjectReview, TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, api::PostParams};
use std::time::Duration;

/// A `ServiceAccount` of a plane.
#[derive(Debug, Clone, Copy)]
pub struct Account<'a> {
    /// Namespace of the account.
    pub namespace: &'a str,
    /// Name of the account.
    pub name: &'a str,
}

impl Account<'_> {
    /// User name of the account.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

/// Issues a token, and says it if the server has given it a shorter life. With `bound_to`, name and UID of a Secret beside
/// the account, it ends with that Secret.
pub async fn issue(
    plane: &Plane,
    account: Account<'_>,
    lifetime: Duration,
    bound_to: Option<(&str, &str)>,
) -> Result<String, Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.client(), account.namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: i64::try_from(lifetime.as_secs()).ok(),
            bound_object_ref: bound_to.map(|(name, uid)| BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Secret".to_owned()),
                name: Some(name.to_owned()),
                uid: Some(uid.to_owned()),
            }),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let (title, user, post) = (&plane.title, account.user(), PostParams::default());
    let answer = accounts.create_token_request(account.name, &post, &request).await;
    let answer = answer.map_err(|error| plane.error(&error, &format!("issue a token of {user}")))?;
    let token = answer.status.and_then(|status| status.token);
    let token = token.ok_or_else(|| Error::failed(format!("{title} issued no token")))?;
    if let Some(granted) = shortened(&token, lifetime) {
        say(&format!("{title}: the token of {user} {granted}"));
    }
    Ok(token)
}

/// The life of a token that a server has shortened, and what to do about it.
fn shortened(token: &str, asked: Duration) -> Option<String> {
    let granted = SignedDuration::from_secs(kubeconfig::granted(token)?);
    let asked = SignedDuration::try_from(asked).ok()?;
    (granted < asked).then(|| {
        format!(
            "lives {granted:#}, not {asked:#}: the server grants no more (--service-account-max-token-expiration); run it \
             again each time that half of it is over"
        )
    })
}

/// The user that a kubeconfig logs in as. The answers of a server that `is_limited` are limited as those of its [`Plane`].
pub async fn user_of(kubeconfig: &str, plane: &str, is_limited: bool) -> Result<String, Error> {
    let what = format!("{plane} does not accept the new credential");
    let failed = |cause: String| Error::failed(&what).because(cause);
    let loaded = load_text(kubeconfig.as_bytes()).await;
    let loaded = loaded.map_err(|error| failed(told(&error)))?;
    let client = fedgate_kubeconfig::client(&loaded.config).map_err(|error| failed(error.to_string()))?;
    let reviews: Api<SelfSubjectReview> = Api::all(built(client, is_limited));
    let post = PostParams::default();
    let review = reviews.create(&post, &SelfSubjectReview::default()).await;
    let review =
        review.map_err(|error| of_request(&error, &format!("log in to {plane} with the new credential")))?;
    let user = review.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username).unwrap_or_default())
}

/// Fails unless the server accepts the token as the account's.
pub async fn prove(
    plane: &Plane,
    server: Server<'_>,
    token: &str,
    account: Account<'_>,
) -> Result<(), Error> {
    let title = &plane.title;
    let kubeconfig = kubeconfig::with_token("plane", server, account.name, token)?;
    let at = format!("{title} at {}", server.url);
    let user = user_of(&kubeconfig, &at, plane.is_limited).await?;
    let wanted = account.user();
    if user == wanted {
        return Ok(());
    }
    let next = format!("give the address of the same API server; its user should be {wanted}");
    Err(Error::failed(format!("{at} takes the token for {user}")).next(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_the_server_has_shortened_is_named_with_its_life() {
        // {"iat":1800000000,"exp":1800086400}: a day.
        let day = "e30.eyJpYXQiOjE4MDAwMDAwMDAsImV4cCI6MTgwMDA4NjQwMH0.x";
        let hours = |hours: u64| Duration::from_secs(hours * 3_600);
        let said = shortened(day, hours(8_760)).unwrap();
        assert!(said.starts_with("lives 24h, not 8760h"), "{said}");
        assert_eq!(shortened(day, hours(24)), None);
        assert_eq!(shortened(day, hours(4)), None);
        assert_eq!(shortened("opaque", hours(8_760)), None);
    }
}
