//! Lists a kind and then watches it, as kube-runtime's `watcher` does, with the same events and errors.
//!
//! Thousands of watches are idle at a time. kube-runtime's watchers hold a read buffer and the space of every request
//! that they may ever send; an idle `ListWatch` holds the body of its watch and a timer. Of a page it holds the text,
//! and parses one object after the other.

use super::{
    super::{
        client::{LargePage, PlaneClient, SmallAnswer, is_timeout, is_too_large},
        health::Unreachable,
    },
    WatchStatus,
    failure::{PlaneImpact, WatchFailure},
    line_decoder::LineDecoder,
    pages::{Form, Pages},
};
use crate::object::{LenientObject, Unread};
use bytes::Bytes;
use futures::{FutureExt, Stream, future::BoxFuture};
use kube::{
    Resource,
    client::Body,
    core::{
        DynamicObject, ListMeta, Request, Status, WatchEvent,
        params::{ListParams, WatchParams},
    },
};
use kube_runtime::watcher::{Error, Event, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
    vec::IntoIter,
};
use tokio::time::{Instant, Sleep, sleep};

/// Time that a watch may last beyond the timeout requested from the server: a dead link never reports the end of the
/// watch, and a slow link lags further and further behind.
const MARGIN: Duration = Duration::from_secs(5);

/// List and watch of a kind. It resumes at its position after an error, and with a new list if its version is gone.
pub(super) struct ListWatch<'a> {
    status: &'a WatchStatus,
    client: Arc<PlaneClient>,
    asks: Asks,
    pages: Pages,
    state: State,
    /// Version up to which all events have been delivered.
    version: u64,
    doubt: Doubt,
}

/// Suspicion that the server was restored to an older state since its last answer. Such a server accepts a watch from a
/// version that it has not reached yet and sends no event, so it must be asked for its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    None,
    /// A watch ended before its time, or a proxy answered instead of the server. The version is requested once a watch
    /// is open: a rejected watch already carries the reason.
    OnceOpen,
    /// The connection broke. The version is requested before the next watch.
    First,
}

/// Parameters of the requests.
struct Asks {
    path: String,
    labels: Option<String>,
    fields: Option<String>,
    unread: Unread,
    metadata_only: bool,
    timeout: u32,
}

/// A page of a list as received.
struct Page {
    objects: Vec<Bytes>,
    metadata: ListMeta,
    bytes: usize,
    took: Duration,
    /// Memory permit of a large page.
    place: Option<LargePage>,
}

/// The JSON text of a page.
#[derive(Deserialize)]
struct Text<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

enum State {
    /// Nothing is known.
    Blank,
    /// All pages up to this continue token are known.
    Listed(String),
    /// The request for a page is in flight: the first page, or the page of a continue token.
    Listing(Option<String>, BoxFuture<'static, kube::Result<Page>>),
    /// The objects of a page are being delivered.
    Page(IntoIter<Bytes>, Then, Option<LargePage>),
    /// All up to this version is known.
    Known(String),
    /// A list of one object is in flight, to read the version of the server.
    Asking(Question, BoxFuture<'static, kube::Result<Page>>),
    /// A watch from this version is being opened.
    Opening(String, BoxFuture<'static, kube::Result<Body>>),
    /// The watch is open, until the timer fires at the latest.
    Watching(String, LineDecoder, Pin<Box<Sleep>>),
}

/// Check if the server has all of the known state.
struct Question {
    /// Version from which the watch resumes.
    from: String,
    /// Minimum version of the server: the maximum of the watch's version and that of each write answered before.
    known: u64,
    /// The watch, if it is open already.
    watch: Option<Body>,
}

/// Next request after a page.
enum Then {
    /// The next page, by this continue token.
    More(String),
    /// The watch, from this version.
    Watch(String),
}

/// Result of a step: pending, another step (`Ready(None)`), or an event to deliver.
type Step = Poll<Option<Result<Event<LenientObject>>>>;

impl<'a> ListWatch<'a> {
    pub(super) fn new(
        client: Arc<PlaneClient>,
        selection: &super::WatchSpec,
        timeout: u32,
        status: &'a WatchStatus,
    ) -> Self {
        Self {
            status,
            pages: Pages::new(selection.page, client.page_bytes()),
            client,
            asks: Asks {
                path: <DynamicObject as Resource>::url_path(
                    &selection.resource,
                    selection.namespace.as_deref(),
                ),
                labels: selection.labels.clone(),
                fields: selection.fields.clone(),
                unread: selection.unread,
                metadata_only: selection.metadata_only,
                timeout,
            },
            state: State::Blank,
            version: 0,
            doubt: Doubt::None,
        }
    }

    /// Drops the position: the next request is a new list.
    pub(super) fn relist(&mut self) {
        self.state = State::Blank;
    }

    /// Version up to which all events have been delivered, as a number; while a list is read, the version of the list.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    fn list(&self, token: Option<String>) -> State {
        // A continue token stays valid for pages of another size.
        let page = self.page(self.pages.form(), self.pages.count(), token.clone());
        State::Listing(token, page)
    }

    fn page(&self, form: Form, count: u32, token: Option<String>) -> BoxFuture<'static, kube::Result<Page>> {
        let params = ListParams {
            label_selector: self.asks.labels.clone(),
            field_selector: self.asks.fields.clone(),
            limit: Some(count),
            continue_token: token,
            ..ListParams::default()
        };
        let request = Request::new(&*self.asks.path);
        let request = match form {
            Form::Small | Form::Large if !self.asks.metadata_only => request.list(&params),
            Form::Small | Form::Large | Form::Metadata => request.list_metadata(&params),
        };
        let client = self.client.clone();
        let page = async move {
            let mut request = request.map_err(kube::Error::BuildRequest)?.map(Body::from);
            let place = match form {
                Form::Large => client.large_page().await,
                Form::Small | Form::Metadata => {
                    request.extensions_mut().insert(SmallAnswer);
                    None
                }
            };
            let began = Instant::now();
            let answer = accepted(client.one_shot().send(request).await?).await?;
            let text = answer.collect_bytes().await?;
            Page::read(&text, began.elapsed(), place).map_err(kube::Error::SerdeError)
        };
        page.boxed()
    }

    /// Next state after a page request failed: request the page in another form or size, or report the error.
    fn not_listed(&mut self, token: Option<String>, error: kube::Error) -> (State, Step) {
        if is_too_large(&error) && self.pages.too_large() {
            tracing::debug!(path = self.asks.path, pages = ?self.pages, "a page of a list is too large and is asked for in parts");
            return (self.list(token), Poll::Ready(None));
        }
        if is_timeout(&error) || matches!(&error, kube::Error::Api(status) if status.code == 504) {
            self.pages.too_slow();
        }
        // A server may reject a token that it does not know any more, or for pages of another size.
        let refused = matches!(&error, kube::Error::Api(status) if status.code == 400);
        let state = token.filter(|_| !refused).map_or(State::Blank, State::Listed);
        (state, Poll::Ready(Some(Err(Error::InitialListFailed(error)))))
    }

    /// Next state after a page was received.
    fn listed(&mut self, page: Page) -> (State, Step) {
        self.pages.came(page.objects.len(), page.bytes, page.took);
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        let version = text(page.metadata.resource_version);
        self.version = version.as_deref().map_or(self.version, number);
        let then = match (text(page.metadata.continue_), version) {
            (Some(token), _) => Then::More(token),
            (None, Some(version)) => {
                self.doubt = Doubt::None;
                Then::Watch(version)
            }
            (None, None) => return (State::Blank, Poll::Ready(Some(Err(Error::NoResourceVersion)))),
        };
        (
            State::Page(page.objects.into_iter(), then, page.place),
            Poll::Ready(None),
        )
    }

    fn open(&self, version: String) -> State {
        let params = WatchParams {
            label_selector: self.asks.labels.clone(),
            field_selector: self.asks.fields.clone(),
            timeout: Some(self.asks.timeout),
            ..WatchParams::default()
        };
        let request = Request::new(&*self.asks.path);
        let request = if self.asks.metadata_only {
            request.watch_metadata(&params, &version)
        } else {
            request.watch(&params, &version)
        };
        let client = self.client.one_shot();
        let open = async move {
            let request = request.map_err(kube::Error::BuildRequest)?;
            accepted(client.send(request.map(Body::from)).await?).await
        };
        State::Opening(version, open.boxed())
    }

    /// Executes one step from `state` to the next state.
    fn step(&mut self, state: State, cx: &mut Context<'_>) -> (State, Step) {
        match state {
            State::Blank => (self.list(None), Poll::Ready(Some(Ok(Event::Init)))),
            State::Listed(token) => (self.list(Some(token)), Poll::Ready(None)),
            State::Listing(token, mut page) => match page.poll_unpin(cx) {
                Poll::Pending => (State::Listing(token, page), Poll::Pending),
                Poll::Ready(Ok(page)) => self.listed(page),
                Poll::Ready(Err(error)) => self.not_listed(token, error),
            },
            State::Page(mut objects, then, place) => match (objects.next(), then) {
                (Some(object), then) => {
                    // An object that cannot be parsed has no name and cannot be reconciled; it is reported as unknown.
                    let object = LenientObject::read(&object, self.asks.unread)
                        .unwrap_or_else(|_| LenientObject::unknown());
                    (
                        State::Page(objects, then, place),
                        Poll::Ready(Some(Ok(Event::InitApply(object)))),
                    )
                }
                (None, Then::More(token)) => (State::Listed(token), Poll::Ready(None)),
                (None, Then::Watch(version)) => {
                    (State::Known(version), Poll::Ready(Some(Ok(Event::InitDone))))
                }
            },
            State::Known(version) if self.doubt == Doubt::First => {
                (self.ask_version(version, None), Poll::Ready(None))
            }
            State::Asking(question, mut page) => match page.poll_unpin(cx) {
                Poll::Pending => (State::Asking(question, page), Poll::Pending),
                Poll::Ready(page) => self.asked(question, page),
            },
            State::Known(version) => (self.open(version), Poll::Ready(None)),
            State::Opening(version, mut open) => match open.poll_unpin(cx) {
                Poll::Pending => (State::Opening(version, open), Poll::Pending),
                Poll::Ready(Ok(body)) if self.doubt == Doubt::None => {
                    (self.watch(version, body), Poll::Ready(None))
                }
                Poll::Ready(Ok(body)) => (self.ask_version(version, Some(body)), Poll::Ready(None)),
                Poll::Ready(Err(error)) => (
                    State::Known(version),
                    Poll::Ready(Some(Err(Error::WatchStartFailed(error)))),
                ),
            },
            State::Watching(version, lines, end) => self.accept(version, lines, end, cx),
        }
    }

    fn ask_version(&self, from: String, watch: Option<Body>) -> State {
        let written = self.status.written.load(Ordering::Relaxed);
        let known = self.version.max(written);
        let question = Question { from, known, watch };
        State::Asking(question, self.page(Form::Metadata, 1, None))
    }

    fn watch(&self, version: String, body: Body) -> State {
        let end = Box::pin(sleep(self.time_asked() + MARGIN));
        let lines = LineDecoder::new(body, self.asks.unread, self.client.clone());
        State::Watching(version, lines, end)
    }

    /// Timeout requested from the server for a watch.
    fn time_asked(&self) -> Duration {
        Duration::from_secs(self.asks.timeout.into())
    }

    /// Next state after the server returned its version.
    fn asked(&mut self, question: Question, page: kube::Result<Page>) -> (State, Step) {
        let Question { from, known, watch } = question;
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                let error = Error::WatchStartFailed(error);
                return (State::Known(from), Poll::Ready(Some(Err(error))));
            }
        };
        self.doubt = Doubt::None;
        let has = page.metadata.resource_version.as_deref().map_or(0, number);
        if has < known {
            self.status.written.store(0, Ordering::Relaxed);
            let status = Status::failure("the server has an older state", "Expired").with_code(410);
            return (
                State::Blank,
                Poll::Ready(Some(Err(Error::WatchError(status.boxed())))),
            );
        }
        let state = match watch {
            Some(body) => self.watch(from, body),
            None => State::Known(from),
        };
        (state, Poll::Ready(None))
    }

    /// Next event of an open watch.
    fn accept(
        &mut self,
        version: String,
        mut lines: LineDecoder,
        mut end: Pin<Box<Sleep>>,
        cx: &mut Context<'_>,
    ) -> (State, Step) {
        let event = match lines.poll_next(cx) {
            Poll::Pending if end.poll_unpin(cx).is_ready() => {
                tracing::debug!(path = self.asks.path, "a watch does not end and is begun again");
                return (State::Known(version), Poll::Ready(None));
            }
            Poll::Pending => return (State::Watching(version, lines, end), Poll::Pending),
            Poll::Ready(None) => {
                // A server that shuts down ends its watches, and so does a proxy whose server has disappeared.
                if Instant::now() + MARGIN * 2 < end.deadline() {
                    self.doubt = self.doubt.max(Doubt::OnceOpen);
                }
                return (State::Known(version), Poll::Ready(None));
            }
            Poll::Ready(Some(Err(error))) => {
                // An event that cannot be parsed is a missed event.
                let state = if matches!(error, kube::Error::SerdeError(_)) {
                    State::Blank
                } else {
                    State::Watching(version, lines, end)
                };
                return (state, Poll::Ready(Some(Err(Error::WatchFailed(error)))));
            }
            Poll::Ready(Some(Ok(event))) => event,
        };
        let (version, told) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                (object.version(), Poll::Ready(Some(Ok(Event::Apply(object)))))
            }
            WatchEvent::Deleted(object) => (object.version(), Poll::Ready(Some(Ok(Event::Delete(object))))),
            WatchEvent::Bookmark(mark) => (mark.metadata.resource_version, Poll::Ready(None)),
            WatchEvent::Error(status) => {
                let state = if status.code == 410 {
                    State::Blank
                } else {
                    State::Watching(version, lines, end)
                };
                return (state, Poll::Ready(Some(Err(Error::WatchError(status)))));
            }
        };
        if version.is_empty() {
            return (State::Blank, Poll::Ready(Some(Err(Error::NoResourceVersion))));
        }
        self.version = self.version.max(number(&version));
        (State::Watching(version, lines, end), told)
    }
}

/// A version as a number; API servers guarantee that it is a number.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

impl Page {
    /// Splits a page into objects; the objects are not parsed yet.
    fn read(text: &Bytes, took: Duration, place: Option<LargePage>) -> serde_json::Result<Self> {
        let Text { metadata, items } = serde_json::from_slice(text)?;
        let items = items.unwrap_or_default().into_iter();
        Ok(Self {
            objects: items.map(|item| text.slice_ref(item.get().as_bytes())).collect(),
            metadata,
            bytes: text.len(),
            took,
            place,
        })
    }
}
/// Body of a successful response; an error response becomes `kube::Error::Api`.
async fn accepted(response: http::Response<Body>) -> kube::Result<Body> {
    let (head, body) = response.into_parts();
    if !head.status.is_client_error() && !head.status.is_server_error() {
        return Ok(body);
    }
    let bytes = body.collect_bytes().await?;
    let status = serde_json::from_slice(&bytes).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&bytes);
        Status::failure(text.trim(), "no Status").with_code(head.status.as_u16())
    });
    Err(kube::Error::Api(status.boxed()))
}

impl Stream for ListWatch<'_> {
    type Item = Result<Event<LenientObject>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let state = std::mem::replace(&mut self.state, State::Blank);
            let (state, step) = self.step(state, cx);
            self.state = state;
            if let Poll::Ready(Some(Err(error))) = &step {
                let doubt = match WatchFailure::of(error).of_plane() {
                    PlaneImpact::Away(Unreachable::Silent) => Doubt::First,
                    PlaneImpact::Away(Unreachable::Failing) => Doubt::OnceOpen,
                    PlaneImpact::Well | PlaneImpact::Unsaid => Doubt::None,
                };
                self.doubt = self.doubt.max(doubt);
            }
            if !matches!(step, Poll::Ready(None)) {
                return step;
            }
        }
    }
}
