//! Tests of the objects that tell a project's locations (locations.md §2.1, number 3).

use super::observe::{ALL, NOTHING, Scene, leaving, location, wide_location};
use super::*;
use crate::{
    index::{Resources, TableId, locations::LocationKind, networking::WorkloadChecks},
    settings::LocationSource,
};
use kube::core::ApiResource;

const LOCATION: TableId = TableId::Locations(LocationKind::Location);
const BINDING: TableId = TableId::Locations(LocationKind::Binding);
const NETWORK_LOCATION: TableId = TableId::Locations(LocationKind::NetworkLocation);

fn scene(locations: LocationSource) -> Scene {
    Scene::new(WorkloadChecks {
        locations,
        ..WorkloadChecks::default()
    })
}

fn kinds(all: &[LocationKind]) -> Vec<ApiResource> {
    all.iter().map(|kind| resource(*kind)).collect()
}

fn resource(kind: LocationKind) -> ApiResource {
    Resources::default()[TableId::Locations(kind)].clone()
}

fn availability() -> ApiResource {
    Resources::default()[TableId::Availabilities].clone()
}

/// A `ServiceAvailability`, named by its service and location.
fn available(service: &str, location: &str, status: &str) -> Value {
    json!({"apiVersion": "services.miloapis.com/v1alpha1", "kind": "ServiceAvailability",
        "metadata": {"name": format!("{service}-{location}"), "uid": format!("{service}-{location}")},
        "spec": {"serviceRef": {"name": service}, "locationRef": {"name": location}},
        "status": {"conditions": [{"type": "Available", "status": status}]}})
}

#[test]
fn the_first_kind_that_is_served_counts() {
    use LocationKind::{Binding, Location, NetworkLocation};
    use LocationSource::{Auto, Locations, NetworkServices};
    let cases: [(LocationSource, &[LocationKind], Option<TableId>); 8] = [
        (Auto, &LocationKind::ALL, Some(LOCATION)),
        (Auto, &[NetworkLocation, Binding], Some(BINDING)),
        (Auto, &[NetworkLocation], Some(NETWORK_LOCATION)),
        (Auto, &[], None),
        (Locations, &LocationKind::ALL, Some(LOCATION)),
        (Locations, &[Binding, NetworkLocation], None),
        (NetworkServices, &LocationKind::ALL, Some(BINDING)),
        (
            NetworkServices,
            &[Location, NetworkLocation],
            Some(NETWORK_LOCATION),
        ),
    ];
    for (source, served, table) in cases {
        let mut index = scene(source);
        assert_eq!(
            index.decided(),
            [],
            "{source:?}: nothing is decided before it is known"
        );
        let (watched, unwatched, _) = index.discovers(&kinds(served));
        assert_eq!(watched, Vec::from_iter(table), "{source:?} {served:?}");
        assert_eq!(unwatched, []);
    }
}

/// Case 25 of locations.md §4.
#[test]
fn a_project_without_any_kind_is_not_checked_unless_a_source_is_fixed() {
    let mut index = scene(LocationSource::Auto);
    let (watched, _, enqueued) = index.discovers(&[]);
    assert_eq!(
        (watched, enqueued),
        (vec![], vec!["lone".to_owned(), "shop".to_owned()])
    );
    assert_eq!(words(&index.decided()), ALL);
    assert_eq!(index.discovers(&[]).2, NOTHING, "and said once");
    let mut index = scene(LocationSource::Locations);
    let found = index.discovers(&[]);
    assert_eq!(found, (vec![], vec![], vec![]));
    assert_eq!(
        index.decided(),
        [],
        "the Workloads wait for the kind that was asked for"
    );
}

/// Nothing is asked for once the first kind and the availability are there.
#[test]
fn a_better_kind_that_is_served_later_takes_over_and_a_lesser_one_never() {
    let mut index = scene(LocationSource::Auto);
    index.discovers(&kinds(&[LocationKind::NetworkLocation]));
    index.list(
        NETWORK_LOCATION,
        [wide_location("dfw-1", "DFW"), wide_location("iad-1", "IAD")],
    );
    assert_eq!(
        index.wanted(),
        [LocationKind::Location, LocationKind::Binding]
            .map(resource)
            .into_iter()
            .chain([availability()])
            .collect::<Vec<_>>()
    );
    let (watched, unwatched, enqueued) = index.discovers(&kinds(&[LocationKind::Location]));
    assert_eq!((watched, unwatched), (vec![LOCATION], vec![NETWORK_LOCATION]));
    assert_eq!(enqueued, NOTHING, "until its list is complete, nothing changes");
    assert_eq!(index.decided(), []);
    assert_eq!(
        index.apply(NETWORK_LOCATION, wide_location("lhr-1", "LHR")),
        NOTHING,
        "a late event of the kind before"
    );
    assert_eq!(
        index.list(LOCATION, [wide_location("dfw-1", "DFW")]),
        ["lone", "shop"]
    );
    assert_eq!(
        index.apply(NETWORK_LOCATION, wide_location("lhr-1", "LHR")),
        NOTHING,
        "and one that comes later still"
    );
    assert_eq!(index.serving(), ["DFW"]);
    assert_eq!(index.wanted(), [availability()]);
    let (watched, unwatched, _) = index.discovers(&kinds(&[LocationKind::Binding]));
    assert_eq!((watched, unwatched), (vec![], vec![]));
    index.discovers(&[availability()]);
    assert_eq!(index.wanted(), []);
}

#[test]
fn a_binding_is_a_location_of_its_name() {
    let mut index = scene(LocationSource::Auto);
    index.discovers(&kinds(&[LocationKind::Binding]));
    let binding = json!({"apiVersion": "networking.datumapis.com/v1alpha", "kind": "LocationBinding",
        "metadata": {"name": "dfw-1", "uid": "dfw-1"},
        "spec": {"locationRef": {"name": "dfw-1"}, "topology": {"topology.datum.net/city-code": "DFW"}},
        "status": {"conditions": [{"type": "Available", "status": "False"}]}});
    index.list(BINDING, [binding]);
    assert_eq!(index.serving(), ["DFW"], "its condition is not read");
}

#[test]
fn where_availability_is_served_a_location_needs_one_of_the_service() {
    let mut index = scene(LocationSource::Auto);
    index.discovers(&[resource(LocationKind::Location), availability()]);
    let enqueued = index.list(
        LOCATION,
        [wide_location("dfw-1", "DFW"), wide_location("iad-1", "IAD")],
    );
    assert_eq!(enqueued, NOTHING, "the other list is missing");
    assert_eq!(index.decided(), []);
    let table = TableId::Availabilities;
    let enqueued = index.list(
        table,
        [
            available("compute", "dfw-1", "True"),
            available("dns", "iad-1", "True"),
            available("compute", "iad-1", "False"),
        ],
    );
    assert_eq!(enqueued, ["lone", "shop"]);
    assert_eq!(index.serving(), ["DFW"]);
    assert_eq!(words(&index.decided()), ["create shop-us-dfw us/DFW", "status"]);

    assert_eq!(
        index.apply(table, available("compute", "iad-1", "True")),
        ["shop"]
    );
    assert_eq!(words(&index.decided()), ALL);
    assert_eq!(index.apply(table, available("compute", "ams-1", "True")), NOTHING);
    let mut second = available("compute", "iad-1", "True");
    second["metadata"]["name"] = json!("second");
    second["metadata"]["uid"] = json!("second");
    assert_eq!(index.apply(table, second.clone()), NOTHING);
    assert_eq!(
        index.apply(table, leaving(second.clone())),
        NOTHING,
        "the first one is left"
    );
    assert_eq!(index.delete(table, second), NOTHING);
    assert_eq!(
        index.delete(table, available("compute", "iad-1", "True")),
        ["shop"]
    );
    assert_eq!(index.serving(), ["DFW"]);
}

#[test]
fn a_location_that_is_not_ready_is_not_served_by_its_availability() {
    let mut index = scene(LocationSource::Auto);
    index.discovers(&[resource(LocationKind::Location), availability()]);
    index.list(TableId::Availabilities, [available("compute", "dfw-1", "True")]);
    index.list(LOCATION, [location("dfw-1", "DFW", "False")]);
    assert_eq!(index.serving(), NOTHING);
}
