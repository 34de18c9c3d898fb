//! The places of a placement by flags. A placement has one field for them, and flags change no form (contract: locations.md
//! §2.2).

use crate::{error::Error, manifest::field_mut};
use serde_json::{Value, json};

/// Fields that say where, with the pronoun for several or one.
const FIELDS: [(&str, &str); 3] = [
    ("cityCodes", "them"),
    ("locations", "them"),
    ("locationSelector", "it"),
];

/// Sets cities or locations of a placement; both are empty if no flag names them.
pub(super) fn set(
    placement: &mut Value,
    workload: &str,
    cities: &[String],
    locations: &[String],
) -> Result<(), Error> {
    let named: Vec<Value> = locations.iter().map(|name| json!({"name": name})).collect();
    let (flag, field, value) = match (cities, &*named) {
        ([], []) => return Ok(()),
        (_, []) => ("--city", "cityCodes", json!(cities)),
        _ => ("--location", "locations", json!(named)),
    };
    let mut others = FIELDS.iter().filter(|(other, _)| *other != field);
    if let Some((other, pronoun)) = others.find(|(other, _)| !placement[*other].is_null()) {
        let own = placement["name"].as_str().unwrap_or_default();
        let what = format!(
            "placement {own:?} of workload {workload:?} has {other}; {flag} would set {field} beside {pronoun}"
        );
        return Err(Error::usage(what).next("kubectl compute deploy -f FILE"));
    }
    *field_mut(placement, "spec.placements[]", &[field])? = value;
    Ok(())
}
