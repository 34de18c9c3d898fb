//! Text that is drawn again as it changes: in place on a terminal, one after the other elsewhere.

use crate::{
    error::Error,
    table::escape,
    write::{say, written},
};
use console::{Term, truncate_str};
use std::io::Write;

/// A place for text that is drawn again.
#[derive(Debug)]
pub struct Screen {
    stream: Term,
    /// True for a result, which needs a reader.
    is_result: bool,
    /// Lines of the last text on a terminal.
    lines: usize,
    is_first: bool,
    /// The last text on a terminal, and the line above it.
    text: String,
    notice: String,
}

impl Screen {
    /// A place on stdout, for a result.
    pub fn stdout() -> Self {
        Self::on(Term::stdout(), true)
    }

    /// A place on stderr, for progress.
    pub fn stderr() -> Self {
        Self::on(Term::stderr(), false)
    }

    fn on(stream: Term, is_result: bool) -> Self {
        Self {
            stream,
            is_result,
            lines: 0,
            is_first: true,
            text: String::new(),
            notice: String::new(),
        }
    }

    /// True if the text is drawn in place.
    pub fn is_terminal(&self) -> bool {
        self.stream.features().is_attended()
    }

    /// Shows a notice above the text: on a terminal, a line of its own would be overdrawn and leave a line of the text behind.
    pub fn notice(&mut self, line: &str) -> Result<(), Error> {
        if !self.is_terminal() {
            say(line);
            return Ok(());
        }
        self.notice = escape(line) + "\n";
        let text = self.text.clone();
        self.draw(&text)
    }

    /// Takes the notice away.
    pub fn clear_notice(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.notice).is_empty() {
            return Ok(());
        }
        let text = self.text.clone();
        self.draw(&text)
    }

    /// Draws a text instead of the one before. Elsewhere than on a terminal an empty line is between them.
    pub fn draw(&mut self, text: &str) -> Result<(), Error> {
        let drawn = if self.is_terminal() {
            text.clone_into(&mut self.text);
            let text = self.fitting(&format!("{}{text}", self.notice));
            let lines = std::mem::replace(&mut self.lines, text.lines().count());
            self.stream
                .clear_last_lines(lines)
                .and_then(|()| self.stream.write_all(text.as_bytes()))
        } else {
            let between = if self.is_first { "" } else { "\n" };
            self.stream.write_all(format!("{between}{text}").as_bytes())
        };
        self.is_first = false;
        if self.is_result { written(drawn) } else { Ok(()) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use portable_pty::{PtySize, native_pty_system};
    use std::{fs::File, io::Read};

    /// The lines that a terminal shows after these bytes: of the escapes, only those that `console` sends.
    fn shown(bytes: &str) -> Vec<String> {
        let (mut lines, mut at) = (vec![String::new()], 0);
        let mut rest = bytes;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\r' => {}
                '\n' => at += 1,
                '\u{1b}' => {
                    let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                    let number: usize = rest[1..end].parse().unwrap_or(1);
                    match &rest[end..=end] {
                        "A" => at -= number,
                        "B" => at += number,
                        "K" => lines[at].clear(),
                        other => panic!("{other}"),
                    }
                    rest = &rest[end + 1..];
                }
                c => lines[at].push(c),
            }
            lines.resize(lines.len().max(at + 1), String::new());
        }
        lines.retain(|line| !line.is_empty());
        lines
    }

    #[test]
    fn a_notice_is_above_the_text_and_leaves_no_line_behind() {
        let size = PtySize {
            rows: 24,
            cols: 80,
            ..PtySize::default()
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let slave = File::options()
            .read(true)
            .write(true)
            .open(pair.master.tty_name().unwrap())
            .unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let term = Term::read_write_pair(slave.try_clone().unwrap(), slave);
        let mut screen = Screen::on(term, true);
        assert!(screen.is_terminal());
        let mut written = String::new();
        let mut expect = |screen: &mut Screen, lines: &[&str]| {
            // The end of what was written so far.
            screen.stream.write_all(b"\x00").unwrap();
            let mut byte = [0];
            while reader.read(&mut byte).unwrap() == 1 && byte != [0] {
                written.push(byte[0].into());
            }
            assert_eq!(shown(&written), lines, "{written:?}");
        };
        screen.draw("a\nb\n").unwrap();
        expect(&mut screen, &["a", "b"]);
        screen.notice("no answer").unwrap();
        expect(&mut screen, &["no answer", "a", "b"]);
        screen.draw("c\n").unwrap();
        expect(&mut screen, &["no answer", "c"]);
        screen.clear_notice().unwrap();
        expect(&mut screen, &["c"]);
        screen.draw("d\ne\n").unwrap();
        expect(&mut screen, &["d", "e"]);
    }
}
