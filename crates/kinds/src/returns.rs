//! The Secrets of a member that go back to the project, as the folder of a kind describes them.

use super::Query;
use fedgate_api::names;
use serde_json::Value;

/// Most characters of a refused name that are shown: a member may write any text there.
const SHOWN: usize = 253;

/// A Secret that a member has for an object, and that goes back to the project.
#[derive(Debug, Clone)]
pub struct Return {
    /// Where its name comes from.
    pub name: ReturnName,
    /// Patterns of names; a Secret that fits none of them never goes back.
    pub allow: Vec<NamePattern>,
    /// The largest size of its data, in bytes.
    pub max_bytes: u32,
}

/// Where the name of a [`Return`] comes from.
#[derive(Debug, Clone)]
pub enum ReturnName {
    /// A path in the member's object, e.g. `$.status.kubeconfigSecretName`.
    Path(Query),
    /// A text with `{name}` in place of the object's name.
    Pattern(String),
}

/// A pattern of names, in which `*` stands for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// A pattern; `None` if fewer than four of its characters are literal, so that it would fit almost any name.
    pub fn parse(text: &str) -> Option<Self> {
        const LEAST: usize = 4;
        let literal = text.chars().filter(|c| *c != '*').count();
        (literal >= LEAST).then(|| Self(text.to_owned()))
    }

    /// The pattern's text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether a name fits.
    pub fn fits(&self, name: &str) -> bool {
        let Some((begin, rest)) = self.0.split_once('*') else {
            return self.0 == name;
        };
        let Some(mut name) = name.strip_prefix(begin) else {
            return false;
        };
        let mut parts: Vec<&str> = rest.split('*').collect();
        let end = parts.pop().unwrap_or_default();
        for part in parts {
            // The first place is the best: it leaves the most for what follows.
            let Some(at) = name.find(part) else {
                return false;
            };
            name = &name[at + part.len()..];
        }
        name.ends_with(end)
    }
}

impl Return {
    /// Whether a Secret of this name may go back.
    pub fn allows(&self, name: &str) -> bool {
        self.allow.iter().any(|pattern| pattern.fits(name))
    }

    /// The beginning of the text at the path, if that is no name of a Secret that may go back; `None` without a path.
    pub fn refused_name(&self, object: &Value) -> Option<String> {
        let ReturnName::Path(path) = &self.name else {
            return None;
        };
        let name = path.first(object)?.as_str()?;
        let is_refused = !name.is_empty() && self.name_for(object).is_none();
        is_refused.then(|| name.chars().take(SHOWN).collect())
    }

    /// The name of the Secret that goes back for an object, as it is at the member; `None` as long as the object names
    /// none, and for a name that is no object name or not allowed.
    pub fn name_for(&self, object: &Value) -> Option<String> {
        let name = self.rendered(object)?;
        (names::is_object_name(&name) && self.allows(&name)).then_some(name)
    }

    /// The text at the path, or the pattern with the object's name, whether or not it is a name and allowed.
    pub fn rendered(&self, object: &Value) -> Option<String> {
        match &self.name {
            ReturnName::Path(path) => Some(path.first(object)?.as_str()?.to_owned()),
            ReturnName::Pattern(text) => {
                let own = object.pointer("/metadata/name")?.as_str()?;
                Some(text.replace("{name}", own))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pattern(text: &str) -> NamePattern {
        NamePattern::parse(text).unwrap()
    }

    #[test]
    fn a_star_stands_for_any_text_and_everything_else_for_itself() {
        for (text, name, fits) in [
            ("*-app", "lab-app", true),
            ("*-app", "-app", true),
            ("*-app", "lab-app-2", false),
            ("*-app", "lab.app", false),
            ("*-kubeconfig-user", "lab-kubeconfig", false),
            ("lab-*", "lab-", true),
            ("lab-*", "slab-x", false),
            ("a*bb*cc", "abbcc", true),
            ("a*bb*cc", "abcc", false),
            ("a*bb*cc", "a-bb-bb-cc", true),
            ("a*bcb*cb", "abcb", false),
            ("ab**cd", "abcd", true),
            ("exact", "exact", true),
            ("exact", "exactly", false),
        ] {
            assert_eq!(pattern(text).fits(name), fits, "{text} {name}");
        }
        assert!(NamePattern::parse("*app").is_none() && NamePattern::parse("****").is_none());
    }

    #[test]
    fn a_name_comes_from_the_status_or_from_the_objects_name_and_must_be_allowed() {
        let by_path = Return {
            name: ReturnName::Path(Query::parse("$.status.secret").unwrap()),
            allow: vec![pattern("*-user")],
            max_bytes: 1024,
        };
        let object = |secret: Value| json!({"metadata": {"name": "lab"}, "status": {"secret": secret}});
        let name = |secret: Value| by_path.name_for(&object(secret));
        assert_eq!(name(json!("lab-user")).as_deref(), Some("lab-user"));
        let refused = |secret: Value| by_path.refused_name(&object(secret));
        assert_eq!(refused(json!("lab-user")), None);
        assert_eq!(refused(json!("lab-admin")).as_deref(), Some("lab-admin"));
        assert_eq!(
            refused(json!("a".repeat(999))).map(|name| name.len()),
            Some(SHOWN)
        );
        for other in [
            json!("lab-admin"),
            json!("../x-user"),
            json!(""),
            json!(3),
            json!(null),
        ] {
            assert_eq!(name(other.clone()), None, "{other}");
        }
        let by_name = Return {
            name: ReturnName::Pattern("{name}-app".to_owned()),
            allow: vec![pattern("*-app")],
            max_bytes: 1024,
        };
        assert_eq!(by_name.name_for(&object(json!(null))).as_deref(), Some("lab-app"));
        assert_eq!(by_name.name_for(&json!({})), None);
        let long = json!({"metadata": {"name": "a".repeat(253)}});
        assert_eq!(by_name.name_for(&long), None);
        assert_eq!(by_name.refused_name(&long), None, "no status names it");
    }
}
