//! Decodes watch events, one JSON line each; frees each chunk once decoded. A line that is larger than any object of an API
//! server needs the permit of a large page, which few planes have at a time.

use crate::{
    object::{LenientObject, Unread},
    plane::client::{LargePage, PlaneClient},
};
use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use kube::{
    client::Body,
    core::{
        Status, WatchEvent,
        watch::{Bookmark, BookmarkMeta},
    },
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, io, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Maximum length of a line. An object has a few MiB at most.
const LIMIT: usize = 16 * 1024 * 1024;
/// Time for the rest of a large line, from its permit on: a plane must not keep a permit from the others.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum depth of an error's cause chain that is searched.
const CAUSES: usize = 16;

type Event = WatchEvent<LenientObject>;

/// Decoder of watch events; see the module.
pub(super) struct LineDecoder {
    body: Body,
    unread: Unread,
    /// Bytes received and not decoded yet.
    chunk: Bytes,
    /// Start of a line whose end has not arrived.
    begun: Vec<u8>,
    ended: bool,
    client: Arc<PlaneClient>,
    /// The permit of a large line, until its event is handled, and the time until which the line is read.
    permit: Option<(Option<LargePage>, Instant)>,
}

impl LineDecoder {
    /// Decodes the events in `body`, which `client` has opened; skips the field at `unread` of their objects.
    pub(super) fn new(body: Body, unread: Unread, client: Arc<PlaneClient>) -> Self {
        Self {
            body,
            unread,
            chunk: Bytes::new(),
            begun: Vec::new(),
            ended: false,
            client,
            permit: None,
        }
    }

    /// The next event; may be cancelled.
    pub(super) async fn next(&mut self) -> Option<kube::Result<Event>> {
        if !self.is_large() {
            self.permit = None;
        }
        loop {
            if let Some(event) = self.line() {
                return Some(event);
            }
            if self.ended {
                return self.last_line();
            }
            if self.begun.len() > LIMIT {
                return Some(Err(self.end_with(kube::Error::LinesCodecMaxLineLengthExceeded)));
            }
            let frame = if self.is_large() {
                match Box::pin(self.large_frame()).await {
                    Ok(frame) => frame,
                    Err(late) => return Some(Err(self.end_with(kube::Error::ReadEvents(late)))),
                }
            } else {
                self.body.frame().await
            };
            match frame {
                Some(Ok(frame)) => self.chunk = frame.into_data().unwrap_or_default(),
                Some(Err(error)) if !is_end(&error) => {
                    return Some(Err(
                        self.end_with(kube::Error::ReadEvents(io::Error::other(error)))
                    ));
                }
                Some(Err(_)) | None => self.ended = true,
            }
        }
    }

    fn is_large(&self) -> bool {
        self.begun.len() > self.client.page_bytes()
    }

    /// The next part of a large line, once the line has its permit; an error if the time of the line is over.
    async fn large_frame(&mut self) -> io::Result<Option<kube::Result<Frame<Bytes>>>> {
        if self.permit.is_none() {
            let page = self.client.large_page().await;
            self.permit = Some((page, Instant::now() + PATIENCE));
        }
        let until = self
            .permit
            .as_ref()
            .map_or_else(Instant::now, |(_, until)| *until);
        let late = "an event that is larger than any object has not ended in time";
        if until > Instant::now()
            && let Ok(frame) = timeout_at(until, self.body.frame()).await
        {
            return Ok(frame);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, late))
    }

    /// Ends the events after an error, which is the last that is told.
    fn end_with(&mut self, error: kube::Error) -> kube::Error {
        self.ended = true;
        self.begun = Vec::new();
        error
    }

    /// The next complete line, decoded.
    fn line(&mut self) -> Option<kube::Result<Event>> {
        while let Some(end) = self.chunk.iter().position(|byte| *byte == b'\n') {
            let rest = self.chunk.split_to(end + 1);
            let line = rest.get(..end).unwrap_or_default();
            let event = if self.begun.is_empty() {
                understand(line, self.unread)
            } else {
                self.begun.extend_from_slice(line);
                understand(&std::mem::take(&mut self.begun), self.unread)
            };
            if event.is_some() {
                return event;
            }
        }
        self.begun.extend_from_slice(&std::mem::take(&mut self.chunk));
        None
    }

    /// Decodes the bytes after the last line end: half a line is not an event.
    fn last_line(&mut self) -> Option<kube::Result<Event>> {
        understand(&std::mem::take(&mut self.begun), self.unread)
    }
}

/// A line. Its object is parsed separately, so that neither deep nesting nor malformed fields fail the line.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The event of a line; `None` for an empty or incomplete line.
fn understand(line: &[u8], unread: Unread) -> Option<kube::Result<Event>> {
    if line.trim_ascii().is_empty() {
        return None;
    }
    match event(line, unread) {
        Ok(event) => Some(Ok(event)),
        Err(error) if error.is_eof() => None,
        Err(error) => Some(Err(match serde_json::from_slice::<Status>(line) {
            // Any JSON object parses as a `Status` without a code.
            Ok(status) if status.code != 0 => kube::Error::Api(status.boxed()),
            _ => kube::Error::SerdeError(error),
        })),
    }
}

fn event(line: &[u8], unread: Unread) -> serde_json::Result<Event> {
    let Line { kind, object } = serde_json::from_slice(line)?;
    let read = || LenientObject::read(object.get().as_bytes(), unread);
    Ok(match &*kind {
        "ADDED" => WatchEvent::Added(read()?),
        "MODIFIED" => WatchEvent::Modified(read()?),
        "DELETED" => WatchEvent::Deleted(read()?),
        "BOOKMARK" => WatchEvent::Bookmark(mark(&read()?)),
        _ => serde_json::from_slice(line)?,
    })
}

/// A bookmark: only its version is used, whatever else the server has put into it.
fn mark(object: &LenientObject) -> Bookmark {
    Bookmark {
        types: object.object.types.clone().unwrap_or_default(),
        metadata: BookmarkMeta {
            resource_version: object.version(),
            annotations: BTreeMap::default(),
        },
    }
}

/// True if the connection was closed during the watch, which is how many servers end a watch.
fn is_end(error: &kube::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    for _ in 0..CAUSES {
        let Some(error) = cause else { return false };
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof)
            || error.to_string().contains("unexpected EOF during chunk")
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, StreamExt, stream};
    use http::{Request, Response};
    use proptest::{collection::vec, prelude::*, sample::Index};
    use std::convert::Infallible;

    /// Texts of all events and errors of a body received in these pieces.
    async fn read(pieces: &[&'static str]) -> Vec<String> {
        read_bytes(pieces.iter().map(|piece| Bytes::from(*piece)).collect()).await
    }

    async fn read_bytes(pieces: Vec<Bytes>) -> Vec<String> {
        let pieces: Vec<io::Result<Bytes>> = pieces.into_iter().map(Ok).collect();
        let body = axum::body::Body::from_stream(stream::iter(pieces));
        let answer = std::sync::Mutex::new(Some(Response::new(body)));
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = answer.lock().unwrap().take().unwrap();
            async { Ok::<_, Infallible>(answer) }
        });
        let client = kube::Client::new(service, "default");
        let answer = client.send(Request::new(Body::empty())).await.unwrap();
        let client = Arc::new(PlaneClient::of(client));
        let mut lines = LineDecoder::new(answer.into_body(), &[], client);
        let mut said = Vec::new();
        while let Some(event) = lines.next().await {
            said.push(match event {
                Ok(WatchEvent::Added(object)) => object.version(),
                Ok(event) => format!("{event:?}"),
                Err(error) => error.to_string(),
            });
        }
        assert_eq!(
            (lines.begun.capacity(), lines.chunk.len()),
            (0, 0),
            "nothing is held"
        );
        said
    }

    const ONE: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}"#;

    #[tokio::test]
    async fn lines_are_events_wherever_the_pieces_end() {
        let (head, tail) = ONE.split_at(30);
        assert_eq!(read(&[ONE, "\n"]).await, ["1"]);
        assert_eq!(
            read(&[head, tail, "\n\n", head, tail]).await,
            ["1", "1"],
            "the last needs no end"
        );
        assert_eq!(read(&["\n", ONE, "\n", head]).await, ["1"], "half a line is none");
    }

    /// Runs [`read_bytes`] from synchronous code.
    fn all(pieces: Vec<Bytes>) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read_bytes(pieces))
    }

    fn cut(body: &[u8], cuts: &[Index]) -> Vec<Bytes> {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        ends.push(body.len());
        ends.sort_unstable();
        let mut from = 0;
        let pieces = ends.into_iter().map(|end| {
            let piece = Bytes::copy_from_slice(&body[from..end]);
            from = end;
            piece
        });
        pieces.collect()
    }

    proptest! {
        #[test]
        fn events_are_the_same_wherever_a_body_is_cut(
            names in vec(".{0,12}", 1..8),
            cuts in vec(any::<Index>(), 0..12),
        ) {
            let line = |(n, name): (usize, &String)| {
                let metadata = serde_json::json!({"name": name, "resourceVersion": n.to_string()});
                format!("{}\n", serde_json::json!({"type": "ADDED", "object": {"metadata": metadata}}))
            };
            let body: String = names.iter().enumerate().map(line).collect();
            let expected: Vec<String> = (0..names.len()).map(|n| n.to_string()).collect();
            prop_assert_eq!(all(cut(body.as_bytes(), &cuts)), expected);
        }

        #[test]
        fn bytes_of_any_kind_end_and_leave_nothing_behind(pieces in vec(vec(any::<u8>(), 0..64), 0..16)) {
            all(pieces.into_iter().map(Bytes::from).collect());
        }

        #[test]
        fn an_event_with_one_byte_changed_harms_none_after_it(at in any::<Index>(), byte in any::<u8>()) {
            let mut line = ONE.as_bytes().to_vec();
            let at = at.index(line.len());
            line[at] = byte;
            let said = all(vec![Bytes::from(line), Bytes::from("\n"), Bytes::from(ONE), Bytes::from("\n")]);
            prop_assert_eq!(said.last().map(String::as_str), Some("1"));
        }
    }

    /// A client, and a decoder of an event whose first bytes are more than an object may have.
    async fn large(rest: &'static str) -> (Arc<PlaneClient>, LineDecoder) {
        let text = "x".repeat(3 * 1024 * 1024);
        let head = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"},"spec":""#;
        let pieces = [format!("{head}{text}"), rest.to_owned()];
        let pieces = pieces.map(|piece| Ok::<_, io::Error>(Bytes::from(piece)));
        let body = axum::body::Body::from_stream(stream::iter(pieces).chain(stream::pending()));
        let answer = std::sync::Mutex::new(Some(Response::new(body)));
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = answer.lock().unwrap().take().unwrap();
            async { Ok::<_, Infallible>(answer) }
        });
        let client = kube::Client::new(service, "default");
        let answer = client.send(Request::new(Body::empty())).await.unwrap();
        let client = Arc::new(PlaneClient::of(client));
        let lines = LineDecoder::new(answer.into_body(), &[], client.clone());
        (client, lines)
    }

    #[tokio::test]
    async fn a_large_event_is_read_and_handled_with_the_permit_of_a_large_page() {
        let (client, mut lines) = large("\"}}\n").await;
        let other = client.large_page().await;
        assert!(lines.next().now_or_never().is_none());
        drop(other);
        let event = lines.next().await;
        assert!(matches!(event, Some(Ok(WatchEvent::Added(object))) if object.version() == "1"));
        assert!(
            client.large_page().now_or_never().is_none(),
            "it is being handled"
        );
        assert!(lines.next().now_or_never().is_none());
        assert!(client.large_page().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_event_that_does_not_end_keeps_its_permit_for_a_while_only() {
        let (client, mut lines) = large("more").await;
        let event = lines.next().await;
        assert!(matches!(event, Some(Err(kube::Error::ReadEvents(_)))));
        assert!(lines.next().await.is_none(), "the watch is over");
        assert!(client.large_page().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_bookmark_counts_whatever_is_in_it_and_no_object_passes_for_a_status() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        let mark = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"spec\":{deep},\"metadata\":{{\"resourceVersion\":\"7\"}}}}}}\n"
        );
        let other = format!("{{\"type\":\"OTHER\",\"object\":{deep}}}\n");
        let read = read_bytes(vec![mark.into(), other.into()]).await;
        assert_eq!(read[0], "Bookmark event", "{read:?}");
        assert!(!read[1].contains("ApiError"), "{read:?}");
        assert_eq!(read.len(), 2);
    }

    #[tokio::test]
    async fn a_line_that_is_no_event_is_told_and_the_next_ones_count() {
        let status = "{\"kind\":\"Status\",\"status\":\"Failure\",\"code\":500,\"message\":\"no\"}\n";
        let said = read(&["nonsense\n", status, ONE, "\n"]).await;
        assert_eq!(said.len(), 3);
        assert_eq!(said[2], "1");
        assert!(said[1].contains("no"), "{}", said[1]);
    }

    #[tokio::test]
    async fn a_line_is_an_event_however_deep_its_object_is_nested() {
        const DEEP: usize = 100_000;
        let deep = "[".repeat(DEEP) + &"]".repeat(DEEP);
        let line = format!(
            "{{\"type\":\"ADDED\",\"object\":{{\"status\":{deep},\"metadata\":{{\"name\":\"a\",\"resourceVersion\":\"7\"}}}}}}\n"
        );
        let line: &'static str = line.leak();
        let (head, tail) = line.split_at(DEEP);
        assert_eq!(read(&[line, head, tail, ONE]).await, ["7", "7", "1"]);
        assert_eq!(read(&[ONE, "\n", head]).await, ["1"], "half a line is none");
    }
}
