use super::*;
use kube_runtime::watcher::Event;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn object(kind: Kind, name: &str, rest: &Value) -> Value {
    let types = kind.resource();
    let mut object = json!({
        "apiVersion": types.api_version, "kind": types.kind,
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": 1, "resourceVersion": "1"},
    });
    for (field, value) in rest.as_object().unwrap() {
        if field == "metadata" {
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .extend(value.as_object().unwrap().clone());
        } else {
            object[field] = value.clone();
        }
    }
    object
}

fn world(objects: Vec<(Kind, Value)>) -> Objects {
    let mut world = Objects::default();
    for (kind, object) in objects {
        world.put(kind, object);
    }
    world
}

fn told_to(word: &str) -> (Kind, Value) {
    let rest = json!({"metadata": {"namespace": null, "annotations": {TOLD: word}}, "spec": {}});
    (
        Kind::ServingLocation,
        object(Kind::ServingLocation, "dfw-1", &rest),
    )
}

fn bound(name: &str, network: &str, status: &Value) -> (Kind, Value) {
    let spec = json!({"network": {"name": network}, "location": {"name": "dfw-1", "namespace": "default"}});
    let rest = json!({"spec": spec, "status": status});
    (Kind::NetworkBinding, object(Kind::NetworkBinding, name, &rest))
}

fn claimed(name: &str, family: &str) -> (Kind, Value) {
    let spec = json!({
        "subnetClass": "private", "ipFamily": family,
        "networkContext": {"name": "default-dfw-1"}, "location": {"name": "dfw-1"},
    });
    let rest = json!({"spec": spec});
    (Kind::SubnetClaim, object(Kind::SubnetClaim, name, &rest))
}

/// Applies the decided writes until none is left; returns the number of rounds with writes.
fn settle(world: &mut Objects) -> usize {
    for passes in 0..10 {
        let acts = decide(world, now());
        if acts.is_empty() {
            return passes;
        }
        for act in acts {
            let mut object = act.object;
            if act.is_status {
                let known = world.get(act.kind, object.namespace(), object.name());
                let status = object["status"].take();
                object = known.unwrap().clone();
                object["status"] = status;
            }
            world.put(act.kind, object);
        }
    }
    panic!("it never comes to rest")
}

fn ready(world: &Objects, kind: Kind, name: &str) -> (String, String) {
    let object = world.get(kind, "ns", name).unwrap();
    let (status, reason) = super::super::condition(object, "Ready").unwrap_or(("-", "-"));
    (status.to_owned(), reason.to_owned())
}

fn words(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn bindings_of_one_network_share_a_context() {
    let mut world = world(vec![
        bound("a-net-0", "default", &json!({})),
        bound("b-net-0", "default", &json!({})),
    ]);
    assert!(settle(&mut world) > 0);
    let contexts = world.all(Kind::NetworkContext);
    let contexts: Vec<_> = contexts.map(|of| (of.namespace(), of.name())).collect();
    assert_eq!(contexts, [("ns", "default-dfw-1")]);
    for name in ["a-net-0", "b-net-0"] {
        assert_eq!(
            ready(&world, Kind::NetworkBinding, name),
            words("True", "NetworkContextReady")
        );
        let binding = world.get(Kind::NetworkBinding, "ns", name).unwrap();
        assert_eq!(
            binding["status"]["networkContextRef"],
            json!({"namespace": "ns", "name": "default-dfw-1"})
        );
    }
    let context = world.get(Kind::NetworkContext, "ns", "default-dfw-1").unwrap();
    assert_eq!(context["spec"]["network"], json!({"name": "default"}));
    assert_eq!(
        context["spec"]["location"],
        json!({"name": "dfw-1", "namespace": "default"})
    );
}

#[test]
fn networks_called_missing_are_not_found() {
    let mut world = world(vec![
        bound("a-net-0", "missing", &json!({})),
        bound("b-net-0", "missing-too", &json!({})),
        bound("c-net-0", "missingno", &json!({})),
    ]);
    settle(&mut world);
    let not_found = words("False", "NetworkNotFound");
    assert_eq!(ready(&world, Kind::NetworkBinding, "a-net-0"), not_found);
    assert_eq!(ready(&world, Kind::NetworkBinding, "b-net-0"), not_found);
    assert_eq!(ready(&world, Kind::NetworkBinding, "c-net-0").0, "True");
}

#[test]
fn what_it_is_told_reaches_bindings_that_are_not_ready() {
    let mut world = world(vec![bound("old-net-0", "default", &json!({}))]);
    settle(&mut world);
    for (kind, object) in [told_to("fail"), bound("new-net-0", "other", &json!({}))] {
        world.put(kind, object);
    }
    settle(&mut world);
    assert_eq!(ready(&world, Kind::NetworkBinding, "old-net-0").0, "True");
    assert_eq!(
        ready(&world, Kind::NetworkBinding, "new-net-0"),
        words("False", "NetworkFailedToCreate")
    );
    let (kind, mut location) = told_to("fail");
    location["metadata"]["annotations"] = Value::Null;
    world.put(kind, location);
    settle(&mut world);
    assert_eq!(ready(&world, Kind::NetworkBinding, "new-net-0").0, "True");
}

#[test]
fn told_to_stall_it_does_nothing() {
    let mut world = world(vec![
        told_to("stall"),
        bound("a-net-0", "missing", &json!({})),
        bound("b-net-0", "default", &json!({})),
        claimed("default-dfw-1-0", "IPv4"),
    ]);
    assert_eq!(settle(&mut world), 0);
    let (kind, location) = told_to("something else");
    world.put(kind, location);
    assert!(settle(&mut world) > 0);
}

#[test]
fn claims_get_blocks_of_their_own_in_each_namespace() {
    let mut elsewhere = claimed("default-dfw-1-0", "IPv4");
    elsewhere.1["metadata"]["namespace"] = json!("other");
    let mut world = world(vec![
        claimed("one", "IPv4"),
        claimed("three", "IPv6"),
        claimed("two", "IPv4"),
        elsewhere,
    ]);
    settle(&mut world);
    let start = |namespace: &str, name: &str| {
        let subnet = world.get(Kind::Subnet, namespace, name).unwrap();
        assert!(is_ready(subnet));
        let claim = world.get(Kind::SubnetClaim, namespace, name).unwrap();
        assert!(is_ready(claim));
        let status = &claim["status"];
        assert_eq!(status["subnetRef"]["name"], name);
        for type_ in ["Allocated", "Programmed"] {
            assert_eq!(
                super::super::condition(claim, type_).map(|said| said.0),
                Some("True")
            );
        }
        let owner = &subnet["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["name"]),
            (&json!("SubnetClaim"), &json!(name))
        );
        let spec = &subnet["spec"];
        assert_eq!(status["startAddress"], spec["startAddress"]);
        (
            spec["startAddress"].as_str().unwrap().to_owned(),
            spec["prefixLength"].as_u64().unwrap(),
        )
    };
    assert_eq!(start("ns", "one"), ("10.128.0.0".to_owned(), 20));
    assert_eq!(start("ns", "three"), ("fd00::".to_owned(), 64));
    assert_eq!(start("ns", "two"), ("10.128.16.0".to_owned(), 20));
    assert_eq!(start("other", "default-dfw-1-0"), ("10.128.0.0".to_owned(), 20));
    assert_eq!(block(2047, false), "10.255.240.0");
    assert_eq!(block(1, true), "fd00:0:0:1::");
}

#[test]
fn nothing_is_done_for_what_is_being_deleted() {
    let going = |(kind, mut object): (Kind, Value)| {
        object["metadata"]["deletionTimestamp"] = json!(now());
        (kind, object)
    };
    let mut world = world(vec![
        going(bound("a-net-0", "default", &json!({}))),
        going(claimed("c", "IPv4")),
    ]);
    assert_eq!(settle(&mut world), 0);

    // A context that is being deleted makes no binding ready; once it is deleted, it is created again.
    let (kind, context) = (
        Kind::NetworkContext,
        object(Kind::NetworkContext, "default-dfw-1", &json!({})),
    );
    let (_, context) = going((kind, context));
    world.put(kind, context.clone());
    let (binding, object) = bound("b-net-0", "default", &json!({}));
    world.put(binding, object);
    assert_eq!(settle(&mut world), 0);
    world.take(kind, Event::Delete(context));
    settle(&mut world);
    assert_eq!(ready(&world, binding, "b-net-0").0, "True");
}

#[test]
fn an_older_event_does_not_undo_a_newer_answer() {
    let mut world = world(Vec::new());
    let (kind, mut newer) = bound("a-net-0", "default", &json!({"conditions": []}));
    let older = newer.clone();
    newer["metadata"]["resourceVersion"] = json!("7");
    newer["status"]["seen"] = json!(true);
    world.put(kind, newer);
    world.take(kind, Event::Apply(older.clone()));
    world.take(kind, Event::Delete(older));
    assert_eq!(world.get(kind, "ns", "a-net-0").unwrap()["status"]["seen"], true);
}
