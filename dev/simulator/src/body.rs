//! Bodies of answers, sound and spoilt.

use crate::{faults::Fault, handle::Content, watch::Watch};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use serde_json::Value;
use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Sleep;

/// The body of an answer: whole, or a watch's lines as they come.
#[derive(Debug)]
pub struct Body {
    source: Source,
    spoil: Spoil,
}

#[derive(Debug)]
enum Source {
    Whole(Option<Bytes>),
    Watch(Box<Watch>),
}

/// What becomes of the bytes on their way.
#[derive(Debug)]
enum Spoil {
    Nothing,
    /// Half of the next piece, then the end; or an error instead of the end.
    Halve {
        error: bool,
    },
    /// The end, or an error first.
    End {
        error: bool,
    },
    Drip(Drip),
    /// A field more in each object.
    Swell(Swell),
}

/// A field that no API server sends.
#[derive(Debug, Clone, Copy)]
enum Swell {
    Padding(usize),
    Nesting(usize),
}

impl Swell {
    /// The field in each object of an answer, or of a watch's line; what is neither stays as it is.
    fn apply(self, piece: Bytes) -> Bytes {
        let Ok(mut answer) = serde_json::from_slice::<Value>(&piece) else {
            return piece;
        };
        if let Some(items) = answer.get_mut("items").and_then(Value::as_array_mut) {
            for item in items {
                self.swell(item);
            }
        } else if let Some(object) = answer.get_mut("object") {
            self.swell(object);
        } else {
            self.swell(&mut answer);
        }
        let line_end = piece.last().filter(|last| **last == b'\n').map(|_| "\n");
        format!("{answer}{}", line_end.unwrap_or_default()).into()
    }

    fn swell(self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return;
        };
        let field = match self {
            Self::Padding(bytes) => Value::String("x".repeat(bytes)),
            Self::Nesting(levels) => (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner])),
        };
        metadata.insert("swollen".to_owned(), field);
    }
}

/// A few bytes at a time.
#[derive(Debug)]
struct Drip {
    bytes: usize,
    every: Duration,
    rest: Bytes,
    sleep: Option<Pin<Box<Sleep>>>,
}

type Piece = Option<io::Result<Bytes>>;

impl Source {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        match self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(Ok)),
            Self::Watch(watch) => watch.poll_line(cx),
        }
    }
}

impl Body {
    pub(crate) fn new(content: Content, fault: Option<&Fault>) -> Self {
        let source = match content {
            Content::Whole(bytes) => Source::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Content::Watch(watch) => Source::Watch(watch),
        };
        let spoil = match (fault, &source) {
            (Some(Fault::TruncatedLine), _) => Spoil::Halve { error: false },
            (Some(Fault::Reset), Source::Watch(_)) => Spoil::End { error: true },
            (Some(Fault::Reset), Source::Whole(_)) => Spoil::Halve { error: true },
            (Some(Fault::SlowDrip { bytes, every }), _) => Spoil::Drip(Drip {
                bytes: (*bytes).max(1),
                every: *every,
                rest: Bytes::new(),
                sleep: None,
            }),
            (Some(Fault::Padded { bytes }), _) => Spoil::Swell(Swell::Padding(*bytes)),
            (Some(Fault::Nested { levels }), _) => Spoil::Swell(Swell::Nesting(*levels)),
            _ => Spoil::Nothing,
        };
        Self { source, spoil }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Piece> {
        match &mut self.spoil {
            Spoil::Nothing => self.source.poll(cx),
            Spoil::Halve { error } => {
                let error = *error;
                let piece = ready!(self.source.poll(cx));
                self.spoil = Spoil::End { error };
                Poll::Ready(piece.map(|piece| piece.map(|bytes| bytes.slice(..bytes.len() / 2))))
            }
            Spoil::End { error } => {
                let broken = *error;
                *error = false;
                Poll::Ready(broken.then(|| Err(io::ErrorKind::ConnectionReset.into())))
            }
            Spoil::Drip(drip) => drip.poll(&mut self.source, cx),
            Spoil::Swell(swell) => {
                let swell = *swell;
                let piece = ready!(self.source.poll(cx));
                Poll::Ready(piece.map(|piece| piece.map(|bytes| swell.apply(bytes))))
            }
        }
    }
}

impl Drip {
    fn poll(&mut self, source: &mut Source, cx: &mut Context<'_>) -> Poll<Piece> {
        if self.rest.is_empty() {
            match ready!(source.poll(cx)) {
                Some(Ok(bytes)) => self.rest = bytes,
                end => return Poll::Ready(end),
            }
        }
        let every = self.every;
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(every)));
        ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        let drop = self.rest.split_to(self.bytes.min(self.rest.len()));
        Poll::Ready(Some(Ok(drop)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.poll_piece(cx)
            .map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!((&self.source, &self.spoil), (Source::Whole(None), Spoil::Nothing))
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.source, &self.spoil) {
            (Source::Whole(bytes), Spoil::Nothing) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            _ => SizeHint::default(),
        }
    }
}
