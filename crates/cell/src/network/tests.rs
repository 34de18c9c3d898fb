//! Actions for a deployment's network in a cell with a few objects.

use super::decide::{
    Deployment, NetworkAction, NetworkObjects, NetworkState, decide, interface_of, is_same_place,
};
use crate::index::digest::{Binding, NetworkContext, Readiness, SubnetClaim};
use fedgate_api::{LocationReference, NetworkReference};
use std::collections::BTreeMap;

#[derive(Default, Clone)]
struct Cell {
    bindings: BTreeMap<String, Binding>,
    context: Option<NetworkContext>,
    claims: Vec<SubnetClaim>,
    subnets: BTreeMap<String, Readiness>,
    /// Interfaces and names of networks that Instances use.
    used: Vec<(usize, String)>,
}

impl NetworkObjects for Cell {
    fn binding(&self, name: &str) -> Option<&Binding> {
        self.bindings.get(name)
    }
    fn own_bindings(&self) -> Vec<(&str, &Binding)> {
        let own = |(_, binding): &(&String, &Binding)| binding.controller.as_deref() == Some("d");
        let own = self.bindings.iter().filter(own);
        own.map(|(name, binding)| (name.as_str(), binding)).collect()
    }
    fn is_used(&self, interface: usize, binding: &Binding) -> bool {
        self.used.contains(&(interface, binding.network.name.clone()))
    }
    fn context(&self, _: &str, _: &str) -> Option<&NetworkContext> {
        self.context.as_ref()
    }
    fn claims(&self, _: &str) -> Vec<&SubnetClaim> {
        self.claims.iter().collect()
    }
    fn subnet(&self, _: &str, name: &str) -> Option<&Readiness> {
        self.subnets.get(name)
    }
}

fn place(namespace: Option<&str>) -> LocationReference {
    LocationReference {
        name: "us-south-1".to_owned(),
        namespace: namespace.map(str::to_owned),
    }
}

fn network() -> NetworkReference {
    NetworkReference {
        name: "default".to_owned(),
        namespace: None,
    }
}

const UP: Readiness = Readiness {
    deleting: false,
    ready: true,
};

/// A cell in which everything is ready for one interface.
fn up() -> Cell {
    let binding = Binding {
        uid: "b".into(),
        controller: Some("d".into()),
        network: network(),
        location: place(Some("default")),
        readiness: UP,
        refusal: None,
        context: Some(("ns-1".into(), "ctx".into())),
    };
    let claim = SubnetClaim {
        name: "ctx-0".into(),
        class: "private".into(),
        family: "IPv4".into(),
        context: "ctx".into(),
        location: place(None),
        readiness: UP,
        subnet: Some("sub".into()),
    };
    Cell {
        bindings: [("web-net-0".to_owned(), binding)].into(),
        context: Some(NetworkContext {
            uid: "c".into(),
            location: place(Some("default")),
            families: Vec::new(),
            readiness: UP,
        }),
        claims: vec![claim],
        subnets: [("sub".to_owned(), UP)].into(),
        used: Vec::new(),
    }
}

fn decided(cell: &Cell) -> (Vec<NetworkAction>, NetworkState) {
    let (networks, location) = ([network()], place(None));
    let deployment = Deployment {
        namespace: "ns-1",
        name: "web",
        uid: "d",
        networks: &networks,
        location: &location,
    };
    decide(&deployment, cell)
}

/// locations.md §4, 20: a later schema prunes the namespace of a reference, whatever it was.
#[test]
fn a_pruned_namespace_of_a_location_changes_nothing() {
    for (stored, wanted) in [(None, Some("default")), (Some("elsewhere"), None), (None, None)] {
        assert!(
            is_same_place(&place(stored), &place(wanted)),
            "{stored:?} {wanted:?}"
        );
    }
    assert!(!is_same_place(&place(Some("a")), &place(Some("b"))));
    let mut cell = up();
    for binding in cell.bindings.values_mut() {
        binding.location = place(Some("elsewhere"));
    }
    assert_eq!(decided(&cell), (vec![], NetworkState::Ready));
}

#[test]
fn all_that_is_there_is_ready_and_nothing_is_done() {
    assert_eq!(decided(&up()), (vec![], NetworkState::Ready));
}

#[test]
fn what_is_missing_is_made_step_by_step() {
    let bind = NetworkAction::Bind {
        name: "web-net-0".to_owned(),
        network: network(),
    };
    assert_eq!(decided(&Cell::default()), (vec![bind], NetworkState::Pending));
    let mut cell = up();
    cell.claims.clear();
    let claim = |name: &str, family: &str| NetworkAction::Claim {
        namespace: "ns-1".into(),
        name: name.to_owned(),
        context: "ctx".into(),
        owner: "c".into(),
        family: family.into(),
    };
    assert_eq!(
        decided(&cell),
        (vec![claim("ctx-0", "IPv4")], NetworkState::Pending)
    );
    cell.context.as_mut().unwrap().families = vec!["IPv4".into(), "IPv6".into()];
    let both = vec![claim("ctx-0", "IPv4"), claim("ctx-0-v6", "IPv6")];
    assert_eq!(decided(&cell), (both, NetworkState::Pending), "a claim a family");
}

#[test]
fn nothing_counts_that_is_not_ready_or_is_going_or_not_named() {
    let changes: [&dyn Fn(&mut Cell); 9] = [
        &|c| c.bindings.values_mut().for_each(|b| b.readiness.ready = false),
        &|c| c.bindings.values_mut().for_each(|b| b.readiness.deleting = true),
        &|c| c.bindings.values_mut().for_each(|b| b.context = None),
        &|c| c.context = None,
        &|c| c.context.as_mut().unwrap().readiness.deleting = true,
        &|c| c.claims[0].readiness.ready = false,
        &|c| c.claims[0].subnet = None,
        &|c| c.subnets.clear(),
        &|c| c.subnets.values_mut().for_each(|s| s.deleting = true),
    ];
    for (n, change) in changes.iter().enumerate() {
        let mut cell = up();
        change(&mut cell);
        assert_eq!(decided(&cell), (vec![], NetworkState::Pending), "change {n}");
    }
}

#[test]
fn a_binding_of_another_network_or_place_goes_when_nothing_uses_it_and_anothers_is_not_touched() {
    let mut cell = up();
    cell.bindings.get_mut("web-net-0").unwrap().network.name = "former".to_owned();
    cell.used.push((0, "former".to_owned()));
    let (acts, state) = decided(&cell);
    let [NetworkAction::Bind { name, .. }] = &acts[..] else {
        panic!("{acts:?}");
    };
    assert!(name.starts_with("web-net-0-"), "{name}");
    assert_eq!(state, NetworkState::Pending);
    // The next binding is ready; the former one stays while it is used.
    let mut next = up().bindings.remove("web-net-0").unwrap();
    next.uid = "n".into();
    cell.bindings.insert(name.clone(), next);
    assert_eq!(decided(&cell), (vec![], NetworkState::Ready));
    cell.used.clear();
    let unbind = NetworkAction::Unbind {
        name: "web-net-0".to_owned(),
        uid: "b".into(),
    };
    assert_eq!(decided(&cell), (vec![unbind], NetworkState::Ready));
    cell.bindings.remove("web-net-0");
    assert_eq!(decided(&cell), (vec![], NetworkState::Ready), "it keeps its name");
    let mut cell = up();
    cell.bindings.get_mut("web-net-0").unwrap().controller = None;
    let (acts, state) = decided(&cell);
    assert_eq!(acts, []);
    assert!(matches!(state, NetworkState::Refused(why) if why.contains("web-net-0")));
}

#[test]
fn the_binding_of_an_interface_that_is_no_more_goes_with_the_last_instance_that_has_it() {
    let mut cell = up();
    let mut second = cell.bindings["web-net-0"].clone();
    (second.uid, second.network.name) = ("s".into(), "backend".to_owned());
    cell.bindings.insert("web-net-1".to_owned(), second);
    cell.used.push((1, "backend".to_owned()));
    assert_eq!(decided(&cell), (vec![], NetworkState::Ready));
    // The same network at another interface has another binding.
    cell.used = vec![(0, "backend".to_owned())];
    let unbind = NetworkAction::Unbind {
        name: "web-net-1".to_owned(),
        uid: "s".into(),
    };
    assert_eq!(decided(&cell), (vec![unbind], NetworkState::Ready));
    assert_eq!(interface_of("web", "web-net-1-0123456789"), Some(1));
    assert_eq!(interface_of("web", "web-net-x"), None);
}

#[test]
fn what_a_binding_says_for_good_is_a_refusal_and_the_rest_is_waited_for() {
    let says = |reason: &str| {
        let mut cell = up();
        let binding = cell.bindings.get_mut("web-net-0").unwrap();
        binding.readiness.ready = false;
        binding.refusal = Some((reason.into(), "so it is".into()));
        decided(&cell).1
    };
    for reason in [
        "NetworkFailedToCreate",
        "ProjectUnresolved",
        "NetworkNotFound",
        "LocationNotAvailable",
    ] {
        assert_eq!(says(reason), NetworkState::Refused(format!("{reason}: so it is")));
    }
    assert_eq!(says("NetworkContextNotReady"), NetworkState::Pending);
}

#[test]
fn a_reference_may_name_its_own_namespace_or_none() {
    for namespace in [None, Some(""), Some("ns-1")] {
        let mut cell = up();
        let binding = cell.bindings.get_mut("web-net-0").unwrap();
        binding.network.namespace = namespace.map(str::to_owned);
        assert_eq!(decided(&cell), (vec![], NetworkState::Ready), "{namespace:?}");
    }
}

#[test]
fn a_binding_of_another_place_is_none() {
    let mut cell = up();
    let binding = cell.bindings.get_mut("web-net-0").unwrap();
    binding.location.name = "eu-west-1".to_owned();
    cell.used.push((0, "default".to_owned()));
    let (acts, state) = decided(&cell);
    assert!(matches!(&acts[..], [NetworkAction::Bind { .. }]), "{acts:?}");
    assert_eq!(state, NetworkState::Pending);
}

#[test]
fn a_claim_fits_by_class_family_context_and_place_and_under_any_name() {
    let mut given = up();
    given.claims[0].name = "given".into();
    assert_eq!(decided(&given), (vec![], NetworkState::Ready));
    let changes: [&dyn Fn(&mut SubnetClaim); 4] = [
        &|c| c.class = "public".into(),
        &|c| c.family = "IPv6".into(),
        &|c| c.context = "other".into(),
        &|c| c.location.name = "eu-west-1".to_owned(),
    ];
    for (n, change) in changes.iter().enumerate() {
        let mut cell = given.clone();
        change(&mut cell.claims[0]);
        let (acts, state) = decided(&cell);
        assert!(
            matches!(&acts[..], [NetworkAction::Claim { name, .. }] if name == "ctx-0"),
            "{n}: {acts:?}"
        );
        assert_eq!(state, NetworkState::Pending);
        cell.claims[0].name = "ctx-0".into();
        assert_eq!(
            decided(&cell),
            (vec![], NetworkState::Pending),
            "{n}: our own name is held"
        );
    }
}
