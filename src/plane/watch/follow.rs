//! Lists a kind and then watches it, as kube-runtime's `watcher` does, whose events and errors it gives.
//!
//! Thousands of watches are at rest at a time, and kube-runtime's hold a read buffer and the space of every request that
//! they may ever make. At rest this one holds the body of its watch and a timer. Of a page it holds the text, and reads one
//! object of it after the other.

use super::{
    super::client::{CallError, LargePage, PlaneClient, SmallAnswer, is_timeout},
    Health,
    lines::Lines,
    pages::{Form, Pages},
    reach::Silence,
    trouble::{Cause, OfPlane},
};
use crate::engine::object::{Tolerant, Unread};
use bytes::Bytes;
use futures::{FutureExt, Stream, future::BoxFuture};
use kube::{
    Resource,
    client::Body,
    core::{
        DynamicObject, ListMeta, Request, Status, WatchEvent,
        params::{ListParams, WatchParams},
    },
    runtime::watcher::{Error, Event, Result},
};
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

/// How long a watch may last beyond the time that the server was asked to end it after: a link that is dead tells no end, and
/// one that is slow lags behind further and further.
const MARGIN: Duration = Duration::from_secs(5);

/// See the module. After an error it goes on where it was; when its version is gone, with a new list.
pub(super) struct Follower<'a> {
    health: &'a Health,
    client: Arc<PlaneClient>,
    asks: Asks,
    pages: Pages,
    state: State,
    /// The version up to which all was told.
    version: u64,
    doubt: Doubt,
}

/// Whether the server may have been restored to an older state since it last answered: then it lets a watch from a version
/// that it does not have yet wait in silence, and is asked for its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    None,
    /// A watch ended before its time, or a proxy answered in the server's place. The version is asked for once a watch is
    /// open: one that is refused says what is wrong by itself.
    OnceOpen,
    /// The connection broke. The version is asked for before the next watch.
    First,
}

/// What is asked for.
struct Asks {
    path: String,
    labels: Option<String>,
    fields: Option<String>,
    unread: Unread,
    timeout: u32,
}

/// A page of a list as it came.
struct Page {
    objects: Vec<Bytes>,
    metadata: ListMeta,
    bytes: usize,
    took: Duration,
    /// What admits it to memory, if it is large.
    place: Option<LargePage>,
}

/// Its text.
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
    /// All up to this token is known.
    Listed(String),
    /// A page of the list is on its way, the first one or that of a token.
    Listing(Option<String>, BoxFuture<'static, kube::Result<Page>>),
    /// Its objects are given out.
    Page(IntoIter<Bytes>, Then, Option<LargePage>),
    /// All up to this version is known.
    Known(String),
    /// A list of one object is on its way, for the version of the server.
    Asking(Question, BoxFuture<'static, kube::Result<Page>>),
    /// A watch from this version is being opened.
    Opening(String, BoxFuture<'static, kube::Result<Body>>),
    /// It is open, until then at the latest.
    Watching(String, Lines, Pin<Box<Sleep>>),
}

/// Whether the server has all that is known.
struct Question {
    /// From here the watch goes on.
    from: String,
    /// The version that the server must have at least: that of the watch, and of each write that was answered before.
    known: u64,
    /// The watch, if one is open.
    watch: Option<Body>,
}

/// What follows a page.
enum Then {
    /// The next, by this token.
    More(String),
    /// The watch, from this version.
    Watch(String),
}

/// What a step leads to: a wait for someone else, another step, or something to tell.
type Step = Poll<Option<Result<Event<Tolerant>>>>;

impl<'a> Follower<'a> {
    pub(super) fn new(
        client: Arc<PlaneClient>,
        selection: &super::Selection,
        timeout: u32,
        health: &'a Health,
    ) -> Self {
        Self {
            health,
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
                timeout,
            },
            state: State::Blank,
            version: 0,
            doubt: Doubt::None,
        }
    }

    /// Forgets where it was: it goes on with a new list.
    pub(super) fn begin_anew(&mut self) {
        self.state = State::Blank;
    }

    /// The version up to which all was told, as a number; while a list is read, that of the list.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    fn list(&self, token: Option<String>) -> State {
        // A token stays good for pages of another size.
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
            Form::Small | Form::Large => request.list(&params),
            Form::Metadata => request.list_metadata(&params),
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
            let answer = accepted(client.for_once().send(request).await?).await?;
            let text = answer.collect_bytes().await?;
            Page::read(&text, began.elapsed(), place).map_err(kube::Error::SerdeError)
        };
        page.boxed()
    }

    /// What follows from a page that did not come: asked for otherwise, or an error.
    fn not_listed(&mut self, token: Option<String>, error: kube::Error) -> (State, Step) {
        if is_too_large(&error) && self.pages.too_large() {
            tracing::debug!(path = self.asks.path, pages = ?self.pages, "a page of a list is too large and is asked for in parts");
            return (self.list(token), Poll::Ready(None));
        }
        if is_timeout(&error) || matches!(&error, kube::Error::Api(status) if status.code == 504) {
            self.pages.too_slow();
        }
        // A server may refuse a token that it does not know any more, or for pages of another size.
        let refused = matches!(&error, kube::Error::Api(status) if status.code == 400);
        let state = token.filter(|_| !refused).map_or(State::Blank, State::Listed);
        (state, Poll::Ready(Some(Err(Error::InitialListFailed(error)))))
    }

    /// What follows from a page of a list.
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
        let request = Request::new(&*self.asks.path).watch(&params, &version);
        let client = self.client.for_once();
        let open = async move {
            let request = request.map_err(kube::Error::BuildRequest)?;
            accepted(client.send(request.map(Body::from)).await?).await
        };
        State::Opening(version, open.boxed())
    }

    /// A step from this state to the next.
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
                    // Without a name nothing can be done about it, and it is told as that.
                    let object =
                        Tolerant::read(&object, self.asks.unread).unwrap_or_else(|_| Tolerant::unknown());
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
            State::Watching(version, lines, end) => self.heed(version, lines, end, cx),
        }
    }

    fn ask_version(&self, from: String, watch: Option<Body>) -> State {
        let written = self.health.written.load(Ordering::Relaxed);
        let known = self.version.max(written);
        let question = Question { from, known, watch };
        State::Asking(question, self.page(Form::Metadata, 1, None))
    }

    fn watch(&self, version: String, body: Body) -> State {
        let end = Box::pin(sleep(self.time_asked() + MARGIN));
        State::Watching(version, Lines::new(body, self.asks.unread), end)
    }

    /// How long the server is asked to keep a watch open.
    fn time_asked(&self) -> Duration {
        Duration::from_secs(self.asks.timeout.into())
    }

    /// What follows from the version that the server has.
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
            self.health.written.store(0, Ordering::Relaxed);
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

    /// The next event of an open watch.
    fn heed(
        &mut self,
        version: String,
        mut lines: Lines,
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
                // A server ends its watches with itself, and a proxy those of a server that is gone.
                if Instant::now() + MARGIN * 2 < end.deadline() {
                    self.doubt = self.doubt.max(Doubt::OnceOpen);
                }
                return (State::Known(version), Poll::Ready(None));
            }
            Poll::Ready(Some(Err(error))) => {
                // An event that cannot be read is an event missed.
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

/// A version as a number; API servers promise that it is one.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

impl Page {
    /// Takes a page apart; its objects are not read yet.
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

/// Whether an answer was larger than it may be.
fn is_too_large(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(e) if matches!(e.downcast_ref(), Some(CallError::TooLarge { .. })))
}

/// The body of an answer that is no refusal.
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

impl Stream for Follower<'_> {
    type Item = Result<Event<Tolerant>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let state = std::mem::replace(&mut self.state, State::Blank);
            let (state, step) = self.step(state, cx);
            self.state = state;
            if let Poll::Ready(Some(Err(error))) = &step {
                let doubt = match Cause::of(error).of_plane() {
                    OfPlane::Away(Silence::Silent) => Doubt::First,
                    OfPlane::Away(Silence::Unwell) => Doubt::OnceOpen,
                    OfPlane::Well | OfPlane::Unsaid => Doubt::None,
                };
                self.doubt = self.doubt.max(doubt);
            }
            if !matches!(step, Poll::Ready(None)) {
                return step;
            }
        }
    }
}
