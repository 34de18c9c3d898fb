//! Conversion of JSON to Lua and back, as in Karmada.
//!
//! Source: karmada-io/karmada `luavm/lua_convert.go` and layeh.com/gopher-json. An empty Lua table can be an empty map
//! or an empty list, so the conversion to JSON has to guess: see [`settle_empties`].

use super::LuaError;
use mlua::{Lua, Table, Value as LuaValue};
use serde_json::{Map, Number, Value};
use std::collections::{BTreeSet, HashSet};

/// Maximum nesting of a result. Karmada has no such limit; Kubernetes objects are far below it.
const DEPTH_LIMIT: usize = 256;

/// Converts JSON to Lua: every number becomes a float, nulls are dropped (in lists too: later items move up).
pub(super) fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Null => LuaValue::Nil,
        Value::Bool(flag) => LuaValue::Boolean(*flag),
        Value::Number(number) => LuaValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items.iter().filter(|item| !item.is_null()) {
                table.raw_push(to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (key, field) in fields {
                table.raw_set(key.as_str(), to_lua(lua, field)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

/// Converts a result to JSON in which every empty table is `[]`.
pub(super) fn to_json(value: &LuaValue) -> Result<Value, LuaError> {
    encode(value, &mut HashSet::new(), 0)
}

fn encode(value: &LuaValue, seen: &mut HashSet<usize>, depth: usize) -> Result<Value, LuaError> {
    Ok(match value {
        LuaValue::Nil => Value::Null,
        LuaValue::Boolean(flag) => Value::Bool(*flag),
        LuaValue::Integer(number) => Value::from(*number),
        LuaValue::Number(number) => encode_number(*number)?,
        LuaValue::String(text) => Value::String(encode_text(&text.as_bytes())),
        LuaValue::Table(table) => {
            if !seen.insert(table.to_pointer() as usize) {
                let why = "a table is reached twice; Karmada refuses shared tables, copy it";
                return Err(LuaError::Result(why.to_owned()));
            }
            if depth == DEPTH_LIMIT {
                return Err(LuaError::Result(format!(
                    "tables are nested deeper than {DEPTH_LIMIT}"
                )));
            }
            encode_table(table, seen, depth + 1)?
        }
        other => return Err(LuaError::Result(format!("it holds a {}", other.type_name()))),
    })
}

/// Encodes whole numbers as JSON integers, as Go formats a float64 without a fraction.
fn encode_number(number: f64) -> Result<Value, LuaError> {
    #[allow(clippy::cast_possible_truncation)] // the bounds are checked
    if number.fract() == 0.0 && number.abs() < 9.2e18 {
        return Ok(Value::from(number as i64));
    }
    Number::from_f64(number)
        .map(Value::Number)
        .ok_or_else(|| LuaError::Result(format!("{number} is no JSON number")))
}

/// Replaces each byte that is no UTF-8 by U+FFFD, as Go does.
fn encode_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

fn encode_table(table: &Table, seen: &mut HashSet<usize>, depth: usize) -> Result<Value, LuaError> {
    let mut numbered = Vec::new();
    let mut named = Map::new();
    let broken = |error: mlua::Error| LuaError::Result(error.to_string());
    for pair in table.pairs::<LuaValue, LuaValue>() {
        let (key, value) = pair.map_err(broken)?;
        match key {
            LuaValue::String(key) => {
                named.insert(encode_text(&key.as_bytes()), encode(&value, seen, depth)?);
            }
            #[allow(clippy::cast_precision_loss)] // an index that loses precision belongs to no list
            LuaValue::Integer(key) => numbered.push((key as f64, value)),
            LuaValue::Number(key) => numbered.push((key, value)),
            other => {
                return Err(LuaError::Result(format!(
                    "a table has a key of type {}",
                    other.type_name()
                )));
            }
        }
    }
    match (numbered.is_empty(), named.is_empty()) {
        (true, true) => Ok(Value::Array(Vec::new())),
        (true, false) => Ok(Value::Object(named)),
        (false, false) => Err(LuaError::Result(
            "a table mixes numbers and names as keys".to_owned(),
        )),
        (false, true) => {
            numbered.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut items = Vec::with_capacity(numbered.len());
            let mut expected = 1.0;
            for (key, value) in numbered {
                if key.total_cmp(&expected).is_ne() {
                    let why = format!("a list has holes: item {expected} is missing before {key}");
                    return Err(LuaError::Result(why));
                }
                items.push(encode(&value, seen, depth)?);
                expected += 1.0;
            }
            Ok(Value::Array(items))
        }
    }
}

/// The paths of empty maps and lists in the references; paths have no list indices.
#[derive(Default)]
struct Empties {
    lists: BTreeSet<String>,
    maps: BTreeSet<String>,
}

impl Empties {
    fn collect(&mut self, value: &Value, path: &str) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.note(item, path)),
            Value::Object(fields) => fields
                .iter()
                .for_each(|(key, field)| self.note(field, &join(path, key))),
            _ => {}
        }
    }

    fn note(&mut self, value: &Value, path: &str) {
        match value {
            Value::Array(items) if items.is_empty() => drop(self.lists.insert(path.to_owned())),
            Value::Object(fields) if fields.is_empty() => drop(self.maps.insert(path.to_owned())),
            other => self.collect(other, path),
        }
    }
}

fn join(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Decides the type of each empty table below the top: a map if a reference has an empty map at its path, a list if a
/// reference has an empty list there; otherwise the table is dropped. Its parent stays, even if it becomes empty.
///
/// Karmada drops several items of a list in random order; such a result is rejected here.
pub(super) fn settle_empties(value: Value, references: &[&Value]) -> Result<Value, LuaError> {
    let mut empties = Empties::default();
    for reference in references {
        empties.collect(reference, "");
    }
    let settled = settled(value, &empties, "")?;
    Ok(settled.unwrap_or(Value::Array(Vec::new())))
}

/// The value without the tables that are dropped; `None` if it is one of them.
fn settled(value: Value, empties: &Empties, path: &str) -> Result<Option<Value>, LuaError> {
    Ok(Some(match value {
        Value::Array(items) if items.is_empty() && empties.maps.contains(path) => Value::Object(Map::new()),
        Value::Array(items) if items.is_empty() => {
            return Ok(empties.lists.contains(path).then_some(Value::Array(items)));
        }
        Value::Array(items) => {
            let (mut kept, mut dropped) = (Vec::new(), None);
            for (at, item) in (1..).zip(items) {
                if let Some(first) = dropped.filter(|_| has_empty(&item)) {
                    let why = format!(
                        "the list at {path} has an empty table as item {first} and another below a later item; Karmada drops \
                         them in random order, leave empty items out"
                    );
                    return Err(LuaError::Result(why));
                }
                match settled(item, empties, path)? {
                    Some(item) => kept.push(item),
                    None => dropped = Some(at),
                }
            }
            Value::Array(kept)
        }
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (key, field) in fields {
                if let Some(field) = settled(field, empties, &join(path, &key))? {
                    kept.insert(key, field);
                }
            }
            Value::Object(kept)
        }
        other => other,
    }))
}

/// True if the value is, or contains, an empty table.
fn has_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty),
        Value::Object(fields) => fields.values().any(has_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{
        collection::{btree_map, vec},
        prelude::*,
    };
    use serde_json::json;

    /// Generates JSON; if `exact`, without the values that Lua cannot distinguish, so that a round trip returns the
    /// same value.
    fn json(exact: bool) -> impl Strategy<Value = Value> {
        let least = usize::from(exact);
        let number = prop_oneof![
            (-9_007_199_254_740_992_i64..=9_007_199_254_740_992).prop_map(Value::from),
            any::<i32>().prop_map(|n| json!(f64::from(n) + 0.5)),
        ];
        let other = if exact {
            any::<bool>().prop_map(Value::from).boxed()
        } else {
            prop_oneof![Just(Value::Null), any::<f64>().prop_map(|n| json!(n))].boxed()
        };
        let leaf = prop_oneof![number, ".{0,8}".prop_map(Value::from), other];
        leaf.prop_recursive(6, 64, 6, move |inner| {
            prop_oneof![
                vec(inner.clone(), least..6).prop_map(Value::from),
                btree_map(".{0,6}", inner, least..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_goes_to_lua_comes_back(value in json(true)) {
            let lua = Lua::new();
            let there = to_lua(&lua, &value).unwrap();
            prop_assert_eq!(to_json(&there).unwrap(), value);
        }

        #[test]
        fn any_json_and_any_reference_end_in_a_result(value in json(false), reference in json(false)) {
            let lua = Lua::new();
            let there = to_lua(&lua, &value).unwrap();
            if let Ok(back) = to_json(&there) {
                drop(settle_empties(back, &[&value, &reference]));
            }
        }
    }

    #[test]
    fn tables_without_end_are_refused() {
        let lua = Lua::new();
        for script in [
            "local t = {} t.t = t return t",
            "local t = {{}} t[2] = t[1] return t",
            "local top = {} local t = top for i = 1, 100000 do t.x = {} t = t.x end return top",
            "return {[1] = 1, [1e300] = 2}",
            "return {0 / 0, 1 / 0}",
        ] {
            let value: LuaValue = lua.load(script).eval().unwrap();
            assert!(to_json(&value).is_err(), "{script}");
        }
    }
}
