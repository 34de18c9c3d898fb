//! Bodies of answers.

use crate::{handle::Content, watch::Watch};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

/// The body of an answer: whole, or a watch's lines as they come.
#[derive(Debug)]
pub struct Body(Inner);

#[derive(Debug)]
enum Inner {
    Whole(Option<Bytes>),
    Watch(Box<Watch>),
}

impl Body {
    pub(crate) fn new(content: Content) -> Self {
        Self(match content {
            Content::Whole(bytes) => Inner::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Content::Watch(watch) => Inner::Watch(watch),
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.0 {
            Inner::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Inner::Watch(watch) => watch
                .poll_line(cx)
                .map(|line| line.map(|line| line.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Inner::Watch(_) => SizeHint::default(),
        }
    }
}
