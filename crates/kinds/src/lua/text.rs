//! Upper and lower case in the library `string`, which in gopher-lua know all of Unicode.

use mlua::{Lua, LuaString, Table};

/// Converts the text to upper or lower case by Unicode, character by character, as Go does.
fn with_case(text: &[u8], is_upper: bool) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(text) else {
        return if is_upper {
            text.to_ascii_uppercase()
        } else {
            text.to_ascii_lowercase()
        };
    };
    let change = |c: char| {
        let changed: Vec<char> = if is_upper {
            c.to_uppercase().collect()
        } else {
            c.to_lowercase().collect()
        };
        if let [one] = changed[..] { one } else { c }
    };
    text.chars().map(change).collect::<String>().into_bytes()
}

/// Replaces Lua's functions in the library `string`.
pub(super) fn install(lua: &Lua, library: &Table) -> mlua::Result<()> {
    for (name, is_upper) in [("lower", false), ("upper", true)] {
        let change = lua.create_function(move |lua, text: LuaString| {
            lua.create_string(with_case(&text.as_bytes(), is_upper))
        })?;
        library.raw_set(name, change)?;
    }
    Ok(())
}
