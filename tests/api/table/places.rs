//! Placements in cities, at locations and by selector, and those that break V27 to V29 or their bounds.

use super::Table;
use serde_json::{Value, json};

/// Replaces the first placement by one with these fields.
fn place(t: &mut Table, breaks: Option<&'static str>, name: &'static str, mut fields: Value) {
    let map = fields.as_object_mut().unwrap();
    map.insert("name".to_owned(), json!("us"));
    map.insert("scaleSettings".to_owned(), json!({"minReplicas": 1}));
    t.web(breaks, name, "/placements/0", fields);
}

fn many(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn expression(key: &str, operator: &str, values: &Value) -> Value {
    json!({"locationSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}})
}

pub(super) fn places(t: &mut Table) {
    let city = "topology.datum.net/city-code";
    let locations = json!([{"name": "us-south-1"}, {"name": "EU_west.1"}]);
    let selector = json!({"matchLabels": {city: "DFW"}});
    place(t, None, "locations alone", json!({"locations": locations}));
    place(t, None, "a selector alone", json!({"locationSelector": selector}));
    place(
        t,
        None,
        "a list of values",
        expression(city, "In", &json!(["DFW", "LHR"])),
    );
    place(
        t,
        None,
        "a key without values",
        expression(city, "Exists", &json!([])),
    );
    let v27 = Some("V27");
    place(t, v27, "no place", json!({}));
    place(
        t,
        v27,
        "cities and locations",
        json!({"cityCodes": ["DFW"], "locations": locations}),
    );
    place(
        t,
        v27,
        "cities and a selector",
        json!({"cityCodes": ["DFW"], "locationSelector": selector}),
    );
    place(
        t,
        v27,
        "locations and a selector",
        json!({"locations": locations, "locationSelector": selector}),
    );
    let v28 = Some("V28");
    place(t, v28, "an empty selector", json!({"locationSelector": {}}));
    place(
        t,
        v28,
        "a selector of empty fields",
        json!({"locationSelector": {"matchLabels": {}, "matchExpressions": []}}),
    );
    place(
        t,
        v28,
        "a list without values",
        expression(city, "NotIn", &json!([])),
    );
    place(
        t,
        v28,
        "existence with a value",
        expression(city, "DoesNotExist", &json!(["DFW"])),
    );
    place(
        t,
        Some("V29"),
        "a location twice",
        json!({"locations": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}),
    );
    bounds(t);
}

fn bounds(t: &mut Table) {
    let bad = Some("schema");
    let location = |i| json!({"name": format!("l{i}")});
    place(t, None, "64 locations", json!({"locations": many(64, location)}));
    place(t, bad, "65 locations", json!({"locations": many(65, location)}));
    place(t, bad, "no location in the list", json!({"locations": []}));
    place(
        t,
        bad,
        "no location and a city",
        json!({"locations": [], "cityCodes": ["DFW"]}),
    );
    place(t, bad, "a location without name", json!({"locations": [{}]}));
    place(t, bad, "an empty location", json!({"locations": [{"name": ""}]}));
    place(
        t,
        bad,
        "a location with a space",
        json!({"locations": [{"name": "us south"}]}),
    );
    place(
        t,
        bad,
        "a location of 64 characters",
        json!({"locations": [{"name": "x".repeat(64)}]}),
    );
    let labels = |count: usize| {
        let labels: serde_json::Map<String, Value> =
            (0..count).map(|i| (format!("k{i}"), json!("v"))).collect();
        json!({"locationSelector": {"matchLabels": labels}})
    };
    place(t, None, "16 labels in a selector", labels(16));
    place(t, bad, "17 labels in a selector", labels(17));
    let exists = |i| json!({"key": format!("k{i}"), "operator": "Exists"});
    let expressions = |count| json!({"locationSelector": {"matchExpressions": many(count, exists)}});
    place(t, None, "16 expressions", expressions(16));
    place(t, bad, "17 expressions", expressions(17));
    let values = |count| many(count, |i| json!(format!("v{i}")));
    place(t, None, "64 values", expression("k", "In", &values(64)));
    place(t, bad, "65 values", expression("k", "In", &values(65)));
    place(
        t,
        bad,
        "a value of 64 characters",
        expression("k", "In", &json!(["x".repeat(64)])),
    );
    place(
        t,
        bad,
        "an unknown operator",
        expression("k", "Like", &json!(["v"])),
    );
    place(t, bad, "a key without text", expression("", "Exists", &json!([])));
}
