//! Tests of what is kept of a location.

use crate::index::locations::Location;
use serde_json::{Value, json};

fn read(topology: &Value, conditions: &Value) -> Location {
    let object = json!({"apiVersion": "networking.datumapis.com/v1alpha", "kind": "Location",
        "metadata": {"name": "dfw-1", "namespace": "default"},
        "spec": {"locationClassName": "self-managed", "topology": topology},
        "status": {"conditions": conditions}});
    Location::read(&serde_json::from_value(object).unwrap())
}

/// A tenant may write what it likes into its objects; the memory is everybody's.
#[test]
fn of_a_huge_topology_no_more_is_kept_than_labels_can_be() {
    let mut topology = json!({"long": "x".repeat(64), "x".repeat(318): "long"});
    for n in 0..1_000 {
        topology[format!("key-{n:04}")] = json!("x".repeat(63));
    }
    let kept = read(&topology, &json!([])).topology;
    assert_eq!(kept.len(), 64);
    assert!(kept.keys().all(|key| key.starts_with("key-")));
}

#[test]
fn a_location_is_its_city_and_whether_it_refuses() {
    let location = |city: Option<&str>, refused| (city.map(str::to_owned), refused);
    let read = |topology: &Value, conditions: &Value| {
        let location = read(topology, conditions);
        (location.city.map(|city| city.to_string()), location.refused)
    };
    let dfw = json!({"topology.datum.net/city-code": "DFW", "topology.datum.net/region": "us"});
    let ready =
        |status: &str| json!([{"type": "Other", "status": "False"}, {"type": "Ready", "status": status}]);
    assert_eq!(read(&dfw, &Value::Null), location(Some("DFW"), false));
    assert_eq!(read(&dfw, &ready("Unknown")), location(Some("DFW"), false));
    assert_eq!(read(&dfw, &ready("True")), location(Some("DFW"), false));
    assert_eq!(read(&dfw, &ready("False")), location(Some("DFW"), true));
    let none = json!({"topology.datum.net/region": "us"});
    assert_eq!(read(&none, &ready("True")), location(None, false));
    let odd = json!({"topology.datum.net/city-code": 7});
    assert_eq!(read(&odd, &json!("nonsense")), location(None, false));
    assert_eq!(read(&Value::Null, &Value::Null), location(None, false));
    let empty = json!({"topology.datum.net/city-code": ""});
    assert_eq!(read(&empty, &Value::Null), location(None, false));
}
