//! Captures the log lines of a test. A subscriber of one thread alone misses lines: a thread without one that reaches a
//! log macro first disables it for all. So one subscriber serves all tests, and keeps the lines of those that ask.

use serde_json::Value;
use std::{cell::RefCell, io, rc::Rc, sync::Once};
use tracing_subscriber::{Layer, filter::dynamic_filter_fn, fmt, prelude::*};

type Lines = Rc<RefCell<Vec<u8>>>;

/// The least severe level that is captured, and the lines.
type Capture = (tracing::Level, Lines);

thread_local! {
    static CAPTURED: RefCell<Option<Capture>> = const { RefCell::new(None) };
}

struct Sink;

impl io::Write for Sink {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        CAPTURED.with_borrow(|capture| {
            if let Some((_, lines)) = capture {
                lines.borrow_mut().extend_from_slice(text);
            }
        });
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log lines of this thread, until it is dropped.
pub(crate) struct Captured(Lines);

/// Captures the lines of this thread from now on that are of this level or more severe.
pub(crate) fn capture(level: tracing::Level) -> Captured {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let layer = fmt::layer().json().flatten_event(true).with_writer(|| Sink);
        let wanted = dynamic_filter_fn(|metadata, _| {
            CAPTURED.with_borrow(|capture| {
                capture
                    .as_ref()
                    .is_some_and(|(level, _)| metadata.level() <= level)
            })
        });
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(wanted));
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    let lines = Lines::default();
    CAPTURED.set(Some((level, lines.clone())));
    Captured(lines)
}

impl Captured {
    /// The lines since the last call.
    pub(crate) fn take(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.take()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        CAPTURED.set(None);
    }
}
