//! One Lua state with Karmada's libraries, its refusals and our limits.

use mlua::{HookTriggers, Lua, LuaOptions, MultiValue, StdLib, VmState};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Time for one call, parsing included; Karmada's own limit.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(1);
/// Memory of one state. Karmada has no limit; the peer's scripts use less than 1 MiB.
const MEMORY_LIMIT: usize = 16 << 20;
/// Longest text that a function of `string` takes, in bytes; Karmada's own limit.
pub(super) const TEXT_LIMIT: usize = 1_000_000;
/// Frames that gopher-lua's call stack holds (`CallStackSize`).
const DEPTH_LIMIT: usize = 256;
/// Instructions between two looks at the clock.
const INSTRUCTIONS: u32 = 100;

/// The time left to the running call, shared with the hook.
pub(super) struct Budget {
    start: Instant,
    deadline: AtomicU64,
    spent: AtomicBool,
}

impl Budget {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            deadline: AtomicU64::new(u64::MAX),
            spent: AtomicBool::new(false),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn begin(&self, limit: Duration) {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.spent.store(false, Ordering::Relaxed);
        self.deadline.store(self.now() + limit, Ordering::Relaxed);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// Fails once the time is over, again on each call: `pcall` may have caught the first.
    pub(super) fn check(&self) -> mlua::Result<()> {
        if self.is_spent() || self.now() > self.deadline.load(Ordering::Relaxed) {
            self.spent.store(true, Ordering::Relaxed);
            return Err(mlua::Error::runtime("the time of the call is over"));
        }
        Ok(())
    }
}

/// A state, ready for scripts.
pub(super) struct Vm {
    pub(super) lua: Lua,
    pub(super) budget: Arc<Budget>,
}

/// What Lua itself can do to make the state Karmada's. It runs once, before any script.
const PRELUDE: &str = include_str!("prelude.lua");

impl Vm {
    pub(super) fn new() -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let budget = Budget::new();
        let clock = budget.clone();
        let check = lua.create_function(move |_, values: MultiValue| clock.check().map(|()| values))?;
        lua.load(PRELUDE)
            .set_name("=prelude")
            .call::<()>((check, TEXT_LIMIT))?;
        let clock = budget.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS).on_calls();
        lua.set_hook(triggers, move |lua, _| {
            if lua.inspect_stack(DEPTH_LIMIT, |_| ()).is_some() {
                return Err(mlua::Error::runtime("stack overflow"));
            }
            clock.check().map(|()| VmState::Continue)
        })?;
        lua.set_memory_limit(MEMORY_LIMIT)?;
        Ok(Self { lua, budget })
    }
}
