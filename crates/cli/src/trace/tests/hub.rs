//! The faults that hub and cell show.

use super::*;

#[test]
fn each_fault_of_the_hub_is_named() {
    let carried = |way: Way| {
        way.set(
            "copy",
            "/metadata/annotations/fedgate.dev~1source-generation",
            json!("4"),
        )
    };
    let mut no_policy = carried(lagging(200));
    no_policy.hub.policies.remove(1);
    let mut no_set = carried(lagging(200));
    no_set.hub.city_set.as_mut().unwrap().0["spec"]["placement"]["clusterAffinity"]["labelSelector"]["matchExpressions"]
        [0]["values"] = json!(["DFW"]);
    let label = "/metadata/labels/topology.datum.net~1city-code";
    let mut no_copy = lagging(200);
    no_copy.hub.copies.clear();
    let mut no_namespace = lagging(200);
    no_namespace.hub.namespace = None;
    for (way, detail) in [
        (no_policy, "no policy for city IAD"),
        (no_set, "the namespace's city set \"dfw-iad\" lacks IAD"),
        (
            carried(lagging(200)).set("copy", label, json!("DFW")),
            "labelled with city DFW",
        ),
        (no_copy, "no copy"),
        (no_namespace, "the hub namespace does not exist"),
        (
            lagging(200).set(
                "copy",
                "/metadata/annotations/fedgate.dev~1source-uid",
                json!("d0"),
            ),
            "the copy is of an earlier deployment",
        ),
    ] {
        let chain = way.links(Access::All);
        assert_eq!(
            (chain.links[1].state, &*chain.links[1].detail),
            (State::Broken, detail)
        );
    }
}

#[test]
fn each_fault_of_the_binding_is_named() {
    let carried = || {
        lagging(60).set(
            "copy",
            "/metadata/annotations/fedgate.dev~1source-generation",
            json!("4"),
        )
    };
    let claim = "/metadata/annotations/propagationpolicy.karmada.io~1name";
    let unscheduled = condition("Scheduled", "False", "NoClusterFit", 1, 10);
    for (way, detail) in [
        (
            carried().set("copy", claim, json!("city-dfw")),
            "frozen: claimed by policy city-dfw, not city-iad",
        ),
        (
            carried().set("binding", "/status/conditions/0", unscheduled),
            "NoClusterFit",
        ),
        (
            carried().set(
                "binding",
                "/status/aggregatedStatus/0",
                json!({"clusterName": "pop-iad", "appliedMessage": "refused by a webhook"}),
            ),
            "not applied to pop-iad: refused by a webhook",
        ),
    ] {
        let chain = way.links(Access::All);
        let states: Vec<_> = chain.links.iter().map(|link| link.state.word()).collect();
        assert_eq!(states[..3], ["ok", "ok", "broken"], "{detail}");
        assert_eq!(chain.links[2].detail, detail);
    }
}

#[test]
fn a_cluster_that_is_not_ready_is_the_broken_link_and_nothing_behind_it_is() {
    let way = lagging(900)
        .set(
            "copy",
            "/metadata/annotations/fedgate.dev~1source-generation",
            json!("4"),
        )
        .set(
            "cluster",
            "/status/conditions/0",
            condition("Ready", "False", "ClusterNotReachable", 1, 360),
        );
    let (words, line) = way.traced(Access::All);
    assert_eq!(words, ["ok", "ok", "ok", "broken", "waiting", "ok"]);
    assert_eq!(
        line,
        "First broken link (us/IAD): binding -> cell: pop-iad: cluster not Ready: ClusterNotReachable for 6m"
    );
    let (words, line) = way.traced(Access::Project);
    assert_eq!(
        words[..4],
        ["ok", "unseen", "unseen", "broken"],
        "the project alone cannot tell hub, binding and cell apart"
    );
    assert!(
        line.starts_with(
            "First broken link (us/IAD): project -> cell (binding unseen, see --hub-context; hub unseen, "
        ),
        "{line}"
    );
}

#[test]
fn a_cluster_whose_readiness_is_unknown_is_broken_only_after_a_while() {
    for (since, state) in [(60, State::Waiting), (360, State::Broken)] {
        let unknown = condition("Ready", "Unknown", "ClusterStatusUnknown", 1, since);
        let carried = json!("4");
        let way = lagging(900)
            .set(
                "copy",
                "/metadata/annotations/fedgate.dev~1source-generation",
                carried,
            )
            .set("cluster", "/status/conditions/0", unknown);
        assert_eq!(way.links(Access::All).links[3].state, state);
    }
}

#[test]
fn a_cell_that_does_not_act_is_told_from_one_that_has_no_object() {
    let carried = || {
        lagging(200).set(
            "copy",
            "/metadata/annotations/fedgate.dev~1source-generation",
            json!("4"),
        )
    };
    let chain = carried().links(Access::All);
    assert_eq!(chain.links[3].detail, "delivered; still on generation 3");
    let mut gone = carried();
    gone.cell.deployments.clear();
    assert_eq!(gone.links(Access::All).links[3].detail, "not in the cell");
    let mut behind = carried();
    behind.hub.copies[0].0["metadata"]["generation"] = json!(8);
    let chain = behind.links(Access::All);
    assert_eq!(chain.links[3].detail, "has generation 7 of the hub, not 8");
    assert_eq!(chain.links[3].state, State::Broken);
}

#[test]
fn a_cluster_that_has_reported_no_status_is_named() {
    for status in [json!(null), json!({})] {
        let item = json!({"clusterName": "pop-iad", "applied": true, "status": status});
        let carried = json!("4");
        let mut way = lagging(200)
            .set(
                "copy",
                "/metadata/annotations/fedgate.dev~1source-generation",
                carried,
            )
            .set("binding", "/status/aggregatedStatus/0", item);
        let link = |way: &Way| way.links(Access::All).links.swap_remove(3);
        let detail = "delivered; the cluster has reported no status";
        assert_eq!((link(&way).state, &*link(&way).detail), (State::Broken, detail));
        way.cell.deployments.clear();
        let detail = "not in the cell; the cluster has reported no status";
        assert_eq!((link(&way).state, &*link(&way).detail), (State::Broken, detail));
    }
}

/// A way of which the deployment names a location; the copy has this label, and the policies select by it.
fn located(key: &str, value: &str) -> Way {
    let mut way = lagging(200).set(
        "copy",
        "/metadata/annotations/fedgate.dev~1source-generation",
        json!("4"),
    );
    let deployment = way.deployment.as_mut().unwrap();
    deployment.0["spec"]["locationRef"] = json!({"name": "us-east-1"});
    way.hub.copies[0].0["metadata"]["labels"] = json!({key: value});
    way.hub.policies.push(Object(
        json!({"metadata": {"name": "location-us-east-1"}, "spec": {"resourceSelectors": [
        {"labelSelector": {"matchLabels": {keys::LOCATION: "us-east-1"}}}]}}),
    ));
    way.hub.clusters[0].0["metadata"]["labels"] =
        json!({keys::LOCATION: "us-east-1", keys::CITY_CODE: "IAD"});
    way
}

#[test]
fn a_copy_of_a_location_goes_by_the_location_or_by_its_city_and_no_other() {
    let hub = |way: &Way| {
        let link = way.links(Access::All).links.swap_remove(1);
        (link.state, link.detail)
    };
    let carried = (State::Ok, "carries generation 4".to_owned());
    let broken = |detail: &str| (State::Broken, detail.to_owned());
    assert_eq!(hub(&located(keys::LOCATION, "us-east-1")), carried);
    assert_eq!(hub(&located(keys::CITY_CODE, "IAD")), carried);
    assert_eq!(
        hub(&located(keys::LOCATION, "us-south-1")),
        broken("labelled with location us-south-1")
    );
    assert_eq!(
        hub(&located(keys::CITY_CODE, "DFW")),
        broken("labelled with city DFW"),
        "a policy of that city exists"
    );
    let mut way = located(keys::LOCATION, "us-east-1");
    way.hub.policies.pop();
    assert_eq!(hub(&way), broken("no policy for location us-east-1"));
    let mut way = located(keys::LOCATION, "us-east-1");
    way.hub.copies[0].0["metadata"]["annotations"][keys::CLAIM_NAME] = json!("location-us-east-1");
    assert_eq!(way.links(Access::All).links[2].state, State::Ok);
    way.hub.copies[0].0["metadata"]["annotations"][keys::CLAIM_NAME] = json!("city-dfw");
    assert_eq!(
        way.links(Access::All).links[2].detail,
        "frozen: claimed by policy city-dfw, not location-us-east-1"
    );
}
