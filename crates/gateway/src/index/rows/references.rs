//! The objects that an object of a project references, as its kind's rules find them.

use super::Strings;
use crate::references::{REFERENCE_LIMIT, Reference};
use fedgate_engine::random::HashMap;
use fedgate_kinds::{CompanionKind, CompanionKinds, FederatedKind, Required};
use serde_json::Value;
use std::collections::hash_map::Entry;

/// The references, in order, and the first rule that must name an object and names none.
pub(super) fn read(
    kind: &FederatedKind,
    all: &CompanionKinds,
    object: &Value,
    words: &mut Strings,
) -> (Box<[Reference]>, Option<u8>) {
    let mut found: Vec<Reference> = Vec::new();
    let mut places: HashMap<(CompanionKind, &str), usize> = HashMap::default();
    let mut unnamed = None;
    let rules = kind.companions.iter().flat_map(|c| &c.references);
    let rules = (0_u8..).zip(rules);
    for (place, rule, companion) in rules.filter_map(|(i, rule)| Some((i, rule, all.id(&rule.resource)?))) {
        let mut is_named = false;
        for value in rule.path.all(object) {
            let named = match &rule.name_field {
                Some(field) => value.get(field),
                None => Some(value),
            };
            let Some(name) = named.and_then(Value::as_str).filter(|n| !n.is_empty()) else {
                continue;
            };
            is_named = true;
            let optional = match rule.required {
                Required::Always | Required::IfNamed => false,
                Required::Optional => true,
                Required::UnlessOptional => value.get("optional").and_then(Value::as_bool) == Some(true),
            };
            match places.entry((companion, name)) {
                // An object that is referenced twice, once as required, is required.
                Entry::Occupied(had) => {
                    let had = &mut found[*had.get()];
                    had.optional &= optional;
                    had.before |= rule.before_applied;
                }
                Entry::Vacant(_) if found.len() > REFERENCE_LIMIT => {}
                Entry::Vacant(new) => {
                    new.insert(found.len());
                    found.push(Reference {
                        kind: companion,
                        name: words.intern(name),
                        rule: place,
                        optional,
                        before: rule.before_applied,
                    });
                }
            }
        }
        if rule.required == Required::Always && !is_named {
            unnamed = unnamed.or(Some(place));
        }
    }
    (found.into(), unnamed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_kinds::Query;
    use serde_json::json;

    #[test]
    fn references_keep_their_order_are_named_once_and_end_at_the_limit() {
        let kind = &FederatedKind::builtin().unwrap()[0];
        let found_in = |secrets: Vec<String>| {
            let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
            let object = json!({"spec": {"template": {"spec": {
                "volumes": [{"name": "v", "configMap": {"name": "a", "optional": true}},
                    {"name": "w", "configMap": {"name": "a"}}],
                "runtime": {"sandbox": {"imagePullSecrets": secrets}}}}}});
            read_one(kind, &object).0
        };
        let found = found_in(vec!["z".into(), "a".into(), "z".into()]);
        let names: Vec<(CompanionKind, &str)> = found.iter().map(|r| (r.kind, &*r.name)).collect();
        let (map, secret) = (CompanionKind::CONFIG_MAP, CompanionKind::SECRET);
        assert_eq!(names, [(map, "a"), (secret, "z"), (secret, "a")]);
        assert!(!found[0].optional, "required once is required");
        let many = found_in((0..100_000).map(|n| format!("s-{n}")).collect());
        assert_eq!(many.len(), REFERENCE_LIMIT + 1);
    }

    #[test]
    fn a_path_may_find_the_names_themselves_and_a_source_may_be_optional_by_its_kind() {
        let mut kind = FederatedKind::builtin().unwrap().remove(0);
        let rules = &mut kind.companions.as_mut().unwrap().references;
        rules.truncate(3);
        for (rule, required) in
            rules
                .iter_mut()
                .zip([Required::Optional, Required::IfNamed, Required::Always])
        {
            rule.path = Query::parse("$.spec.names[*]").unwrap();
            rule.name_field = None;
            rule.required = required;
        }
        rules[1].path = Query::parse("$.spec.one").unwrap();
        rules[2].resource.kind = "Lease".to_owned();
        rules[2].path = Query::parse("$.spec.lease").unwrap();
        let object = json!({"spec": {"names": ["a", "", 3, {"name": "b"}, "c"], "one": "d"}});
        let (found, unnamed) = read_one(&kind, &object);
        let found: Vec<_> = found.iter().map(|r| (r.kind, &*r.name, r.optional)).collect();
        let (map, secret) = (CompanionKind::CONFIG_MAP, CompanionKind::SECRET);
        assert_eq!(found, [(map, "a", true), (map, "c", true), (secret, "d", false)]);
        assert_eq!(unnamed, Some(2), "a lease must be named");
    }

    fn read_one(kind: &FederatedKind, object: &Value) -> (Box<[Reference]>, Option<u8>) {
        read(kind, &CompanionKinds::of([kind]), object, &mut Strings::default())
    }
}
