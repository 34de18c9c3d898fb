//! Writes for a deployment's network in a cell with a few objects.

use super::{NetworkState, interface_of, is_same_place, of_deployment};
use crate::{
    deployment,
    index::tables::TableId,
    settings::Settings,
    testing::{Fixture, NS, body, condition, deployment, instance, now, settings, words},
};
use fedgate_api::LocationReference;
use fedgate_engine::key::Plane::Cell;
use serde_json::{Value, json};

const BIND: &str = "cell: create networkbindings web-net-0: network_binding";
const UNBIND: &str = "cell: delete networkbindings web-net-0: network_binding_unused";

fn nothing() -> Fixture {
    let mut fixture = Fixture::new(Settings {
        networking: true,
        ..settings()
    });
    fixture.has(&Cell, TableId::Deployments, deployment("web", 1));
    fixture
}

fn binding(name: &str, network: &str) -> Value {
    json!({
        "metadata": {"namespace": NS, "name": name,
            "ownerReferences": [{"apiVersion": "x/v1", "kind": "WorkloadDeployment", "name": "web", "uid": "u-web", "controller": true}]},
        "spec": {"network": {"name": network}, "location": {"name": "us-south-1", "namespace": "default"}},
        "status": {"conditions": [condition("Ready", "True", "Ready")], "networkContextRef": {"namespace": "net", "name": "ctx"}},
    })
}

/// A cell in which everything is ready for one interface.
fn up() -> Fixture {
    let mut fixture = nothing();
    fixture.has(&Cell, TableId::Bindings, binding("web-net-0", "default"));
    let ready = json!([condition("Ready", "True", "Ready")]);
    let of = |name: &str, spec: Value, status: Value| {
        let mut object =
            json!({"metadata": {"namespace": "net", "name": name}, "spec": spec, "status": status});
        object["status"]["conditions"] = ready.clone();
        object
    };
    let place = json!({"name": "us-south-1"});
    let claim = json!({"subnetClass": "private", "ipFamily": "IPv4", "networkContext": {"name": "ctx"}, "location": place});
    fixture.has(
        &Cell,
        TableId::Contexts,
        of("ctx", json!({"location": place}), json!({})),
    );
    fixture.has(
        &Cell,
        TableId::SubnetClaims,
        of("ctx-0", claim, json!({"subnetRef": {"name": "sub"}})),
    );
    fixture.has(&Cell, TableId::Subnets, of("sub", json!({}), json!({})));
    fixture
}

fn decided(fixture: &Fixture) -> (Vec<String>, NetworkState) {
    let index = fixture.context.index.lock();
    let row = index.deployments.get(NS, "web").unwrap();
    let network = of_deployment(&index, NS, "web", row).unwrap();
    (words(&network.writes), network.state)
}

#[track_caller]
fn check(fixture: &Fixture, writes: &[&str], state: &NetworkState) {
    let decided = decided(fixture);
    assert_eq!(
        (&decided.0[..], &decided.1),
        (
            &writes.iter().map(ToString::to_string).collect::<Vec<_>>()[..],
            state
        )
    );
}

fn change(fixture: &mut Fixture, table: TableId, name: &str, patch: &Value) {
    let namespace = if table == TableId::Bindings { NS } else { "net" };
    fixture.change(&Cell, table, namespace, name, patch);
}

/// An Instance of the deployment whose interfaces are in these networks.
fn uses(fixture: &mut Fixture, networks: &[&str]) {
    let mut user = instance("web", 0);
    user["spec"]["networkInterfaces"] = networks
        .iter()
        .map(|name| json!({"network": {"name": name}}))
        .collect();
    fixture.has(&Cell, TableId::Instances, user);
}

/// locations.md §4, 20: a later schema prunes the namespace of a reference, whatever it was.
#[test]
fn a_pruned_namespace_of_a_location_changes_nothing() {
    let place = |namespace: Option<&str>| LocationReference {
        name: "us-south-1".to_owned(),
        namespace: namespace.map(str::to_owned),
    };
    for (stored, wanted) in [(None, Some("default")), (Some("elsewhere"), None), (None, None)] {
        assert!(
            is_same_place(&place(stored), &place(wanted)),
            "{stored:?} {wanted:?}"
        );
    }
    assert!(!is_same_place(&place(Some("a")), &place(Some("b"))));
    let mut fixture = up();
    let pruned = json!({"spec": {"location": {"namespace": null}}});
    change(&mut fixture, TableId::Bindings, "web-net-0", &pruned);
    check(&fixture, &[], &NetworkState::Ready);
}

#[test]
fn what_is_missing_is_made_step_by_step_and_what_is_there_is_ready() {
    check(&nothing(), &[BIND], &NetworkState::Pending);
    check(&up(), &[], &NetworkState::Ready);
    let mut fixture = up();
    fixture.lost(&Cell, TableId::SubnetClaims, "net", "ctx-0");
    let claims = ["ctx-0", "ctx-0-v6"].map(|name| format!("cell: create subnetclaims {name}: subnet_claim"));
    check(&fixture, &[&claims[0]], &NetworkState::Pending);
    let families = json!({"spec": {"ipFamilies": ["IPv4", "IPv6"]}});
    change(&mut fixture, TableId::Contexts, "ctx", &families);
    check(&fixture, &[&claims[0], &claims[1]], &NetworkState::Pending);
}

#[test]
fn nothing_counts_that_is_not_ready_or_is_going_or_not_named() {
    let unready = json!({"status": {"conditions": []}});
    let going = json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}});
    let changes = [
        (TableId::Bindings, "web-net-0", &unready),
        (TableId::Bindings, "web-net-0", &going),
        (
            TableId::Bindings,
            "web-net-0",
            &json!({"status": {"networkContextRef": null}}),
        ),
        (TableId::Contexts, "ctx", &unready),
        (TableId::Contexts, "ctx", &going),
        (TableId::SubnetClaims, "ctx-0", &unready),
        (TableId::SubnetClaims, "ctx-0", &going),
        (
            TableId::SubnetClaims,
            "ctx-0",
            &json!({"status": {"subnetRef": null}}),
        ),
        (TableId::Subnets, "sub", &unready),
        (TableId::Subnets, "sub", &going),
    ];
    for (table, name, patch) in changes {
        let mut fixture = up();
        change(&mut fixture, table, name, patch);
        assert_eq!(
            decided(&fixture),
            (vec![], NetworkState::Pending),
            "{table:?} {patch}"
        );
    }
    for (table, name) in [(TableId::Contexts, "ctx"), (TableId::Subnets, "sub")] {
        let mut fixture = up();
        fixture.lost(&Cell, table, "net", name);
        check(&fixture, &[], &NetworkState::Pending);
    }
}

#[test]
fn a_binding_of_another_network_or_place_goes_when_nothing_uses_it_and_anothers_is_not_touched() {
    for former in [
        json!({"network": {"name": "former"}}),
        json!({"location": {"name": "eu-west-1"}}),
    ] {
        let mut fixture = up();
        change(
            &mut fixture,
            TableId::Bindings,
            "web-net-0",
            &json!({"spec": former}),
        );
        uses(&mut fixture, &["former"]);
        let (writes, state) = decided(&fixture);
        let name = writes[0]
            .split(' ')
            .nth(3)
            .unwrap()
            .trim_end_matches(':')
            .to_owned();
        assert!(
            writes[0].starts_with("cell: create ") && name.starts_with("web-net-0-"),
            "{writes:?}"
        );
        assert_eq!(state, NetworkState::Pending);
        if former["location"].is_object() {
            assert_eq!(writes[1..], [UNBIND], "nothing is in that place");
            continue;
        }
        assert_eq!(writes.len(), 1);
        // The next binding is ready; the former one stays while it is used.
        fixture.has(&Cell, TableId::Bindings, binding(&name, "default"));
        check(&fixture, &[], &NetworkState::Ready);
        fixture.lost(&Cell, TableId::Instances, NS, "web-0");
        check(&fixture, &[UNBIND], &NetworkState::Ready);
        fixture.lost(&Cell, TableId::Bindings, NS, "web-net-0");
        check(&fixture, &[], &NetworkState::Ready);
    }
    let mut fixture = up();
    change(
        &mut fixture,
        TableId::Bindings,
        "web-net-0",
        &json!({"metadata": {"ownerReferences": null}}),
    );
    let (writes, state) = decided(&fixture);
    assert_eq!(writes, [""; 0]);
    assert!(matches!(state, NetworkState::Refused(why) if why.contains("web-net-0")));
}

#[test]
fn the_binding_of_an_interface_that_is_no_more_goes_with_the_last_instance_that_has_it() {
    let mut fixture = up();
    fixture.has(&Cell, TableId::Bindings, binding("web-net-1", "backend"));
    uses(&mut fixture, &["default", "backend"]);
    check(&fixture, &[], &NetworkState::Ready);
    // The same network at another interface has another binding.
    uses(&mut fixture, &["backend"]);
    check(
        &fixture,
        &[&UNBIND.replace("net-0", "net-1")],
        &NetworkState::Ready,
    );
    assert_eq!(interface_of("web", "web-net-1-0123456789"), Some(1));
    assert_eq!(interface_of("web", "web-net-x"), None);
}

#[test]
fn what_a_binding_says_for_good_is_a_refusal_and_the_rest_is_waited_for() {
    let says = |reason: &str| {
        let mut fixture = up();
        let said = json!({"status": {"conditions": [condition("Ready", "False", reason)]}});
        change(&mut fixture, TableId::Bindings, "web-net-0", &said);
        decided(&fixture).1
    };
    for reason in [
        "NetworkFailedToCreate",
        "ProjectUnresolved",
        "NetworkNotFound",
        "LocationNotAvailable",
    ] {
        assert_eq!(
            says(reason),
            NetworkState::Refused(format!("{reason}: {reason} it is"))
        );
    }
    assert_eq!(says("NetworkContextNotReady"), NetworkState::Pending);
}

#[test]
fn a_reference_may_name_its_own_namespace_or_none() {
    for namespace in [json!(null), json!(""), json!(NS)] {
        let mut fixture = up();
        let named = json!({"spec": {"network": {"namespace": namespace}}});
        change(&mut fixture, TableId::Bindings, "web-net-0", &named);
        check(&fixture, &[], &NetworkState::Ready);
    }
}

#[test]
fn a_claim_fits_by_class_family_context_and_place_and_under_any_name() {
    let given = |patch: &Value, name: &str| {
        let mut fixture = up();
        let mut claim = fixture
            .get(&Cell, TableId::SubnetClaims, "net", "ctx-0")
            .unwrap()
            .clone();
        fixture.lost(&Cell, TableId::SubnetClaims, "net", "ctx-0");
        claim["metadata"] = json!({"namespace": "net", "name": name, "uid": "given"});
        crate::testing::merge(&mut claim, patch);
        fixture.has(&Cell, TableId::SubnetClaims, claim);
        fixture
    };
    check(&given(&json!({}), "given"), &[], &NetworkState::Ready);
    for other in [
        json!({"subnetClass": "public"}),
        json!({"ipFamily": "IPv6"}),
        json!({"networkContext": {"name": "other"}}),
        json!({"location": {"name": "eu-west-1"}}),
    ] {
        let patch = json!({"spec": other});
        let claim = "cell: create subnetclaims ctx-0: subnet_claim";
        check(&given(&patch, "given"), &[claim], &NetworkState::Pending);
        // Our own name is held.
        check(&given(&patch, "ctx-0"), &[], &NetworkState::Pending);
    }
}

#[test]
fn an_instance_that_is_made_when_the_network_is_ready_has_no_gate_for_it() {
    let gates = |fixture: &Fixture| {
        let key = TableId::Deployments.key(NS, "web");
        let snapshot = deployment::observe::observe(&fixture.context, &key).unwrap();
        let writes = deployment::decide::decide(&snapshot, now()).writes;
        let made = writes
            .iter()
            .find(|effect| effect.target.name == "web-0")
            .unwrap();
        body(made)["spec"]["controller"]["schedulingGates"].clone()
    };
    assert_eq!(gates(&nothing()), json!([{"name": "Network"}, {"name": "Quota"}]));
    let mut fixture = up();
    assert_eq!(gates(&fixture), json!([{"name": "Quota"}]));
    // An interface that the template gets has no network yet.
    let two = json!({"spec": {"template": {"spec": {"networkInterfaces": [
        {"network": {"name": "default"}}, {"network": {"name": "other"}}]}}}});
    fixture.change(&Cell, TableId::Deployments, NS, "web", &two);
    assert_eq!(gates(&fixture), json!([{"name": "Network"}, {"name": "Quota"}]));
}
