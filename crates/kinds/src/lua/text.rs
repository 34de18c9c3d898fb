//! Functions of the library `string` that differ from PUC Lua's: `find`, `match`, `gmatch`, `upper`, `lower`.

use super::{
    pattern::{Match, Pattern},
    vm::TEXT_LIMIT,
};
use mlua::{Lua, LuaString, MultiValue, Table, Value};

/// The captures of a match as Lua values; without captures the whole match, if `whole`.
fn values(lua: &Lua, text: &[u8], found: &Match, whole: bool) -> mlua::Result<MultiValue> {
    let mut list = MultiValue::new();
    if found.captures.is_empty() && whole {
        list.push_back(Value::String(lua.create_string(&text[found.start..found.end])?));
    }
    for capture in &found.captures {
        list.push_back(if capture.is_position {
            position(capture.start + 1)
        } else {
            Value::String(lua.create_string(&text[capture.start..capture.end])?)
        });
    }
    Ok(list)
}

#[allow(clippy::cast_precision_loss)] // texts are shorter than 1 MB
fn position(at: usize) -> Value {
    Value::Number(at as f64)
}

/// Converts a Lua index to an offset; an index beyond the end becomes the offset after the last byte.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)] // clamped
fn offset(index: Option<f64>, length: usize) -> usize {
    let index = index.unwrap_or(1.0);
    let from_start = if index > 0.0 {
        index - 1.0
    } else if index < 0.0 {
        index + length as f64
    } else {
        0.0
    };
    from_start.clamp(0.0, length as f64 + 1.0) as usize
}

fn checked<const N: usize>(texts: [&LuaString; N]) -> mlua::Result<()> {
    match texts
        .iter()
        .map(|text| text.as_bytes().len())
        .find(|length| *length > TEXT_LIMIT)
    {
        Some(length) => Err(mlua::Error::runtime(format!(
            "string length {length} exceeds the maximum allowed input string length {TEXT_LIMIT} in Karmada lua string \
             lib, please check your lua script."
        ))),
        None => Ok(()),
    }
}

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
        let mut upper = c.to_uppercase();
        let mut lower = c.to_lowercase();
        let parts: &mut dyn ExactSizeIterator<Item = char> = if is_upper { &mut upper } else { &mut lower };
        if parts.len() == 1 {
            parts.next().unwrap_or(c)
        } else {
            c
        }
    };
    text.chars().map(change).collect::<String>().into_bytes()
}

/// Replaces Lua's functions in the library `string`.
pub(super) fn install(lua: &Lua, library: &Table) -> mlua::Result<()> {
    type Args = (LuaString, LuaString, Option<f64>, Value);
    let find = lua.create_function(|lua, (text, pattern, from, plain): Args| {
        checked([&text, &pattern])?;
        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
        let start = offset(from, text.len());
        let none = || MultiValue::from_iter([Value::Nil]);
        if pattern.is_empty() {
            return Ok(MultiValue::from_iter([position(1), position(0)]));
        }
        if !matches!(plain, Value::Nil | Value::Boolean(false)) {
            let rest = text.get(start..).unwrap_or_default();
            let Some(at) = rest
                .windows(pattern.len())
                .position(|window| window == &pattern[..])
            else {
                return Ok(none());
            };
            return Ok(MultiValue::from_iter([
                position(start + at + 1),
                position(start + at + pattern.len()),
            ]));
        }
        let Some(found) = Pattern::parse(&pattern)?.search(&text, start) else {
            return Ok(none());
        };
        let mut list = MultiValue::from_iter([position(found.start + 1), position(found.end)]);
        list.extend(values(lua, &text, &found, false)?);
        Ok(list)
    })?;
    library.raw_set("find", find)?;

    let first = lua.create_function(|lua, (text, pattern, from, _): Args| {
        checked([&text, &pattern])?;
        let text = text.as_bytes();
        let pattern = Pattern::parse(&pattern.as_bytes())?;
        match pattern.search(&text, offset(from, text.len())) {
            Some(found) => values(lua, &text, &found, true),
            None => Ok(MultiValue::new()),
        }
    })?;
    library.raw_set("match", first)?;

    let each = lua.create_function(|lua, (text, pattern): (LuaString, LuaString)| {
        checked([&text, &pattern])?;
        let pattern = Pattern::parse(&pattern.as_bytes())?;
        let mut next = Some(0);
        lua.create_function_mut(move |lua, ()| {
            let text = text.as_bytes();
            let Some(found) = next.and_then(|from| pattern.search(&text, from)) else {
                next = None;
                return Ok(MultiValue::new());
            };
            next = (!pattern.anchored).then(|| found.end.max(found.start + 1));
            values(lua, &text, &found, true)
        })
    })?;
    library.raw_set("gfind", each.clone())?;
    library.raw_set("gmatch", each)?;

    for (name, is_upper) in [("lower", false), ("upper", true)] {
        let change = lua.create_function(move |lua, text: LuaString| {
            checked([&text])?;
            lua.create_string(with_case(&text.as_bytes(), is_upper))
        })?;
        library.raw_set(name, change)?;
    }
    Ok(())
}
