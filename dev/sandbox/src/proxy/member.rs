//! A request at a member, in the name of who asked the hub.

use super::hub::{AUTHENTICATED, UNAUTHENTICATED, broken};
use crate::front::{
    identity::Identity,
    pass::leave_connection,
    refusal::unauthorized,
    serve::{Answer, boxed},
    upstream::Upstream,
};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use kube::client::Body;
use std::{error::Error, io};

/// Before the names of headers that say whom a user plays.
const IMPERSONATE: &str = "impersonate-";

/// Whether a request has headers of impersonation. A kube-apiserver checks whether the user may impersonate; the front does not.
pub(super) fn plays(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(IMPERSONATE))
}

/// Asks the member; its answer comes as it is.
pub(super) async fn ask(
    member: &Upstream,
    user: &Identity,
    path: &str,
    request: Request<Incoming>,
) -> Result<Answer, Answer> {
    let (mut head, body) = request.into_parts();
    let path = match head.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    head.uri = path.parse().map_err(|_| broken("the path makes no address"))?;
    leave_connection(&mut head.headers);
    if !impersonate(&mut head.headers, user) {
        return Err(unauthorized());
    }
    let body = body.collect().await.map_err(|error| broken(&error.to_string()))?;
    let mut request = Request::new(Body::from(body.to_bytes()));
    *request.method_mut() = head.method;
    *request.uri_mut() = head.uri;
    *request.headers_mut() = head.headers;
    let answer = member.client.send(request).await;
    answer
        .map(boxed)
        .map_err(|error| broken(&not_reached(&member.authority, &error)))
}

/// Adds the user to the headers, as Karmada does: with the groups that a member does not add by itself. False if a name cannot be
/// the value of a header.
fn impersonate(headers: &mut HeaderMap, user: &Identity) -> bool {
    let mut user = user.clone();
    user.groups
        .retain(|group| ![AUTHENTICATED, UNAUTHENTICATED].contains(&group.as_str()));
    user.put_as("impersonate-user", "impersonate-group", headers)
}

/// The words of Karmada, whose proxy says what its connection has met.
fn not_reached(address: &impl std::fmt::Display, error: &kube::Error) -> String {
    let mut cause: &(dyn Error + 'static) = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let last = cause.downcast_ref::<io::Error>();
    if last.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        return format!("dial tcp {address}: connect: connection refused");
    }
    format!("dial tcp {address}: {cause}")
}

#[cfg(test)]
mod tests {
    use super::{impersonate, plays};
    use crate::front::identity::Identity;
    use http::HeaderMap;

    #[test]
    fn a_member_is_told_the_user_and_the_groups_that_it_does_not_add() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer t".parse().unwrap());
        headers.insert("accept", "application/json".parse().unwrap());
        assert!(!plays(&headers));
        let groups = ["a", "system:authenticated", "b", "system:unauthenticated"];
        let user = Identity {
            user: "tenant".to_owned(),
            groups: groups.map(str::to_owned).into(),
        };
        assert!(impersonate(&mut headers, &user));
        let all = |name: &str| headers.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(all("impersonate-user"), ["tenant"]);
        assert_eq!(all("impersonate-group"), ["a", "b"]);
        assert_eq!(all("accept"), ["application/json"]);
        assert!(all("authorization").is_empty() && plays(&headers));
    }
}
