use super::*;
use crate::backends::decide::Act;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn claim(name: &str, second: u8, requests: &[(&str, i64)]) -> Value {
    let requests: Vec<Value> = requests
        .iter()
        .map(|(word, amount)| {
            json!({"resourceType": format!("compute.datumapis.com/{word}"), "amount": amount})
        })
        .collect();
    json!({
        "apiVersion": "quota.miloapis.com/v1alpha1", "kind": "ResourceClaim",
        "metadata": {
            "name": name, "namespace": "default", "generation": 1,
            "creationTimestamp": format!("2026-05-04T10:00:{second:02}Z"),
        },
        "spec": {"requests": requests},
        "status": {"conditions": [{
            "type": "Granted", "status": "False", "reason": "PendingEvaluation",
            "message": "Awaiting capacity evaluation", "lastTransitionTime": "1970-01-01T00:00:00Z",
        }]},
    })
}

fn world(budgets: Option<&Value>, claims: Vec<Value>) -> Objects {
    let mut world = Objects::default();
    if let Some(data) = budgets {
        say_budgets(&mut world, data);
    }
    for claim in claims {
        world.put(Kind::ResourceClaim, claim);
    }
    world
}

fn say_budgets(world: &mut Objects, data: &Value) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": BUDGETS.1, "namespace": BUDGETS.0}, "data": data,
    });
    world.put(Kind::Budgets, map);
}

/// Decides and applies the decisions; returns the names in the order of the decisions.
fn pass(world: &mut Objects) -> Vec<String> {
    let mut order = Vec::new();
    for act in decide(world, now()) {
        assert!(act.is_status, "a granter creates nothing: {act:?}");
        let Act { kind, object, .. } = act;
        let mut claim = world
            .get(kind, object.namespace(), object.name())
            .unwrap()
            .clone();
        claim["status"] = object["status"].clone();
        world.put(kind, claim);
        order.push(object.name().to_owned());
    }
    order
}

fn said(world: &Objects, name: &str) -> (String, String) {
    let claim = world.get(Kind::ResourceClaim, "default", name).unwrap();
    let conditions = &claim["status"]["conditions"];
    let text = |field: &str| conditions[0][field].as_str().unwrap().to_owned();
    (text("reason"), text("message"))
}

fn reason(world: &Objects, name: &str) -> String {
    said(world, name).0
}

fn delete(world: &mut Objects, name: &str) {
    let claim = world.get(Kind::ResourceClaim, "default", name).unwrap().clone();
    world.take(Kind::ResourceClaim, kube_runtime::watcher::Event::Delete(claim));
}

#[test]
fn without_budgets_everything_is_granted() {
    let mut world = world(None, vec![claim("a", 0, &[("instances", 1), ("vcpus", 1 << 40)])]);
    assert_eq!(pass(&mut world), ["a"]);
    assert_eq!(reason(&world, "a"), "QuotaAvailable");
    assert!(pass(&mut world).is_empty(), "what is decided stays decided");
}

#[test]
fn the_oldest_comes_first_and_then_the_name() {
    let claims = vec![
        claim("a-late", 9, &[("instances", 1)]),
        claim("c", 1, &[("instances", 1)]),
        claim("b", 1, &[("instances", 1)]),
    ];
    let mut world = world(Some(&json!({"instances": "2"})), claims);
    assert_eq!(pass(&mut world), ["b", "c", "a-late"]);
    assert_eq!(reason(&world, "b"), "QuotaAvailable");
    assert_eq!(reason(&world, "c"), "QuotaAvailable");
    assert_eq!(
        said(&world, "a-late"),
        ("QuotaExceeded".to_owned(), "instances over limit".to_owned())
    );
}

#[test]
fn a_denied_claim_keeps_what_it_was_granted_until_it_is_deleted() {
    let both = [("instances", 1), ("vcpus", 1000)];
    let claims = vec![claim("a", 1, &both), claim("b", 2, &both)];
    let mut world = world(Some(&json!({"instances": "2", "vcpus": "1500"})), claims);
    pass(&mut world);
    assert_eq!(
        said(&world, "b"),
        ("QuotaExceeded".to_owned(), "vcpus over limit".to_owned())
    );
    let allocations = &world.get(Kind::ResourceClaim, "default", "b").unwrap()["status"]["allocations"];
    assert_eq!(allocations[0]["status"], "Granted");
    assert_eq!(allocations[1]["status"], "Denied");

    // Both instances are used, one of them by the denied claim.
    world.put(Kind::ResourceClaim, claim("c", 3, &[("instances", 1)]));
    pass(&mut world);
    assert_eq!(reason(&world, "c"), "QuotaExceeded");

    delete(&mut world, "a");
    assert!(pass(&mut world).is_empty(), "a denial is never looked at again");
    delete(&mut world, "b");
    world.put(Kind::ResourceClaim, claim("d", 4, &both));
    pass(&mut world);
    assert_eq!(reason(&world, "d"), "QuotaAvailable");
}

#[test]
fn without_a_decision_claims_stay_pending() {
    let one = || vec![claim("a", 1, &[("instances", 1), ("memory", 512)])];
    for data in [
        json!({"memory": "none"}),
        json!({"memory": "much"}),
        json!({"stall": "true"}),
    ] {
        let mut world = world(Some(&data), one());
        assert!(pass(&mut world).is_empty(), "{data}");
        assert_eq!(reason(&world, "a"), "PendingEvaluation");
        say_budgets(&mut world, &json!({"memory": "512"}));
        assert_eq!(pass(&mut world), ["a"]);
        assert_eq!(reason(&world, "a"), "QuotaAvailable");
    }
}

#[test]
fn a_claim_that_goes_is_not_decided_and_still_counts() {
    let mut granted = claim("a", 1, &[("instances", 1)]);
    let mut world = world(Some(&json!({"instances": "1"})), vec![granted.clone()]);
    pass(&mut world);
    granted = world.get(Kind::ResourceClaim, "default", "a").unwrap().clone();
    granted["metadata"]["deletionTimestamp"] = json!(now());
    world.put(Kind::ResourceClaim, granted);
    let mut undecided = claim("b", 0, &[("instances", 1)]);
    undecided["metadata"]["deletionTimestamp"] = json!(now());
    world.put(Kind::ResourceClaim, undecided);
    world.put(Kind::ResourceClaim, claim("c", 2, &[("instances", 1)]));
    assert_eq!(pass(&mut world), ["c"]);
    assert_eq!(reason(&world, "c"), "QuotaExceeded");
}
