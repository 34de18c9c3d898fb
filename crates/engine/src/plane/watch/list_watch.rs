//! Lists a kind and then watches it, as kube-runtime's `watcher` does, with the same errors.
//!
//! Thousands of watches are idle at a time. kube-runtime's watchers hold a read buffer and the space of every request
//! that they may ever send; an idle [`Watch`] holds the body of its watch and a timer, and boxes everything else. Of a page
//! it holds the text, and parses one object after the other.

use super::{
    super::{
        client::{CallError, LargePage, SmallAnswer, is_timeout, is_too_large},
        health::is_unwell,
    },
    Watch, WatchEvent,
    line_decoder::LineDecoder,
    pages::Form,
};
use crate::{backoff, object::LenientObject};
use bytes::Bytes;
use kube::{
    client::Body,
    core::{
        ListMeta, Request, Status,
        params::{ListParams, WatchParams},
        watch::WatchEvent as Line,
    },
};
use kube_runtime::watcher::Error;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};

/// Time that a watch may last beyond the timeout requested from the server: a dead link never reports the end of the
/// watch, and a slow link lags further and further behind.
const MARGIN: Duration = Duration::from_secs(5);

/// A watch that the server ends sooner than this after its start is restarted with a delay.
const SHORT: Duration = Duration::from_secs(1);

/// Suspicion that the server was restored to an older state since its last answer. Such a server accepts a watch from a
/// version that it has not reached yet and sends no event, so it must be asked for its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    None,
    /// A watch ended before its time, or a proxy answered instead of the server. The version is requested once a watch
    /// is open: a rejected watch already carries the reason.
    OnceOpen,
    /// The connection broke. The version is requested before the next watch.
    First,
}

/// A page of a list as received.
struct Page {
    objects: Vec<Bytes>,
    metadata: ListMeta,
    bytes: usize,
    took: Duration,
    /// Memory permit of a large page.
    _place: Option<LargePage>,
}

/// The JSON text of a page.
#[derive(Deserialize)]
struct Text<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

impl<S: Fn(WatchEvent), R: Fn(bool)> Watch<'_, S, R> {
    /// Lists and watches. It resumes at its position after an error, and with a new list if its version is gone.
    pub(super) async fn follow(&mut self) {
        let mut position = None;
        loop {
            position = match position.take() {
                None => Box::pin(self.list()).await,
                Some(version) => match Box::pin(self.open(&version)).await {
                    Ok(body) => self.events(version, body).await,
                    Err(error) => Box::pin(self.fails(&error)).await.then_some(version),
                },
            };
        }
    }

    /// Reads a list; returns its version, or `None` if another list has to follow.
    async fn list(&mut self) -> Option<String> {
        self.status.malformed.lock().begin_list();
        (self.sink)(WatchEvent::Init);
        let mut token = None;
        loop {
            // A continue token stays valid for pages of another size.
            let page = self.page(self.pages.form(), self.pages.count(), token.clone());
            let page = match page.await {
                Ok(page) => page,
                Err(error) if is_too_large(&error) && self.pages.too_large() => {
                    tracing::debug!(path = self.path, pages = ?self.pages, "a page of a list is too large and is asked for in parts");
                    continue;
                }
                Err(error) => {
                    let code = code(&error);
                    if is_timeout(&error) || code == 504 {
                        self.pages.too_slow();
                    }
                    let resumes = self.fails(&Error::InitialListFailed(error)).await;
                    // A server may reject a token that has expired, or that is for pages of another size.
                    if !resumes || token.is_none() || code == 400 {
                        return None;
                    }
                    continue;
                }
            };
            self.pages.came(page.objects.len(), page.bytes, page.took);
            let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
            let version = text(&page.metadata.resource_version);
            self.version = version.as_deref().map_or(self.version, number);
            token = text(&page.metadata.continue_);
            if token.is_none() && version.is_none() {
                self.fails(&Error::NoResourceVersion).await;
                return None;
            }
            // The lists are quorum reads: no server returns a list older than the events delivered before. Nothing
            // of this list has been delivered yet.
            if self.version < self.status.highest.fetch_max(self.version, Ordering::Relaxed) {
                self.status.highest.store(0, Ordering::Relaxed);
                (self.sink)(WatchEvent::Rewound);
                return None;
            }
            self.heard();
            for object in &page.objects {
                // An object that cannot be parsed has no name and cannot be reconciled; it is reported as unknown.
                let object = LenientObject::read(object, self.spec.unread);
                let object = self.named(object.unwrap_or_else(|_| LenientObject::unknown()));
                object.map(WatchEvent::InitApply).into_iter().for_each(&self.sink);
            }
            if token.is_none() {
                self.doubt = Doubt::None;
                self.status.malformed.lock().end_list();
                self.status.synced.store(true, Ordering::Relaxed);
                (self.sink)(WatchEvent::InitDone);
                return version;
            }
        }
    }

    async fn page(&mut self, form: Form, count: u32, token: Option<String>) -> kube::Result<Page> {
        let params = ListParams {
            label_selector: self.spec.labels.clone(),
            field_selector: self.spec.fields.clone(),
            limit: Some(count),
            continue_token: token,
            ..ListParams::default()
        };
        let request = Request::new(&*self.path);
        let request = match form {
            Form::Small | Form::Large if !self.spec.metadata_only => request.list(&params),
            Form::Small | Form::Large | Form::Metadata => request.list_metadata(&params),
        };
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        let place = match form {
            Form::Large => self.client.large_page().await,
            Form::Small | Form::Metadata => {
                request.extensions_mut().insert(SmallAnswer);
                None
            }
        };
        let began = Instant::now();
        let text = self.send(request, false).await?.collect_bytes().await?;
        Page::read(&text, began.elapsed(), place).map_err(kube::Error::SerdeError)
    }

    /// Opens a watch from a version, if the server still has that version.
    async fn open(&mut self, version: &str) -> Result<Body, Error> {
        if self.doubt == Doubt::First {
            self.check_version().await?;
        }
        let params = WatchParams {
            label_selector: self.spec.labels.clone(),
            field_selector: self.spec.fields.clone(),
            timeout: Some(self.timeout),
            ..WatchParams::default()
        };
        let request = Request::new(&*self.path);
        let request = if self.spec.metadata_only {
            request.watch_metadata(&params, version)
        } else {
            request.watch(&params, version)
        };
        let request = request.map_err(|error| Error::WatchStartFailed(kube::Error::BuildRequest(error)))?;
        let body = self.send(request, true).await.map_err(Error::WatchStartFailed)?;
        // A watch without changes delivers no event that would show this.
        self.answered();
        if self.doubt != Doubt::None {
            self.check_version().await?;
        }
        Ok(body)
    }

    /// Fails if the server lacks a part of the known state: what the watch has delivered, or a write that was answered.
    async fn check_version(&mut self) -> Result<(), Error> {
        let written = self.status.written.load(Ordering::Relaxed);
        let known = self.version.max(written);
        let page = self.page(Form::Metadata, 1, None).await;
        let page = page.map_err(Error::WatchStartFailed)?;
        self.doubt = Doubt::None;
        let has = page.metadata.resource_version.as_deref().map_or(0, number);
        if has < known {
            self.status.written.store(0, Ordering::Relaxed);
            let status = Status::failure("the server has an older state", "Expired").with_code(410);
            return Err(Error::WatchError(status.boxed()));
        }
        Ok(())
    }

    /// Delivers the events of an open watch; returns the version that it has reached, or `None` if a list has to follow.
    async fn events(&mut self, mut version: String, body: Body) -> Option<String> {
        let end = Instant::now() + Duration::from_secs(self.timeout.into()) + MARGIN;
        let mut late = Box::pin(sleep_until(end));
        let mut lines = LineDecoder::new(body, self.spec.unread, self.client.clone());
        let error = loop {
            let line = tokio::select! {
                biased;
                line = lines.next() => line,
                () = &mut late => {
                    tracing::debug!(path = self.path, "a watch does not end and is begun again");
                    return Some(version);
                }
            };
            match line.map(|line| {
                line.map_err(Error::WatchFailed)
                    .and_then(|line| self.deliver(line))
            }) {
                Some(Ok(at)) => version = at,
                Some(Err(error)) => break error,
                None => {
                    // A server that shuts down ends its watches, and so does a proxy whose server has disappeared.
                    if Instant::now() + MARGIN * 2 < end {
                        self.doubt = self.doubt.max(Doubt::OnceOpen);
                    }
                    return Some(version);
                }
            }
        };
        drop(lines);
        Box::pin(self.fails(&error)).await.then_some(version)
    }

    /// Delivers an event; returns its version.
    fn deliver(&mut self, line: Line<LenientObject>) -> Result<String, Error> {
        let (version, object, is_deleted) = match line {
            Line::Added(object) | Line::Modified(object) => (object.version(), Some(object), false),
            Line::Deleted(object) => (object.version(), Some(object), true),
            Line::Bookmark(mark) => (mark.metadata.resource_version, None, false),
            Line::Error(status) => return Err(Error::WatchError(status)),
        };
        if version.is_empty() {
            return Err(Error::NoResourceVersion);
        }
        self.version = self.version.max(number(&version));
        self.status.highest.fetch_max(self.version, Ordering::Relaxed);
        let Some(object) = object else { return Ok(version) };
        self.heard();
        if let Some(object) = self.named(object) {
            if is_deleted {
                let (namespace, name) = (
                    object.metadata.namespace.as_deref(),
                    object.metadata.name.as_deref(),
                );
                let mut malformed = self.status.malformed.lock();
                malformed.record_readable(namespace.unwrap_or_default(), name.unwrap_or_default());
                drop(malformed);
                (self.sink)(WatchEvent::Delete(object));
            } else {
                (self.sink)(WatchEvent::Apply(object));
            }
        }
        Ok(version)
    }

    /// Sends a request once it may be sent, and records what the answer says of the plane. A request that hangs while the
    /// plane answers another one is abandoned, to be sent again.
    async fn send(&mut self, request: http::Request<Vec<u8>>, is_watch: bool) -> kube::Result<Body> {
        self.await_turn(is_watch).await;
        let client = self.client.one_shot();
        let hangs = async {
            if self.health.is_down() {
                self.health.recovered().await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        let answer = tokio::select! {
            biased;
            answer = client.send(request.map(Body::from)) => answer?,
            () = hangs => return Err(kube::Error::Service(CallError::Superseded.into())),
        };
        let status = answer.status();
        if !is_unwell(status.as_u16()) {
            self.health.success();
        }
        if status.is_success() {
            // Answers before the watch was open say nothing of a failure after it.
            self.answers = !is_watch;
            if is_watch {
                self.opened = Some(Instant::now());
            }
        }
        accepted(answer).await
    }

    /// Waits until a request may be sent. A watch that ends without error is restarted at once, unless each watch ends soon
    /// after its start.
    async fn await_turn(&mut self, is_watch: bool) {
        // The end of a watch that is followed by a list is judged at the next watch.
        let ended = if is_watch { self.opened.take() } else { None };
        if let Some(opened) = ended {
            self.short = if opened.elapsed() < SHORT {
                self.short + 1
            } else {
                0
            };
            if self.short > 0 {
                sleep(backoff::WATCH.delay(self.short - 1, ())).await;
            }
        }
        // A watch that ends without error while the plane is down has not waited for a probe turn yet.
        if !std::mem::take(&mut self.has_turn) {
            self.health.probe_turn().await;
        }
        self.asked = Instant::now();
    }
}

/// A version as a number; API servers guarantee that it is a number.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

/// The code of an error response; 0 of another error.
fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
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
            _place: place,
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
