//! Lua patterns that can be interrupted.
//!
//! Lua's own matcher runs inside a C function, where no hook runs; a pattern like `a*a*a*a*b` keeps it busy for hours.
//! This matcher checks the deadline. Where gopher-lua differs from PUC Lua it follows gopher-lua (source: its `pm`
//! package): no frontier `%f`, `^` anchors in `gmatch` too, an empty pattern matches at 1.

use super::vm::Budget;

/// Number of matcher steps between two checks of the deadline.
const STEPS: u32 = 10_000;

/// A set of bytes.
#[derive(Clone, Copy, Default)]
struct Class([u64; 4]);

impl Class {
    fn of(test: impl Fn(u8) -> bool) -> Self {
        let mut class = Self::default();
        (0..=u8::MAX)
            .filter(|byte| test(*byte))
            .for_each(|byte| class.add(byte));
        class
    }

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn join(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    fn inverted(self) -> Self {
        Self(self.0.map(|bits| !bits))
    }

    /// The class of `%a`, `%D`, …; any other byte is a class of itself.
    fn named(name: u8) -> Self {
        let class = Self::of(|byte| match name.to_ascii_lowercase() {
            b'a' => byte.is_ascii_alphabetic(),
            b'c' => byte.is_ascii_control(),
            b'd' => byte.is_ascii_digit(),
            b'l' => byte.is_ascii_lowercase(),
            b'p' => byte.is_ascii_punctuation(),
            b's' => byte.is_ascii_whitespace() || byte == 0x0b,
            b'u' => byte.is_ascii_uppercase(),
            b'w' => byte.is_ascii_alphanumeric(),
            b'x' => byte.is_ascii_hexdigit(),
            b'z' => byte == 0,
            _ => byte == name,
        });
        let negated = name.is_ascii_uppercase() && b"acdlpsuwxz".contains(&name.to_ascii_lowercase());
        if negated { class.inverted() } else { class }
    }
}

#[derive(Clone, Copy)]
enum Item {
    /// One byte of the class.
    One(Class),
    /// `*` and `+`: as many bytes as possible, at least this many.
    Most(Class, usize),
    /// `-`: as few bytes as possible.
    Least(Class),
    /// `?`: one byte or none.
    Maybe(Class),
    /// The beginning of a capture; `Close` is its end.
    Open(usize),
    Close(usize),
    /// `()`: a position capture.
    Position(usize),
    /// `%bxy`: a balanced text.
    Balanced(u8, u8),
    /// `%1`: the text of an earlier capture.
    Same(usize),
    /// `$` at the end of the pattern.
    End,
}

impl Item {
    /// Records the position in its capture, if the item opens, closes or is a capture.
    fn mark(self, at: usize, captures: &mut [Capture]) {
        match self {
            Self::Open(index) => captures[index].start = at,
            Self::Close(index) => captures[index].end = at,
            Self::Position(index) => {
                captures[index] = Capture {
                    start: at,
                    end: at,
                    is_position: true,
                };
            }
            _ => {}
        }
    }
}

pub(super) struct Pattern {
    pub(super) anchored: bool,
    items: Vec<Item>,
    captures: usize,
}

fn malformed(why: &str) -> mlua::Error {
    mlua::Error::runtime(format!("malformed pattern ({why})"))
}

impl Pattern {
    pub(super) fn parse(text: &[u8]) -> mlua::Result<Self> {
        let anchored = text.first() == Some(&b'^');
        let mut rest = if anchored { &text[1..] } else { text };
        let mut pattern = Self {
            anchored,
            items: Vec::new(),
            captures: 0,
        };
        let mut open = Vec::new();
        while let Some((first, tail)) = rest.split_first() {
            rest = tail;
            let class = match (first, tail) {
                (b'(', [b')', ..]) => {
                    rest = &tail[1..];
                    pattern.items.push(Item::Position(pattern.captures));
                    pattern.captures += 1;
                    continue;
                }
                (b'(', _) => {
                    open.push(pattern.captures);
                    pattern.items.push(Item::Open(pattern.captures));
                    pattern.captures += 1;
                    continue;
                }
                (b')', _) => {
                    let index = open.pop().ok_or_else(|| malformed("')' without '('"))?;
                    pattern.items.push(Item::Close(index));
                    continue;
                }
                (b'$', []) => {
                    pattern.items.push(Item::End);
                    continue;
                }
                (b'%', [b'b', from, to, ..]) => {
                    rest = &tail[3..];
                    pattern.items.push(Item::Balanced(*from, *to));
                    continue;
                }
                (b'%', [b'b', ..]) => return Err(malformed("%b needs two characters")),
                (b'%', [digit @ b'0'..=b'9', ..]) => {
                    rest = &tail[1..];
                    let index = usize::from(digit - b'0');
                    if index == 0 || index > pattern.captures || open.contains(&(index - 1)) {
                        return Err(mlua::Error::runtime("invalid capture index"));
                    }
                    pattern.items.push(Item::Same(index - 1));
                    continue;
                }
                (b'%', [name, ..]) => {
                    rest = &tail[1..];
                    Class::named(*name)
                }
                (b'%', []) => Class::default(),
                (b'[', _) => {
                    let (class, after) = set(tail)?;
                    rest = after;
                    class
                }
                (b'.', _) => Class::of(|_| true),
                (byte, _) => Class::of(|b| b == *byte),
            };
            let item = match rest.first() {
                Some(b'*') => Item::Most(class, 0),
                Some(b'+') => Item::Most(class, 1),
                Some(b'-') => Item::Least(class),
                Some(b'?') => Item::Maybe(class),
                _ => {
                    pattern.items.push(Item::One(class));
                    continue;
                }
            };
            rest = &rest[1..];
            pattern.items.push(item);
        }
        if open.is_empty() {
            Ok(pattern)
        } else {
            Err(malformed("unfinished capture"))
        }
    }
}

/// Parses a set after its `[`; returns the set and the text after its `]`.
fn set(text: &[u8]) -> mlua::Result<(Class, &[u8])> {
    let unfinished = || malformed("missing ']'");
    let negated = text.first() == Some(&b'^');
    let mut rest = if negated { &text[1..] } else { text };
    let mut class = Class::default();
    let mut first = true;
    loop {
        match rest {
            [] => return Err(unfinished()),
            [b']', after @ ..] if !first => {
                return Ok((if negated { class.inverted() } else { class }, after));
            }
            [b'%', name, after @ ..] => {
                class.join(Class::named(*name));
                rest = after;
            }
            [from, b'-', to, after @ ..] if *to != b']' => {
                class.join(Class::of(|byte| (*from..=*to).contains(&byte)));
                rest = after;
            }
            [byte, after @ ..] => {
                class.add(*byte);
                rest = after;
            }
        }
        first = false;
    }
}

/// A capture: a range of the text, or a position.
#[derive(Clone, Copy, Default)]
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

/// A point to backtrack to if the rest of the pattern does not match.
enum Choice {
    /// Item `next` may begin at any position from `least` to `at - 1`.
    Fewer { next: usize, least: usize, at: usize },
    /// Item `item` may match the byte at `at` too.
    More { item: usize, at: usize },
}

/// The progress of a match: the next item, the position in the text, the captures.
struct Path {
    item: usize,
    at: usize,
    captures: Vec<Capture>,
}

pub(super) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a Pattern,
    budget: &'a Budget,
    steps: u32,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(text: &'a [u8], pattern: &'a Pattern, budget: &'a Budget) -> Self {
        Self {
            text,
            pattern,
            budget,
            steps: 0,
        }
    }

    fn tick(&mut self) -> mlua::Result<()> {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS) {
            self.budget.check()
        } else {
            Ok(())
        }
    }

    /// The first match that begins at `from` or later.
    pub(super) fn search(&mut self, from: usize) -> mlua::Result<Option<Match>> {
        for start in from..=self.text.len() {
            if let Some(found) = self.match_at(start)? {
                return Ok(Some(found));
            }
            if self.pattern.anchored {
                break;
            }
        }
        Ok(None)
    }

    fn match_at(&mut self, start: usize) -> mlua::Result<Option<Match>> {
        let mut path = Path {
            item: 0,
            at: start,
            captures: vec![Capture::default(); self.pattern.captures],
        };
        // Each choice keeps a copy of the captures; patterns have few choices and few captures.
        let mut choices: Vec<(Choice, Vec<Capture>)> = Vec::new();
        loop {
            self.tick()?;
            let Some(current) = self.pattern.items.get(path.item) else {
                return Ok(Some(Match {
                    start,
                    end: path.at,
                    captures: path.captures,
                }));
            };
            if self.step(current, &mut path, &mut choices)? {
                path.item += 1;
                continue;
            }
            match self.resume(&mut choices)? {
                Some(other) => path = other,
                None => return Ok(None),
            }
        }
    }

    /// Matches an item of the pattern and records its alternatives in `choices`; true if the item matches.
    fn step(
        &mut self,
        item: &Item,
        path: &mut Path,
        choices: &mut Vec<(Choice, Vec<Capture>)>,
    ) -> mlua::Result<bool> {
        let Path {
            item: index,
            at,
            captures,
        } = path;
        let here = self.text.get(*at).copied();
        Ok(match item {
            Item::One(class) => {
                *at += 1;
                here.is_some_and(|byte| class.has(byte))
            }
            Item::Most(class, least) => {
                let least = *at + least;
                while self.text.get(*at).is_some_and(|byte| class.has(*byte)) {
                    *at += 1;
                    self.tick()?;
                }
                if *at > least {
                    let (next, at) = (*index + 1, *at);
                    choices.push((Choice::Fewer { next, least, at }, captures.clone()));
                }
                *at >= least
            }
            Item::Least(_) => {
                let (item, at) = (*index, *at);
                choices.push((Choice::More { item, at }, captures.clone()));
                true
            }
            Item::Maybe(class) => {
                if here.is_some_and(|byte| class.has(byte)) {
                    let fewer = Choice::Fewer {
                        next: *index + 1,
                        least: *at,
                        at: *at + 1,
                    };
                    choices.push((fewer, captures.clone()));
                    *at += 1;
                }
                true
            }
            Item::Balanced(from, to) => match self.balanced(*at, *from, *to)? {
                Some(end) => {
                    *at = end;
                    true
                }
                None => false,
            },
            Item::Same(index) => {
                let same = &self.text[captures[*index].start..captures[*index].end];
                let fits = self.text[*at..].starts_with(same);
                *at += same.len();
                fits
            }
            Item::End => *at == self.text.len(),
            Item::Open(_) | Item::Close(_) | Item::Position(_) => {
                item.mark(*at, captures);
                true
            }
        })
    }

    /// Backtracks to the latest remaining choice.
    fn resume(&mut self, choices: &mut Vec<(Choice, Vec<Capture>)>) -> mlua::Result<Option<Path>> {
        while let Some((choice, captures)) = choices.pop() {
            self.tick()?;
            match choice {
                Choice::Fewer { next, least, at } => {
                    let at = at - 1;
                    if at > least {
                        choices.push((Choice::Fewer { next, least, at }, captures.clone()));
                    }
                    return Ok(Some(Path {
                        item: next,
                        at,
                        captures,
                    }));
                }
                Choice::More { item, at } => {
                    let Item::Least(class) = self.pattern.items[item] else {
                        continue;
                    };
                    if self.text.get(at).is_some_and(|byte| class.has(*byte)) {
                        choices.push((Choice::More { item, at: at + 1 }, captures.clone()));
                        return Ok(Some(Path {
                            item: item + 1,
                            at: at + 1,
                            captures,
                        }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The end of the text at `at` that begins with `from` and ends with the balancing `to`.
    fn balanced(&mut self, at: usize, from: u8, to: u8) -> mlua::Result<Option<usize>> {
        if self.text.get(at) != Some(&from) {
            return Ok(None);
        }
        let mut depth = 1;
        for (offset, byte) in self.text[at + 1..].iter().enumerate() {
            self.tick()?;
            if *byte == to {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + offset + 2));
                }
            } else if *byte == from {
                depth += 1;
            }
        }
        Ok(None)
    }
}
