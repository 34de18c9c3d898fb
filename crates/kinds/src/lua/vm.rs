//! A Lua state with Karmada's libraries, its forbidden functions and the limits of this host.

use super::text;
use mlua::{
    HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, VmState,
    debug::{Debug, DebugEvent},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Time limit of a call, parsing included; equal to Karmada's limit.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(1);
/// Memory limit of a state. Karmada has no limit; the peer's scripts use less than 1 MiB.
const MEMORY_LIMIT: usize = 16 << 20;
/// Longest string that a function of `string` accepts, in bytes; equal to Karmada's limit.
const TEXT_LIMIT: usize = 1_000_000;
/// Maximum depth of gopher-lua's call stack, in frames (`CallStackSize`).
const DEPTH_LIMIT: usize = 256;
/// Maximum number of stack levels, frames and lost tail calls, that are inspected to count the frames.
const LEVELS: usize = 4 * DEPTH_LIMIT;
/// Number of instructions between two checks of the deadline.
const INSTRUCTIONS: u32 = 100;

/// The time left to the running call, shared with the hook.
pub(super) struct Budget {
    start: Instant,
    deadline: AtomicU64,
    spent: AtomicBool,
    depth: AtomicUsize,
}

impl Budget {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            deadline: AtomicU64::new(u64::MAX),
            spent: AtomicBool::new(false),
            depth: AtomicUsize::new(0),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn begin(&self, limit: Duration) {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.spent.store(false, Ordering::Relaxed);
        self.depth.store(0, Ordering::Relaxed);
        self.deadline.store(self.now() + limit, Ordering::Relaxed);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// Counts frames; fails where gopher-lua's call stack would overflow.
    fn note_depth(&self, lua: &Lua, debug: &Debug) -> mlua::Result<()> {
        match debug.event() {
            DebugEvent::Call if self.depth.fetch_add(1, Ordering::Relaxed) >= DEPTH_LIMIT => {
                // Calls in tail position take no frame, and caught errors leave no frame but skip the return event:
                // count the frames on the stack.
                let is_frame = |level| lua.inspect_stack(level, |frame| frame.source().what != "tail");
                let frames = (0..LEVELS).map_while(is_frame).filter(|frame| *frame).count();
                self.depth.store(frames, Ordering::Relaxed);
                if frames > DEPTH_LIMIT {
                    return Err(mlua::Error::runtime("stack overflow"));
                }
            }
            DebugEvent::Ret => {
                let less = |depth: usize| Some(depth.saturating_sub(1));
                let _ = self
                    .depth
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            }
            _ => {}
        }
        Ok(())
    }

    /// Fails if the deadline has passed. Every later call fails too, because `pcall` may have caught the first error.
    pub(super) fn check(&self) -> mlua::Result<()> {
        if self.is_spent() || self.now() > self.deadline.load(Ordering::Relaxed) {
            self.spent.store(true, Ordering::Relaxed);
            return Err(mlua::Error::runtime("the time of the call is over"));
        }
        Ok(())
    }
}

/// A Lua state, ready for scripts.
pub(super) struct Vm {
    pub(super) lua: Lua,
    pub(super) budget: Arc<Budget>,
}

/// Lua code that turns the state into Karmada's, as far as Lua itself can do so. It runs once, before any script.
const PRELUDE: &str = include_str!("prelude.lua");

impl Vm {
    /// Creates a state; with `reversed`, `pairs` iterates over string keys backwards.
    pub(super) fn new(reversed: bool) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let budget = Budget::new();
        let clock = budget.clone();
        let check = lua.create_function(move |_, values: MultiValue| clock.check().map(|()| values))?;
        let number = lua.create_function(|_, number: f64| Ok(number_text(number)))?;
        text::install(&lua, &lua.globals().get::<Table>("string")?)?;
        lua.load(PRELUDE)
            .set_name("=prelude")
            .call::<()>((check, number, TEXT_LIMIT, reversed))?;
        let clock = budget.clone();
        let triggers = HookTriggers::new()
            .every_nth_instruction(INSTRUCTIONS)
            .on_calls()
            .on_returns();
        lua.set_hook(triggers, move |lua, debug| {
            clock.note_depth(lua, debug)?;
            clock.check().map(|()| VmState::Continue)
        })?;
        lua.set_memory_limit(MEMORY_LIMIT)?;
        Ok(Self { lua, budget })
    }
}

/// Formats a number as gopher-lua's `tostring` does: integers in full, other numbers with the fewest digits that
/// identify them.
fn number_text(number: f64) -> String {
    #[allow(clippy::cast_possible_truncation)] // the bounds are checked
    if number.fract() == 0.0 && number.abs() < 9.2e18 {
        return (number as i64).to_string();
    }
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if (1e-4..1e21).contains(&number.abs()) && number.abs() < 9.2e18 {
        return number.to_string();
    }
    // Go writes the sign of the exponent and at least two digits.
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent
        .strip_prefix('-')
        .map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}
