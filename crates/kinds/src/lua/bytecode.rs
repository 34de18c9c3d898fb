//! Reads Lua 5.1 bytecode: the globals that a script uses, with their lines.
//!
//! The compiler has already resolved all locals, so the linter need not guess scopes from the source. Source of the
//! layout: Lua 5.1 `lundump.c`, `lopcodes.h`.

use std::ops::Range;

/// The kind of access to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reads a global.
    Read,
    /// Assigns a global.
    Write,
    /// Calls a method, e.g. `text:upper()`.
    Method,
    /// Reads a field of a global; the name is `global.field`.
    Field,
    /// Declares a local.
    Local,
    /// Assigns `x and …` to an existing local, where `x` is computed first; no name.
    Chain,
}

/// A use of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) access: Access,
    pub(super) name: String,
    pub(super) line: usize,
}

/// A constant; only strings matter here.
enum Constant {
    Text(String),
    Other,
}

const OP_GETGLOBAL: u32 = 5;
const OP_GETTABLE: u32 = 6;
const OP_SETGLOBAL: u32 = 7;
const OP_SELF: u32 = 11;
const OP_TESTSET: u32 = 27;
/// The bit that marks an operand as a constant.
const CONSTANT_BIT: u32 = 1 << 8;

/// The first bytes of dumped bytecode on machines of 64 bits, little-endian, for which fedgate is built: version 5.1, and the sizes
/// of an integer, a length, an instruction and a number.
const HEADER: &[u8] = b"\x1bLua\x51\0\x01\x04\x08\x04\x08\0";

/// All uses of names in dumped, unstripped bytecode of this process's Lua; `None` if the bytes are no such bytecode.
pub(super) fn uses(bytecode: &[u8]) -> Option<Vec<Use>> {
    let mut reader = Reader(bytecode.strip_prefix(HEADER)?);
    let mut found = Vec::new();
    reader.function(&mut found)?;
    found.sort_by_key(|a| a.line);
    Some(found)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn int(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.int()?).map(|_| read(self)).collect()
    }

    fn text(&mut self) -> Option<String> {
        let length = u64::from_le_bytes(self.take(8)?.try_into().ok()?);
        let bytes = self.take(usize::try_from(length).ok()?)?;
        // The last byte is a terminating zero.
        Some(String::from_utf8_lossy(bytes.split_last().map_or(&[], |(_, text)| text)).into_owned())
    }

    fn constant(&mut self) -> Option<Constant> {
        match self.take(1)? {
            [0] => {}
            [1] => drop(self.take(1)?),
            [3] => drop(self.take(8)?),
            [4] => return self.text().map(Constant::Text),
            _ => return None,
        }
        Some(Constant::Other)
    }

    fn function(&mut self, found: &mut Vec<Use>) -> Option<()> {
        self.text()?; // source
        self.take(8)?; // first and last line
        self.take(4)?; // upvalues, parameters, vararg, stack
        let code = self.list(Self::int)?;
        let constants = self.list(Self::constant)?;
        self.list(|reader| reader.function(found))?;
        let lines = self.list(Self::int)?;
        let locals = self.list(|reader| Some((reader.text()?, reader.int()?..reader.int()?)))?;
        self.list(Self::text)?; // names of upvalues
        scan(&code, &constants, &lines, &locals, found);
        Some(())
    }
}

/// Scans a function. `locals` holds the instruction range in which each local is active; active locals occupy the
/// lowest registers.
fn scan(
    code: &[u32],
    constants: &[Constant],
    lines: &[u32],
    locals: &[(String, Range<u32>)],
    found: &mut Vec<Use>,
) {
    let text = |index: u32| match constants.get(index as usize) {
        Some(Constant::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let mut note = |access, name: &str, at: u32| {
        let line = lines.get(at as usize).map_or(1, |line| *line as usize);
        let name = name.to_owned();
        found.push(Use { access, name, line });
    };
    for (name, range) in locals {
        // A local is active from the instruction after its declaration on; a parameter from the first one on.
        note(Access::Local, name, range.start.saturating_sub(1));
    }
    // The register that the previous instruction loaded a global into.
    let mut loaded: Option<(u32, &str)> = None;
    for (at, instruction) in (0..).zip(code) {
        let (a, b, c) = (
            instruction >> 6 & 0xff,
            instruction >> 23,
            instruction >> 14 & 0x1ff,
        );
        let before = loaded.take();
        let key = || {
            if c & CONSTANT_BIT == 0 {
                None
            } else {
                text(c & !CONSTANT_BIT)
            }
        };
        match instruction & 0x3f {
            OP_GETGLOBAL => {
                if let Some(name) = text(instruction >> 14) {
                    note(Access::Read, name, at);
                    loaded = Some((a, name));
                }
            }
            OP_SETGLOBAL => {
                if let Some(name) = text(instruction >> 14) {
                    note(Access::Write, name, at);
                }
            }
            OP_SELF => {
                if let Some(name) = key() {
                    note(Access::Method, name, at);
                }
            }
            OP_GETTABLE => {
                if let (Some((register, global)), Some(field)) = (before, key())
                    && register == b
                {
                    note(Access::Field, &format!("{global}.{field}"), at);
                }
            }
            OP_TESTSET if c == 0 => {
                let active = locals.iter().filter(|(_, range)| range.contains(&at)).count();
                if (a as usize) < active && b as usize >= active {
                    note(Access::Chain, "", at);
                }
            }
            _ => {}
        }
    }
}
