//! Tokens of `ServiceAccount`s: issued, proven, and made a kubeconfig.

use super::{
    error::{Error, Kind},
    kubeconfig,
    plane::{Plane, told},
};
use fedgate_kubeconfig::load_text;
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, SelfSubjectReview, TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, api::PostParams};
use std::time::Duration;

/// A `ServiceAccount` of a plane.
#[derive(Debug, Clone, Copy)]
pub struct Account<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl Account<'_> {
    /// Its user name.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

/// Issues a token. With `bound_to`, name and UID of a Secret beside the account, it ends with that Secret.
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
    let answer = accounts
        .create_token_request(account.name, &PostParams::default(), &request)
        .await
        .map_err(|error| plane.error(&error, &format!("issue a token of {}", account.user())))?;
    let token = answer.status.and_then(|status| status.token);
    token.ok_or_else(|| Error::new(Kind::Failed, format!("{} issued no token", plane.title)))
}

/// The user that a kubeconfig logs in as.
pub async fn user_of(kubeconfig: &str, plane: &str) -> Result<String, Error> {
    let failed = |cause: String| {
        Error::new(
            Kind::Failed,
            format!("{plane} does not accept the new credential"),
        )
        .because(cause)
    };
    let loaded = load_text(kubeconfig.as_bytes())
        .await
        .map_err(|error| failed(told(&error)))?;
    let client = fedgate_kubeconfig::client(&loaded.config).map_err(|error| failed(error.to_string()))?;
    let reviews: Api<SelfSubjectReview> = Api::all(client.build());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .map_err(|error| Error::of(&error, &format!("log in to {plane} with the new credential")))?;
    let user = review
        .status
        .and_then(|status| status.user_info)
        .and_then(|user| user.username);
    Ok(user.unwrap_or_default())
}

/// Fails unless the server accepts the token as the account's.
pub async fn prove(
    title: &str,
    server: &str,
    authority: &[u8],
    token: &str,
    account: Account<'_>,
) -> Result<(), Error> {
    let kubeconfig = kubeconfig::with_token("plane", server, authority, account.name, token)?;
    let user = user_of(&kubeconfig, &format!("{title} at {server}")).await?;
    if user == account.user() {
        return Ok(());
    }
    Err(Error::new(
        Kind::Failed,
        format!("{title} at {server} takes the token for {user}"),
    )
    .next(format!(
        "give the address of the same API server; its user should be {}",
        account.user()
    )))
}
