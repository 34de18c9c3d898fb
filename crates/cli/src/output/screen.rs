//! Text that is drawn again as it changes: in place on a terminal, one after the other elsewhere.

use crate::error::{Error, Kind};
use console::{Term, truncate_str};
use std::io::Write;

/// A place for text that is drawn again.
#[derive(Debug)]
pub(crate) struct Screen {
    stream: Term,
    /// Lines of the last text on a terminal.
    lines: usize,
    is_first: bool,
}

impl Screen {
    /// A place on stdout, for a result.
    pub(crate) fn stdout() -> Self {
        Self::on(Term::stdout())
    }

    /// A place on stderr, for progress.
    pub(crate) fn stderr() -> Self {
        Self::on(Term::stderr())
    }

    fn on(stream: Term) -> Self {
        Self {
            stream,
            lines: 0,
            is_first: true,
        }
    }

    /// True if the text is drawn in place.
    pub(crate) fn is_terminal(&self) -> bool {
        self.stream.features().is_attended()
    }

    /// Draws a text instead of the one before. Elsewhere than on a terminal an empty line is between them.
    pub(crate) fn draw(&mut self, text: &str) -> Result<(), Error> {
        let drawn = if self.is_terminal() {
            let text = self.fitting(text);
            let lines = std::mem::replace(&mut self.lines, text.lines().count());
            self.stream
                .clear_last_lines(lines)
                .and_then(|()| self.stream.write_all(text.as_bytes()))
        } else {
            let between = if self.is_first { "" } else { "\n" };
            self.stream.write_all(format!("{between}{text}").as_bytes())
        };
        self.is_first = false;
        match drawn {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Error::new(Kind::Failed, "cannot write the result").because(error.to_string()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The text as it fits the terminal now: a line that wraps could not be cleared, nor one that has scrolled away.
    fn fitting(&self, text: &str) -> String {
        let (height, width) = self.stream.size();
        let (height, width) = (usize::from(height).max(2), usize::from(width).max(10));
        let all = text.lines().count();
        let shown = if all < height { all } else { height - 2 };
        let lines = text.lines().take(shown);
        let mut fitting: Vec<String> = lines
            .map(|line| truncate_str(line, width, "").into_owned())
            .collect();
        if shown < all {
            fitting.push(format!("... and {} lines more", all - shown));
        }
        fitting.join("\n") + "\n"
    }
}
