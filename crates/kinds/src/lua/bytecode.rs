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

/// All uses of globals and methods in dumped, unstripped bytecode of this process's Lua; `None` if the bytes are no
/// such bytecode.
pub(super) fn uses(bytecode: &[u8]) -> Option<Vec<Use>> {
    let header = bytecode.get(..12)?;
    if &header[..5] != b"\x1bLuaQ" || header[6] != 1 {
        return None;
    }
    let sizes = Sizes {
        int: header[7].into(),
        size: header[8].into(),
        number: header[10].into(),
    };
    let mut reader = Reader {
        rest: bytecode.get(12..)?,
        sizes,
    };
    let mut found = Vec::new();
    reader.function(&mut found)?;
    found.sort_by_key(|a| a.line);
    Some(found)
}

#[derive(Clone, Copy)]
struct Sizes {
    int: usize,
    size: usize,
    number: usize,
}

struct Reader<'a> {
    rest: &'a [u8],
    sizes: Sizes,
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads a little-endian number of `bytes` bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let taken = self.take(bytes)?;
        Some(
            taken
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
        )
    }

    fn int(&mut self) -> Option<usize> {
        self.number(self.sizes.int)
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number(self.sizes.size)?;
        let bytes = self.take(length)?;
        // The last byte is a terminating zero.
        Some(String::from_utf8_lossy(&bytes[..length.saturating_sub(1)]).into_owned())
    }

    fn constant(&mut self) -> Option<Constant> {
        match self.number(1)? {
            0 => {}
            1 => drop(self.take(1)?),
            3 => drop(self.take(self.sizes.number)?),
            4 => return self.text().map(Constant::Text),
            _ => return None,
        }
        Some(Constant::Other)
    }

    fn function(&mut self, found: &mut Vec<Use>) -> Option<()> {
        self.text()?; // source
        self.int()?; // first line
        self.int()?; // last line
        self.take(4)?; // upvalues, parameters, vararg, stack
        let count = self.int()?;
        let mut code = Vec::with_capacity(count);
        for _ in 0..count {
            code.push(u32::try_from(self.number(4)?).ok()?);
        }
        let count = self.int()?;
        let mut constants = Vec::with_capacity(count);
        for _ in 0..count {
            constants.push(self.constant()?);
        }
        for _ in 0..self.int()? {
            self.function(found)?;
        }
        let count = self.int()?;
        let mut lines = Vec::with_capacity(count);
        for _ in 0..count {
            lines.push(self.int()?);
        }
        let mut locals = Vec::new();
        for _ in 0..self.int()? {
            self.text()?; // name of the local
            locals.push(self.int()?..self.int()?);
        }
        for _ in 0..self.int()? {
            self.text()?; // name of the upvalue
        }
        scan(&code, &constants, &lines, &locals, found);
        Some(())
    }
}

/// Scans a function. `locals` holds the instruction range in which each local is active; active locals occupy the
/// lowest registers.
fn scan(
    code: &[u32],
    constants: &[Constant],
    lines: &[usize],
    locals: &[Range<usize>],
    found: &mut Vec<Use>,
) {
    let text = |index: u32| match constants.get(index as usize) {
        Some(Constant::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let mut note = |access, name: &str, at: usize| {
        let line = lines.get(at).copied().unwrap_or(1);
        found.push(Use {
            access,
            name: name.to_owned(),
            line,
        });
    };
    // The register that the previous instruction loaded a global into.
    let mut loaded: Option<(u32, &str)> = None;
    for (at, instruction) in code.iter().enumerate() {
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
                let active = locals.iter().filter(|range| range.contains(&at)).count();
                if (a as usize) < active && b as usize >= active {
                    note(Access::Chain, "", at);
                }
            }
            _ => {}
        }
    }
}
