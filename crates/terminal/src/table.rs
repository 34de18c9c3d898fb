//! Tables as kubectl prints them: columns of text with three spaces between them.

use super::style::Tone;
use console::truncate_str;
use unicode_width::UnicodeWidthStr;

/// Columns of the longest cell: a longer text, e.g. a message, would push all others off the screen.
const LONGEST: usize = 200;

/// A cell: its text and the tone of its first word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell whose first word has a tone.
    pub fn toned(text: &str, tone: Tone) -> Self {
        let text = if text.is_empty() { "-" } else { text };
        Self {
            text: truncate_str(&escape(text), LONGEST, "...").into_owned(),
            tone,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::toned(&text, Tone::Plain)
    }
}

/// A table.
#[derive(Debug)]
pub struct Table {
    columns: &'static [&'static str],
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns and without rows.
    pub fn new(columns: &'static [&'static str]) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row, a cell for each column of the widest form.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(
            cells.len(),
            self.columns.len(),
            "a row has a cell for each column"
        );
        self.rows.push(cells);
    }

    /// True if it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text, with the first columns; all if there are not so many.
    pub fn text(&self, columns: usize, headers: bool, colour: bool) -> String {
        self.text_after(columns, headers, colour, &mut Vec::new())
    }

    /// The text of a table that follows another one; `widths` are the columns of that.
    pub fn text_after(&self, columns: usize, headers: bool, colour: bool, widths: &mut Vec<usize>) -> String {
        let all: Vec<usize> = (0..self.rows.len()).collect();
        self.text_of(&all, columns, headers, colour, widths)
    }

    /// The text of some rows. Columns are as wide as these rows need, and at least as wide as before; `widths` keeps that.
    pub fn text_of(
        &self,
        rows: &[usize],
        columns: usize,
        headers: bool,
        colour: bool,
        widths: &mut Vec<usize>,
    ) -> String {
        let names = self.columns.iter().map(|name| Cell::from(*name)).collect();
        let shown = rows.iter().filter_map(|row| self.rows.get(*row));
        let all: Vec<&Vec<Cell>> = headers.then_some(&names).into_iter().chain(shown).collect();
        widths.resize(columns.min(self.columns.len()), 0);
        for (column, width) in widths.iter_mut().enumerate() {
            let cells = all.iter().filter_map(|row| row.get(column));
            *width = cells.map(|cell| cell.text.width()).fold(*width, usize::max);
        }
        all.iter().map(|row| line(row, widths, colour)).collect()
    }

    /// A row without its age, to see whether it has changed.
    pub fn identity(&self, row: usize, columns: usize) -> String {
        let cells = self
            .rows
            .get(row)
            .into_iter()
            .flatten()
            .zip(self.columns)
            .take(columns);
        let texts = cells
            .filter(|(_, name)| **name != AGE)
            .map(|(cell, _)| &*cell.text);
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// The column that changes by itself.
const AGE: &str = "AGE";

fn line(row: &[Cell], widths: &[usize], colour: bool) -> String {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        let (first, rest) = match cell.text.find(' ') {
            Some(at) => cell.text.split_at(at),
            None => (cell.text.as_str(), ""),
        };
        let style = if colour {
            cell.tone.style()
        } else {
            Tone::Plain.style()
        };
        line.extend([
            &style.render().to_string(),
            first,
            &style.render_reset().to_string(),
            rest,
        ]);
        line.extend(std::iter::repeat_n(' ', width - cell.text.width() + 3));
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

/// Escapes the characters that a terminal does not show as they are: a message of a server must not move the cursor,
/// change colours, or order and hide letters.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Escapes each line of a text, and keeps the ends of its lines.
pub fn escape_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(escape).collect();
    lines.join("\n")
}

/// True for separators of lines and paragraphs and for format characters (Unicode Zl, Zp and Cf).
const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "STATUS", "NODE"]);
        table.row(vec![
            "a".into(),
            Cell::toned("Failed (crashing)", Tone::Bad),
            "".into(),
        ]);
        table.row(vec![
            "東京".into(),
            Cell::toned("Available", Tone::Good),
            "x".into(),
        ]);
        table
    }

    #[test]
    fn columns_align_with_wide_characters() {
        assert_eq!(
            table().text(3, true, false),
            "NAME   STATUS              NODE\na      Failed (crashing)   -\n東京   Available           x\n"
        );
        assert_eq!(table().text(1, false, false), "a\n東京\n");
    }

    #[test]
    fn colour_changes_no_width_and_marks_the_word_alone() {
        let coloured = table().text(3, true, true);
        assert!(
            coloured.contains("\u{1b}[31mFailed\u{1b}[0m (crashing)   -"),
            "{coloured:?}"
        );
        let mut plain = coloured;
        for escape in ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[0m"] {
            plain = plain.replace(escape, "");
        }
        assert_eq!(plain, table().text(3, true, false));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
    }

    #[test]
    fn characters_that_hide_or_order_others_are_escaped() {
        for (text, escaped) in [
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{2028}b\u{2029}", "a\\u{2028}b\\u{2029}"),
            ("\u{200b}\u{200d}\u{feff}", "\\u{200b}\\u{200d}\\u{feff}"),
            ("\u{2066}\u{2069}\u{61c}", "\\u{2066}\\u{2069}\\u{61c}"),
            ("a\u{ad}b\u{e0041}", "a\\u{ad}b\\u{e0041}"),
            ("\u{9b}31m", "\\u{9b}31m"),
        ] {
            assert_eq!(escape(text), escaped);
        }
        assert_eq!(escape("Tokyo 東京 é\u{301} ü"), "Tokyo 東京 é\u{301} ü");
        assert_eq!(escape_lines("a\u{7}\nb\r"), "a\\u{7}\nb\\r");
    }

    #[test]
    fn a_cell_has_no_more_than_200_columns() {
        let mut table = Table::new(&["A", "B"]);
        table.row(vec!["東".repeat(150).into(), "b".into()]);
        table.row(vec!["x".repeat(200).into(), "b".into()]);
        table.row(vec!["y".repeat(201).into(), "b".into()]);
        let text = table.text(2, false, false);
        for (line, cell) in
            text.lines()
                .zip(["東".repeat(98) + "... ", "x".repeat(200), "y".repeat(197) + "..."])
        {
            assert_eq!(line, cell + "   b");
        }
    }
}
