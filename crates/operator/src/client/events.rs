//! The stream of `/api/v1/events` (contract: operations.md §2.8). Its content is not read: after each event the document is
//! asked for again.

use bytes::Bytes;
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use std::time::Duration;
use tower::BoxError;

/// A stream is alive at least every 15 s; one that is silent for this long is lost.
const SILENT: Duration = Duration::from_secs(45);

/// Maximum length of a line that is kept: the names of events are short.
const LONGEST: usize = 64;

/// The body of an answer.
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A stream of events.
pub(super) struct Events {
    body: Body,
    lines: Lines,
    /// Events that were read and not yet returned.
    waiting: usize,
}

impl Events {
    /// The events of a body.
    pub(super) fn of(body: Body) -> Self {
        Self {
            body,
            lines: Lines::default(),
            waiting: 0,
        }
    }

    /// Waits for the next event; an error if the stream has ended. No event is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Result<(), String> {
        while self.waiting == 0 {
            let frame = tokio::time::timeout(SILENT, self.body.frame()).await;
            let frame = frame.map_err(|_| "the stream is silent".to_owned())?;
            let frame = frame.ok_or_else(|| "the stream has ended".to_owned())?;
            let frame = frame.map_err(|error| error.to_string())?;
            if let Some(bytes) = frame.data_ref() {
                self.waiting += self.lines.events(bytes);
            }
        }
        // One question answers all events that have come meanwhile.
        self.waiting = 0;
        Ok(())
    }
}

/// The lines of a stream, of which only the beginnings are kept.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    /// True after a line `event:` that counts, until the empty line that ends the event.
    counts: bool,
}

impl Lines {
    /// The number of events that end in these bytes: hello, delta and reset.
    fn events(&mut self, bytes: &[u8]) -> usize {
        let mut events = 0;
        for byte in bytes {
            if *byte != b'\n' {
                if self.line.len() < LONGEST {
                    self.line.push(*byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            match line.strip_prefix(b"event:").map(<[u8]>::trim_ascii) {
                Some(name) => self.counts = matches!(name, b"hello" | b"delta" | b"reset"),
                None if line.is_empty() => events += usize::from(std::mem::take(&mut self.counts)),
                None => {}
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_however_their_bytes_are_cut() {
        let stream = "event: hello\ndata: {}\n\n: alive\n\nid: a-1\nevent: delta\r\ndata: {\"a\":1}\r\n\r\nevent: other\ndata: x\n\nevent:reset\ndata:\n\nevent: delta\ndata: half";
        for size in [1, 2, 7, 1000] {
            let mut lines = Lines::default();
            let events: usize = stream
                .as_bytes()
                .chunks(size)
                .map(|bytes| lines.events(bytes))
                .sum();
            assert_eq!(events, 3, "chunks of {size}");
        }
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let mut lines = Lines::default();
        assert_eq!(lines.events(&vec![b'x'; 1 << 20]), 0);
        assert!(lines.line.len() <= LONGEST);
        assert_eq!(lines.events(b"\nevent: delta\n\n"), 1);
    }
}
