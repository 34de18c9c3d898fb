//! The names of its place that a write-back lacks: its projection has them from the copy (locations.md §2.5).

use super::{HUB, LENIENT, decide, deployment, effects, index, write_back};
use crate::index::{GatewayIndex, TableId};
use fedgate_api::keys;
use fedgate_engine::{
    plan::{Effect, Write},
    plane::watch::WatchEvent,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The labels of a cell that knows these names of its place.
fn written(city: Option<&str>, location: Option<&str>) -> Value {
    let mut w = write_back();
    let labels = w["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove(keys::INSTANCE_CITY_CODE);
    let of_place = [
        (keys::INSTANCE_CITY_CODE, city),
        (keys::INSTANCE_LOCATION, location),
    ];
    for (key, value) in of_place {
        labels.extend(value.map(|value| (key.to_owned(), json!(value))));
    }
    w
}

/// The copy, delivered by its location or by its city, at this place.
fn copy(location: Option<&str>) -> Value {
    let mut copy = deployment("u-copy");
    copy["metadata"]["namespace"] = json!(HUB);
    copy["metadata"]["resourceVersion"] = json!(if location.is_some() { "7" } else { "6" });
    if let Some(location) = location {
        copy["metadata"]["labels"] = json!({keys::LOCATION: location});
        copy["spec"]["locationRef"] = json!({"name": location});
    }
    copy
}

fn hub_event(index: &mut GatewayIndex, table: TableId, value: Value) -> Vec<String> {
    let event = WatchEvent::Apply(serde_json::from_value(value).map(Box::new).unwrap());
    let applied = index.hub_event(table, event);
    let keys = applied.keys(index);
    let instances = keys.iter().filter(|key| key.name.starts_with("web-"));
    instances.map(|key| key.name.to_string()).collect()
}

/// City and location of the projection that is written for a write-back.
fn projected(written: &Value, copy: Value) -> [Option<String>; 2] {
    let mut index = index::crowded(std::slice::from_ref(written));
    hub_event(&mut index, TableId::DEPLOYMENTS, copy);
    of_place(&created(&index, written))
}

/// The effects of the write-back, which has been read.
fn decided(index: &GatewayIndex, written: &Value) -> Vec<Effect> {
    let mut snapshot = index::observed(index, "web-0");
    let row = snapshot.write_back.as_mut().unwrap();
    row.body = Some(Arc::new(serde_json::from_value(written.clone()).unwrap()));
    effects(decide(&snapshot, &LENIENT))
}

fn created(index: &GatewayIndex, written: &Value) -> Value {
    let effects = decided(index, written);
    let [effect] = &effects[..] else {
        panic!("{effects:?}")
    };
    let Write::Create { body, .. } = &effect.write else {
        panic!("{effect:?}");
    };
    body.clone()
}

fn of_place(object: &Value) -> [Option<String>; 2] {
    let label = |key: &str| object["metadata"]["labels"][key].as_str().map(str::to_owned);
    [keys::INSTANCE_CITY_CODE, keys::INSTANCE_LOCATION].map(label)
}

fn names(city: Option<&str>, location: Option<&str>) -> [Option<String>; 2] {
    [city, location].map(|name| name.map(str::to_owned))
}

/// Case 17 of locations.md §4.
#[test]
fn the_name_that_a_write_back_lacks_is_that_of_the_copy_and_its_own_stays() {
    let (city, location) = (Some("DFW"), Some("us-south-1"));
    let both = names(city, location);
    assert_eq!(projected(&written(None, location), copy(location)), both);
    assert_eq!(projected(&written(city, None), copy(location)), both);
    assert_eq!(projected(&written(city, location), copy(location)), both);
    assert_eq!(projected(&written(city, None), copy(None)), names(city, None));
    assert_eq!(
        projected(&written(city, Some("other")), copy(location)),
        names(city, Some("other"))
    );
}

#[test]
fn what_the_copy_adds_is_written_once_and_follows_the_copy() {
    let written = written(Some("DFW"), None);
    let mut index = index::crowded(std::slice::from_ref(&written));
    hub_event(&mut index, TableId::DEPLOYMENTS, copy(None));
    let mut projection = created(&index, &written);
    projection["metadata"]["uid"] = json!("u-p");
    projection["metadata"]["resourceVersion"] = json!("8");
    projection["status"] = super::projection("u-source")["status"].clone();
    index::project_event(&mut index, TableId::INSTANCES, projection.clone());
    assert_eq!(decided(&index, &written), []);

    let enqueued = hub_event(&mut index, TableId::DEPLOYMENTS, copy(Some("us-south-1")));
    assert_eq!(enqueued, ["web-0"], "its copy has got a location");
    let effects = decided(&index, &written);
    let [effect] = &effects[..] else {
        panic!("{effects:?}")
    };
    let Write::Update { body: patch, .. } = &effect.write else {
        panic!("{effect:?}");
    };
    assert_eq!(of_place(patch), names(Some("DFW"), Some("us-south-1")));
    projection["metadata"]["labels"] = patch["metadata"]["labels"].clone();
    let labels = projection["metadata"]["labels"].as_object_mut().unwrap();
    labels.retain(|_, value| !value.is_null());
    projection["metadata"]["resourceVersion"] = json!("9");
    index::project_event(&mut index, TableId::INSTANCES, projection);
    assert_eq!(decided(&index, &written), []);
}
