//! The way to a plane without sockets, and what a request meets on it.

use crate::{
    body::Body,
    faults::{Fault, Met},
    handle::{Answer, handle},
    karmada::{self, Proxied},
    log::Entry,
    plane::Shared,
    route::{Call, Verb},
    state::Down,
    status::{Status, Subject},
};
use bytes::Bytes;
use futures::future::{BoxFuture, pending};
use http::{Request, Response, header, request::Parts};
use http_body_util::{BodyExt, Full};
use parking_lot::RwLock;
use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::time::Instant;

/// All planes by name.
pub(crate) type Planes = RwLock<BTreeMap<Arc<str>, Arc<Shared>>>;

/// One user's way to one plane. Requests name paths from the plane's root.
#[derive(Debug, Clone)]
pub struct Service {
    pub(crate) planes: Arc<Planes>,
    pub(crate) plane: Arc<str>,
    pub(crate) user: Arc<str>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<B> tower_service::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Response<Body>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            service.answer(&head, head.uri.path(), body).await
        })
    }
}

impl Service {
    /// Answers a request whose path begins at the plane's root.
    pub(crate) async fn answer<B>(&self, head: &Parts, path: &str, body: B) -> io::Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let body = body
            .collect()
            .await
            .map_err(|error| io::Error::other(error.into()))?;
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens here");
        let plane = self
            .planes
            .read()
            .get(&*self.plane)
            .cloned()
            .ok_or_else(refused)?;
        let down = plane.state.lock().down;
        let proxied = karmada::through(path).filter(|_| down.is_none());
        let proxied = proxied.and_then(|(cluster, rest)| Some((plane.state.lock().proxied(cluster)?, rest)));
        if let Some((proxied, rest)) = proxied {
            return self.answer_through(proxied, head, rest, body.to_bytes()).await;
        }
        let call = Call::read(&head.method, path, head.uri.query(), &head.headers);
        let body = body.to_bytes();
        if let (Some(_), Ok(call)) = (down, &call) {
            self.note(&plane, call, &body, None, None);
        }
        match down {
            Some(Down::Refused) => return Err(refused()),
            Some(Down::BlackHole) => return pending().await,
            None => {}
        }
        let (answer, fault) = match call {
            Ok(call) => self.carry_out(&plane, &call, &body).await?,
            Err(status) => (Answer::refusal(&status), None),
        };
        if let Some(delay) = plane.draw_delay() {
            tokio::time::sleep(delay).await;
        }
        respond(answer, fault.as_ref())
    }

    /// Answers a request through a Cluster's proxy: the member sees the same user.
    async fn answer_through(
        &self,
        proxied: Proxied,
        head: &Parts,
        rest: &str,
        body: Bytes,
    ) -> io::Result<Response<Body>> {
        let plane = match proxied {
            Proxied::To(plane) => plane,
            Proxied::Refused(status) => return refuse(&status),
        };
        let member = Self {
            plane,
            ..self.clone()
        };
        match Box::pin(member.answer(head, rest, Full::new(body))).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => refuse(&karmada::unreachable()),
            answer => answer,
        }
    }

    /// Carries a request out, unless a fault is before that.
    async fn carry_out(
        &self,
        plane: &Arc<Shared>,
        call: &Call,
        body: &Bytes,
    ) -> io::Result<(Answer, Option<Fault>)> {
        let faults = &plane.common.faults;
        let fault = match faults.meet(&plane.name, &self.user, call) {
            Met::Nothing => None,
            Met::Fault(fault) => Some(fault),
            Met::Stopped => return pending().await,
        };
        let answer = match &fault {
            Some(fault) if !fault.applies() => instead(fault, &self.user, call, body),
            _ => Some(handle(plane, &self.user, call, body)),
        };
        self.note(plane, call, body, answer.as_ref(), fault.as_ref());
        let broken = || Err(io::ErrorKind::ConnectionReset.into());
        match (&fault, answer) {
            (Some(Fault::StopBefore | Fault::StopAfter), _) => {
                faults.tell_stopped(&self.user);
                pending().await
            }
            (Some(Fault::Hang | Fault::HangAfterApply), _) => pending().await,
            (Some(Fault::DropBefore | Fault::LoseAnswer), _) | (_, None) => broken(),
            (Some(Fault::TimeoutAfterApply), _) => {
                let status = Status::plain(
                    504,
                    "Timeout",
                    "the request did not complete within the allotted time",
                );
                Ok((Answer::refusal(&status), None))
            }
            (_, Some(answer)) => Ok((answer, fault)),
        }
    }

    fn note(
        &self,
        plane: &Shared,
        call: &Call,
        body: &Bytes,
        answer: Option<&Answer>,
        fault: Option<&Fault>,
    ) {
        plane.count(call.verb);
        let log = &plane.common.log;
        log.add(|| Entry {
            body: log.kept(body),
            n: 0,
            at: Instant::now(),
            plane: plane.name.clone(),
            user: self.user.clone(),
            verb: call.verb,
            group: call.group.as_str().into(),
            resource: if call.resource.is_empty() {
                &*call.path
            } else {
                &*call.resource
            }
            .into(),
            subresource: call.subresource.as_deref().map(Into::into),
            namespace: call.namespace.clone(),
            name: match answer.and_then(|answer| answer.name.clone()) {
                Some(name) if call.verb == Verb::Create => name,
                _ => call.name.clone(),
            },
            code: answer.map_or(0, |answer| answer.code),
            changed: answer.is_some_and(|answer| answer.changed),
            uid_precondition: answer.is_some_and(|answer| answer.uid_precondition),
            fault: fault.map(Fault::name),
        });
    }
}

/// The answer that a fault gives of its own.
fn instead(fault: &Fault, user: &str, call: &Call, body: &[u8]) -> Option<Answer> {
    let subject = Subject {
        group: &call.group,
        resource: &call.resource,
        name: &call.name,
    };
    let status = match fault {
        Fault::Conflict => Status::plain(
            409,
            "Conflict",
            "Operation cannot be fulfilled: the object has been modified",
        ),
        Fault::Gone => Status::expired("The resourceVersion is too old."),
        Fault::TooMany { retry_after } => {
            let mut status = Status::plain(
                429,
                "TooManyRequests",
                "Too many requests, please try again later.",
            );
            if let Some(seconds) = retry_after {
                status.details = serde_json::json!({"retryAfterSeconds": seconds});
            }
            return Some(Answer {
                retry_after: *retry_after,
                ..Answer::refusal(&status)
            });
        }
        Fault::Internal => Status::plain(500, "InternalError", "Internal error occurred: by script"),
        Fault::Unavailable => Status::plain(
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        Fault::Unauthorized => Status::plain(401, "Unauthorized", "Unauthorized"),
        Fault::Forbidden => Status::unauthorized(&subject, user, call),
        Fault::Denied => Status::forbidden(
            &subject,
            "ValidatingAdmissionPolicy 'script' with binding 'script' denied request: User \"x\" cannot have this",
        ),
        Fault::Repeats { code } => {
            let said = format!("Invalid value: {}: by script", String::from_utf8_lossy(body));
            match code {
                422 => Status::invalid(
                    &call.resource,
                    &subject,
                    &[("FieldValueInvalid", "spec.template", &said)],
                ),
                403 => Status::forbidden(&subject, &format!("spec.template: {said}")),
                code => Status::plain(*code, "InternalError", format!("spec.template: {said}")),
            }
        }
        Fault::HtmlBadGateway => {
            let page = "<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>";
            return Some(Answer {
                media_type: "text/html",
                ..Answer::new(502, page)
            });
        }
        _ => return None,
    };
    Some(Answer::refusal(&status))
}

fn respond(answer: Answer, fault: Option<&Fault>) -> io::Result<Response<Body>> {
    let mut response = Response::builder()
        .status(answer.code)
        .header(header::CONTENT_TYPE, answer.media_type);
    if let Some(seconds) = answer.retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    response
        .body(Body::new(answer.content, fault))
        .map_err(io::Error::other)
}

/// The answer to a request that no plane may see.
pub(crate) fn refuse(status: &Status) -> io::Result<Response<Body>> {
    respond(Answer::refusal(status), None)
}
