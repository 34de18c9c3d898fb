//! Lua patterns, as regular expressions.
//!
//! Lua's own matcher runs inside a C function, where no hook runs; a pattern like `a*a*a*a*b` keeps it busy for hours. A
//! regular expression takes a time in proportion to its text, and prefers the same match. Where gopher-lua differs from PUC Lua
//! the pattern follows gopher-lua (source: its `pm` package): no frontier `%f`, and `^` anchors in `gmatch`, too. `%b` and
//! `%1` are errors, because no regular expression says what they do.

use regex::bytes::{Regex, RegexBuilder};

/// A class without a byte.
const NOTHING: &str = r"[^\x00-\xff]";

/// A pattern, compiled.
pub(super) struct Pattern {
    pub(super) anchored: bool,
    expression: Regex,
    /// For each capture whether it is a position, `()`.
    positions: Vec<bool>,
}

/// A capture: a range of the text, or a position.
pub(super) struct Capture {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) is_position: bool,
}

/// A match: its range in the text and its captures.
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) captures: Vec<Capture>,
}

fn malformed(why: &str) -> mlua::Error {
    mlua::Error::runtime(format!("malformed pattern ({why})"))
}

impl Pattern {
    pub(super) fn parse(text: &[u8]) -> mlua::Result<Self> {
        let anchored = text.first() == Some(&b'^');
        let mut rest = &text[usize::from(anchored)..];
        let mut expression = String::from(if anchored { r"\A" } else { "" });
        let mut positions = Vec::new();
        while let [first, tail @ ..] = rest {
            rest = tail;
            let class = match (first, tail) {
                (b'(', _) => {
                    positions.push(tail.first() == Some(&b')'));
                    expression.push('(');
                    continue;
                }
                (b')', _) => {
                    expression.push(')');
                    continue;
                }
                (b'$', []) => {
                    expression.push_str(r"\z");
                    continue;
                }
                (b'%', [b'b' | b'0'..=b'9', ..]) => {
                    return Err(malformed("%b and %1 are not available here"));
                }
                (b'%', [name, after @ ..]) => {
                    rest = after;
                    named(*name)
                }
                (b'%', []) => NOTHING.to_owned(),
                (b'[', _) => {
                    let (class, after) = set(tail)?;
                    rest = after;
                    class
                }
                (b'.', _) => r"[\x00-\xff]".to_owned(),
                (byte, _) => literal(*byte),
            };
            expression.push_str(&class);
            let quantifier = match rest.first() {
                Some(b'*') => "*",
                Some(b'+') => "+",
                Some(b'?') => "?",
                Some(b'-') => "*?",
                _ => continue,
            };
            expression.push_str(quantifier);
            rest = &rest[1..];
        }
        let expression = RegexBuilder::new(&expression).unicode(false).build();
        Ok(Self {
            anchored,
            expression: expression
                .map_err(|_| malformed("its parentheses do not match, or it is too long"))?,
            positions,
        })
    }

    /// The first match that begins at `from` or later.
    pub(super) fn search(&self, text: &[u8], from: usize) -> Option<Match> {
        let found = self.expression.captures(text.get(from..)?)?;
        let mut ranges = found
            .iter()
            .flatten()
            .map(|group| (from + group.start(), from + group.end()));
        let (start, end) = ranges.next()?;
        let captures = ranges.zip(&self.positions);
        let captures = captures.map(|((start, end), is_position)| Capture {
            start,
            end,
            is_position: *is_position,
        });
        Some(Match {
            start,
            end,
            captures: captures.collect(),
        })
    }
}

fn literal(byte: u8) -> String {
    format!(r"\x{byte:02x}")
}

/// The class of `%a`, `%D`, …; any other byte is a class of itself.
fn named(name: u8) -> String {
    let class = match name.to_ascii_lowercase() {
        b'a' => "[:alpha:]",
        b'c' => "[:cntrl:]",
        b'd' => "[:digit:]",
        b'l' => "[:lower:]",
        b'p' => "[:punct:]",
        b's' => "[:space:]",
        b'u' => "[:upper:]",
        b'w' => "[:alnum:]",
        b'x' => "[:xdigit:]",
        b'z' => r"\x00",
        _ => return literal(name),
    };
    let not = if name.is_ascii_uppercase() { "^" } else { "" };
    format!("[{not}{class}]")
}

/// Reads a set after its `[`; returns its class and the text after its `]`.
fn set(text: &[u8]) -> mlua::Result<(String, &[u8])> {
    let negated = text.first() == Some(&b'^');
    let all = &text[usize::from(negated)..];
    let (mut rest, mut class) = (all, String::from(if negated { "[^" } else { "[" }));
    loop {
        rest = match rest {
            [] => return Err(malformed("missing ']'")),
            [b']', after @ ..] if rest.len() < all.len() => return Ok((class + "]", after)),
            [b'%', name, after @ ..] => {
                class += &named(*name);
                after
            }
            [from, b'-', to, after @ ..] if *to != b']' => {
                let range = format!("{}-{}", literal(*from), literal(*to));
                class += if from <= to { &range } else { NOTHING };
                after
            }
            [byte, after @ ..] => {
                class += &literal(*byte);
                after
            }
        };
    }
}
