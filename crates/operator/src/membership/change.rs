//! From the objects that a plane should have to the requests that make it so. Pure.

use fedgate_api::keys::{CELL_UID, HUB};
use serde_json::{Value, json};

/// Label beside it, with the maker of the object: [`Maker`].
pub const MADE_BY: &str = "fedgate.dev/made-by";

/// The maker of the objects of a cell: the value of [`MADE_BY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// The commands `fedgate cells`.
    Command,
    /// The role `fedgate provisioner`. It takes over cells that a command has registered.
    Provisioner,
}

impl Maker {
    /// The value of the label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Provisioner => "provisioner",
        }
    }
}

/// A request that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// POST: the object is not there.
    Create,
    /// Server-side apply of an object that is not there.
    ApplyNew,
    /// Server-side apply with our field manager, without force.
    Apply,
    /// Merge patch with UID and resourceVersion.
    Merge,
    /// Delete with the UID.
    Delete,
}

impl Verb {
    /// The request on an object, for people.
    pub fn of(self, object: &Value) -> String {
        let verb = match self {
            Self::Delete => "delete",
            Self::Merge => "patch",
            Self::Create | Self::ApplyNew => "create",
            Self::Apply => "apply",
        };
        format!("{verb} {}", title(object))
    }
}

/// Kind and name of an object, for people.
pub fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// True if `live` has everything of `wanted`; what else it has, a server's defaults and others' fields, does not count.
pub fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| match live.get(key) {
                Some(live) => contains(live, wanted),
                // Servers leave empty values out.
                None => wanted.is_null() || wanted == &json!({}) || wanted == &json!([]) || wanted == "",
            })
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| contains(live, wanted))
        }
        // Servers write 0.0 as 0.
        (Value::Number(live), Value::Number(wanted)) => live == wanted || live.as_f64() == wanted.as_f64(),
        (live, wanted) => live == wanted,
    }
}

/// The mark of a cell on an object; `None` without.
pub fn mark(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][CELL_UID].as_str()
}

/// True if a deletion of the object has begun.
pub fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The mark on the objects of a cell.
#[derive(Debug, Clone, Copy)]
pub struct CellMark<'a> {
    /// Value of annotation [`CELL_UID`].
    pub cell_uid: &'a str,
    /// The maker.
    pub maker: Maker,
}

impl CellMark<'_> {
    /// The object with the mark of the cell.
    pub fn put_on(self, mut object: Value) -> Value {
        object["metadata"]["annotations"][CELL_UID] = json!(self.cell_uid);
        object["metadata"]["labels"][MADE_BY] = json!(self.maker.as_str());
        object
    }
}

/// The object without the name of its hub, which is a mark, too.
fn unnamed(mut object: Value) -> Value {
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(HUB);
    }
    object
}

/// The apply that makes `live` what is wanted, of the cell with this mark or, without one, of a whole plane; `None` if it is that. An object of another is used and not marked, so that
/// it stays when the cell leaves.
pub fn apply(wanted: Value, live: Option<&Value>, cell: Option<CellMark<'_>>) -> Option<(Verb, Value)> {
    let wanted = match (cell, live) {
        (Some(_), Some(live)) if mark(live).is_none() => unnamed(wanted),
        (Some(cell), _) => cell.put_on(wanted),
        (None, _) => wanted,
    };
    match live {
        Some(live) if contains(live, &wanted) => None,
        Some(_) => Some((Verb::Apply, wanted)),
        None => Some((Verb::ApplyNew, wanted)),
    }
}

/// True if an object that was seen bears the mark, and no deletion of it has begun.
pub fn may_delete(live: &Value, uid: &str) -> bool {
    mark(live) == Some(uid) && !is_going(live)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_command(cell_uid: &str) -> CellMark<'_> {
        let maker = Maker::Command;
        CellMark { cell_uid, maker }
    }

    fn role() -> Value {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
               "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]})
    }

    #[test]
    fn an_absent_object_is_made_with_the_mark() {
        let (verb, object) = apply(role(), None, Some(of_command("member-1"))).unwrap();
        assert_eq!(verb, Verb::ApplyNew);
        assert_eq!(mark(&object), Some("member-1"));
        assert_eq!(object["metadata"]["labels"][MADE_BY], "command");
        assert_eq!(verb.of(&object), "create ClusterRole r");
    }

    #[test]
    fn an_object_that_is_right_is_not_written() {
        let mut live = of_command("member-1").put_on(role());
        live["metadata"]["uid"] = json!("u");
        live["rules"][0]["resourceNames"] = json!([]);
        assert_eq!(apply(role(), Some(&live), Some(of_command("member-1"))), None);
        live["rules"][0]["verbs"] = json!(["list", "delete"]);
        let (verb, object) = apply(role(), Some(&live), Some(of_command("member-1"))).unwrap();
        assert_eq!(verb.of(&object), "apply ClusterRole r");
    }

    #[test]
    fn an_object_of_another_is_used_unmarked_and_never_deleted() {
        assert_eq!(apply(role(), Some(&role()), Some(of_command("member-1"))), None);
        let mut other = role();
        other["rules"] = json!([]);
        let (_, object) = apply(role(), Some(&other), Some(of_command("member-1"))).unwrap();
        assert_eq!(mark(&object), None);
        assert!(!may_delete(&role(), "member-1"));
        assert!(!may_delete(&of_command("member-2").put_on(role()), "member-1"));
        assert!(may_delete(&of_command("member-1").put_on(role()), "member-1"));
    }

    #[test]
    fn lists_count_whole() {
        assert!(!contains(&json!([1, 2]), &json!([1])));
        assert!(contains(&json!([{"a": 1, "b": 2}]), &json!([{"a": 1}])));
        assert!(contains(&json!({}), &json!({"a": [], "b": ""})));
        assert!(!contains(&json!({}), &json!({"a": 0})));
        assert!(contains(&json!({"minimum": 0}), &json!({"minimum": 0.0})));
        assert!(!contains(&json!({"minimum": 1}), &json!({"minimum": 0.0})));
    }
}
