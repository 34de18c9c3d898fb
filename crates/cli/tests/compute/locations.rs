//! Placements that name locations, or select them (contract: locations.md).

use crate::project::{NAMESPACE, Project, instance};
use fedgate_api::keys;
use serde_json::{Value, json};

const DEPLOYMENT: &str = "WorkloadDeployment";

/// A Workload with these placements.
fn web(shop: &Project, placements: &Value) -> Value {
    let template = shop.workload("template", "web:1", &["DFW"])["spec"]["template"].take();
    shop.plane.delete("Workload", NAMESPACE, "template").unwrap();
    shop.create(json!({"apiVersion": fedgate_api::API_VERSION, "kind": "Workload",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"template": template, "placements": placements}}))
}

/// A deployment of the Workload at this place, with two Instances that are ready.
fn at(shop: &Project, workload: &Value, placement: &str, name: &str, place: &Value) {
    let mut spec = json!({
        "workloadRef": {"name": "web", "uid": workload["metadata"]["uid"]}, "placementName": placement,
        "scaleSettings": {"minReplicas": 2}, "template": workload["spec"]["template"]});
    let fields = spec.as_object_mut().unwrap();
    fields.extend(place.as_object().unwrap().clone());
    let live = shop.create(json!({"apiVersion": fedgate_api::API_VERSION, "kind": DEPLOYMENT,
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}));
    let generation = &live["metadata"]["generation"];
    let conditions = ["Available", "ReplicasReady", "Federated"].map(|type_| {
        json!({"type": type_, "status": "True", "reason": "Ready", "message": "", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    let status = json!({"replicas": 2, "updatedReplicas": 2, "currentReplicas": 2, "readyReplicas": 2,
        "desiredReplicas": 2, "conditions": conditions});
    shop.status(DEPLOYMENT, name, &status);
}

/// Serves Locations, each with its topology.
fn locations(shop: &Project, all: &[(&str, Value)]) {
    let group = "networking.datumapis.com";
    shop.plane
        .define_plain(group, "v1alpha", "Location", "locations", true, true);
    for (name, topology) in all {
        shop.create(
            json!({"apiVersion": format!("{group}/v1alpha"), "kind": "Location",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"topology": topology}}),
        );
    }
}

fn scaled(name: &str, field: &str, value: &Value) -> Value {
    json!({"name": name, field: value, "scaleSettings": {"minReplicas": 2}})
}

fn selecting(labels: &Value) -> Value {
    json!([scaled("eu", "locationSelector", &json!({"matchLabels": labels}))])
}

fn named(names: &[&str]) -> Value {
    let names: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    json!([scaled("us", "locations", &json!(names))])
}

fn in_cities(codes: &[&str]) -> Value {
    json!([scaled("us", "cityCodes", &json!(codes))])
}

/// A file with the Workload, with other placements and another image.
fn file(shop: &Project, workload: &Value, placements: &Value, image: &str) -> String {
    let mut spec = workload["spec"].clone();
    spec["placements"] = placements.clone();
    spec["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] = json!(image);
    let object = json!({"apiVersion": fedgate_api::API_VERSION, "kind": "Workload", "metadata": {"name": "web"},
        "spec": spec});
    shop.file("web.yaml", &object.to_string())
}

/// Lines of `diff` about effects.
async fn effects(shop: &Project, file: &str) -> Vec<String> {
    let seen = shop.run(&["diff", "-f", file]).await;
    assert!(seen.code <= 1, "{}", seen.stderr);
    let effects = seen
        .stdout
        .lines()
        .filter(|line| !line.starts_with(['~', '+', '-']));
    effects.map(str::to_owned).collect()
}

fn deploy(file: &str) -> [&str; 4] {
    ["deploy", "-f", file, "--wait=false"]
}

async fn selected() -> (Project, Value) {
    let shop = Project::start("shop").await;
    let workload = web(&shop, &selecting(&json!({"region": "eu"})));
    for name in ["eu-1", "eu-2"] {
        let place = json!({"locationRef": {"name": name}});
        at(&shop, &workload, "eu", &format!("web-eu-{name}"), &place);
    }
    (shop, workload)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_selector_needs_a_yes_for_each_deployment_that_it_may_lose() {
    let (shop, workload) = selected().await;
    let narrow = file(&shop, &workload, &selecting(&json!({"zone": "a"})), "web:1");
    let may = |name: &str| {
        format!("may remove {name} and its 2 instances: no location tells whether the selector keeps it")
    };
    let adds = "adds each location that placement \"eu\" selects (min 2)".to_owned();
    assert_eq!(effects(&shop, &narrow).await, [adds, may("eu-1"), may("eu-2")]);
    let writes = shop.writes();
    let seen = shop.run(&deploy(&narrow)).await;
    assert_eq!((seen.code, shop.writes()), (4, writes), "{}", seen.stderr);
    locations(
        &shop,
        &[
            ("eu-1", json!({"region": "eu", "zone": "a"})),
            ("eu-2", json!({"region": "eu", "zone": "b"})),
            ("eu-3", json!({"region": "eu", "zone": "a"})),
        ],
    );
    assert_eq!(
        effects(&shop, &narrow).await,
        [
            "adds eu-3 (min 2)",
            "removes eu-2 and its 2 instances once the new cities are ready"
        ]
    );
    let writes = shop.writes();
    let seen = shop.run(&deploy(&narrow)).await;
    assert_eq!((seen.code, shop.writes()), (4, writes), "{}", seen.stderr);
    // The gateway keeps a deployment whose Location is not listed.
    shop.plane.delete("Location", NAMESPACE, "eu-2").unwrap();
    assert_eq!(
        effects(&shop, &narrow).await,
        ["adds eu-3 (min 2)".to_owned(), may("eu-2")]
    );
    locations(&shop, &[("eu-2", json!({"region": "eu"}))]);
    let wide = file(
        &shop,
        &workload,
        &json!([scaled(
            "eu",
            "locationSelector",
            &json!({"matchExpressions": [
            {"key": "region", "operator": "Exists"}]})
        )]),
        "web:1",
    );
    assert_eq!(effects(&shop, &wide).await, ["adds eu-3 (min 2)"]);
    shop.run(&["deploy", "-f", &wide, "--wait=false"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_template_under_a_selector_replaces_the_instances_of_its_deployments() {
    let (shop, workload) = selected().await;
    let same = selecting(&json!({"region": "eu"}));
    let image = file(&shop, &workload, &same, "web:2");
    assert_eq!(
        effects(&shop, &image).await,
        ["replaces 4 instances, one at a time per city"]
    );
    shop.run(&["deploy", "-f", &image, "--wait=false"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_without_deployments_is_not_complete_and_is_shown_everywhere() {
    let shop = Project::start("shop").await;
    let workload = web(&shop, &selecting(&json!({"region": "eu"})));
    let once = ["rollout", "status", "web", "-w=false"];
    let seen = shop.run(&once).await;
    let text = "no location of the selector has a deployment yet";
    assert_eq!(seen.code, 7, "{}{}", seen.stdout, seen.stderr);
    assert!(seen.stdout.contains(text), "{}", seen.stdout);
    let same = file(&shop, &workload, &selecting(&json!({"region": "eu"})), "web:1");
    let seen = shop.run(&["deploy", "-f", &same, "--timeout", "2s"]).await;
    assert_eq!(seen.code, 8, "the wait of deploy: {}", seen.stderr);
    assert!(seen.stderr.contains("eu/- Waiting"), "{}", seen.stderr);
    let refused = json!({"type": "Available", "status": "False", "reason": "NoMatchingLocations",
        "message": "none matches", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let generation = &workload["metadata"]["generation"];
    let status = json!({"observedGeneration": generation, "conditions": [refused],
        "placements": [{"name": "eu", "conditions": [refused]}]});
    shop.status("Workload", "web", &status);
    for words in [
        &["status", "web"][..],
        &["workloads", "describe", "web"],
        &["trace", "web", "--placement", "eu"],
    ] {
        let seen = shop.run(words).await;
        assert!(
            seen.stdout.contains("NoMatchingLocations: none matches"),
            "{words:?}: {}",
            seen.stdout
        );
    }
    let seen = shop.run(&["workloads", "describe", "web"]).await.ok();
    assert!(
        seen.stdout.contains("  kubectl compute trace web\n"),
        "{}",
        seen.stdout
    );
    let seen = shop.run(&["workloads", "-o", "wide", "--no-headers"]).await.ok();
    assert!(!seen.stdout.contains("eu/"), "{}", seen.stdout);
    let seen = shop.run(&["destroy", "web", "--dry-run=client"]).await.ok();
    assert!(!seen.stderr.contains("eu/-"), "{}", seen.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_location_that_the_selector_resolves_to_and_a_selector_that_is_not_resolved_yet_are_awaited() {
    let (shop, workload) = selected().await;
    let once = ["rollout", "status", "web", "-w=false"];
    shop.run(&once).await.ok();
    let generation = workload["metadata"]["generation"].as_i64().unwrap();
    let resolved = |generation: i64| {
        json!({"observedGeneration": generation, "placements": [{"name": "eu", "conditions": [],
            "locations": [{"name": "eu-1"}, {"name": "eu-2"}, {"name": "eu-3"}]}]})
    };
    shop.status("Workload", "web", &resolved(generation));
    let seen = shop.run(&once).await;
    assert_eq!(seen.code, 7, "{}", seen.stdout);
    assert!(seen.stderr.contains("eu/eu-3 Waiting"), "{}", seen.stderr);
    shop.status("Workload", "web", &resolved(generation - 1));
    let seen = shop.run(&once).await;
    assert_eq!(seen.code, 7, "{}", seen.stdout);
    assert!(
        seen.stdout.contains("the selector is not resolved yet") && !seen.stdout.contains("eu-3"),
        "{}",
        seen.stdout
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_location_is_unserved_by_its_own_name_and_not_by_a_city() {
    let shop = Project::start("shop").await;
    let workload = web(&shop, &named(&["us-1", "us-2"]));
    shop.status(
        "Workload",
        "web",
        &json!({"observedGeneration": workload["metadata"]["generation"]}),
    );
    // A city is called as the location that is missing, which serves it not.
    locations(&shop, &[("us-1", json!({keys::CITY_CODE: "us-2"}))]);
    let once = ["rollout", "status", "web", "-w=false", "-o", "json"];
    let seen = shop.run(&once).await;
    let object: Value = serde_json::from_str(&seen.stdout).unwrap();
    let details: Vec<&str> = (0..2)
        .map(|at| object["rows"][at]["detail"].as_str().unwrap())
        .collect();
    assert_eq!(
        details,
        [
            "no deployment yet",
            "no deployment for location us-2; no location of this name is ready"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_city_is_shown_where_it_is_known_and_both_names_are_accepted() {
    let shop = Project::start("shop").await;
    let workload = web(
        &shop,
        &named(&["us-south-1", "us-east-1", "us-east-2", "nowhere"]),
    );
    let both = json!({"locationRef": {"name": "us-south-1"}, "cityCode": "DFW"});
    at(&shop, &workload, "us", "web-us-south", &both);
    for name in ["us-east-1", "us-east-2", "nowhere"] {
        let place = json!({"locationRef": {"name": name}});
        at(&shop, &workload, "us", &format!("web-{name}"), &place);
    }
    locations(
        &shop,
        &[
            ("us-east-1", json!({keys::CITY_CODE: "IAD"})),
            ("us-east-2", json!({keys::CITY_CODE: "IAD"})),
        ],
    );
    let rows = |seen: &Value, field: &str| -> Vec<String> {
        let rows = seen[field].as_array().unwrap().iter();
        rows.map(|row| {
            format!(
                "{} {}",
                row["city"].as_str().unwrap(),
                row["location"].as_str().unwrap()
            )
        })
        .collect()
    };
    let json = |words: &'static [&'static str]| {
        let shop = &shop;
        async move { serde_json::from_str::<Value>(&shop.run(words).await.stdout).unwrap() }
    };
    // A city of two locations of a placement would not tell them apart.
    let all = [
        "DFW us-south-1",
        "us-east-1 us-east-1",
        "us-east-2 us-east-2",
        "nowhere nowhere",
    ];
    assert_eq!(rows(&json(&["status", "web", "-o", "json"]).await, "cities"), all);
    assert_eq!(rows(&json(&["trace", "web", "-o", "json"]).await, "cities"), all);
    assert_eq!(
        rows(
            &json(&["rollout", "status", "web", "-w=false", "-o", "json"]).await,
            "rows"
        ),
        all
    );
    for (asked, found) in [
        ("DFW", &all[..1]),
        ("us-south-1", &all[..1]),
        ("IAD", &all[1..3]),
        ("us-east-2", &all[2..3]),
    ] {
        let seen = shop.run(&["trace", "web", "--city", asked, "-o", "json"]).await;
        let seen: Value = serde_json::from_str(&seen.stdout).unwrap();
        assert_eq!(rows(&seen, "cities"), found, "{asked}");
        let seen = shop.run(&["workloads", "--city", asked, "-o", "name"]).await.ok();
        assert_eq!(seen.stdout, "workload.compute.datumapis.com/web\n", "{asked}");
    }
    for (typed, meant) in [("us-est-2", "us-east-2"), ("iad", "IAD")] {
        for list in ["workloads", "instances"] {
            let seen = shop.run(&[list, "--city", typed]).await;
            assert_eq!(seen.code, 2, "{list}: {}", seen.stderr);
            let meant = format!("there is no city or location {typed:?}; did you mean {meant:?}?");
            assert!(seen.stderr.contains(&meant), "{list}: {}", seen.stderr);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_shown_in_its_city_and_found_by_its_location() {
    let shop = Project::start("shop").await;
    let workload = web(&shop, &named(&["us-south-1"]));
    at(
        &shop,
        &workload,
        "us",
        "web-us-south",
        &json!({"locationRef": {"name": "us-south-1"}}),
    );
    let labels = json!({keys::INSTANCE_CITY_CODE: "DFW", keys::INSTANCE_LOCATION: "us-south-1"});
    shop.create(instance("web-us-south-0", &labels));
    // The cell of a later version of the peer tells the location alone.
    shop.create(instance(
        "web-us-south-1",
        &json!({keys::INSTANCE_LOCATION: "us-south-1"}),
    ));
    let city = |words: &'static [&'static str]| {
        let shop = &shop;
        async move { shop.run(words).await.ok().stdout }
    };
    for asked in ["DFW", "us-south-1"] {
        let seen = shop
            .run(&["instances", "--city", asked, "--no-headers"])
            .await
            .ok()
            .stdout;
        assert_eq!(
            seen.lines().filter(|line| line.contains(" DFW ")).count(),
            2,
            "{asked}: {seen}"
        );
    }
    let seen = city(&["instances", "describe", "web-us-south-1"]).await;
    assert!(seen.contains("City:       DFW\n"), "{seen}");
    assert!(seen.contains("kubectl compute trace web --city DFW"), "{seen}");
    let seen = city(&["status", "web"]).await;
    assert!(
        seen.contains("us          DFW"),
        "the Instance tells the city: {seen}"
    );
    let seen = city(&["__complete", "instances", "--city", ""]).await;
    assert_eq!(seen, "DFW\nus-south-1\n:4\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_with_both_fields_is_that_of_its_city() {
    let shop = Project::start("shop").await;
    let workload = web(&shop, &in_cities(&["DFW"]));
    let both = json!({"locationRef": {"name": "us-south-1"}, "cityCode": "DFW"});
    at(&shop, &workload, "us", "web-us-dfw", &both);
    let once = ["rollout", "status", "web", "-w=false"];
    shop.run(&once).await.ok();
    let image = file(&shop, &workload, &in_cities(&["DFW"]), "web:2");
    assert_eq!(
        effects(&shop, &image).await,
        ["replaces 2 instances, one at a time per city"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_form_is_in_place_where_the_city_of_the_location_is_known() {
    let form = |from: Value, place: Value, to: Value| async move {
        let shop = Project::start("shop").await;
        let workload = web(&shop, &from);
        at(&shop, &workload, "us", "web-us", &place);
        let wanted = file(&shop, &workload, &to, "web:1");
        (shop, wanted)
    };
    let (dfw, south) = (
        json!({"cityCode": "DFW"}),
        json!({"locationRef": {"name": "us-south-1"}}),
    );
    for (from, place, to, line) in [
        (
            in_cities(&["DFW"]),
            &dfw,
            named(&["us-south-1"]),
            "keeps DFW as location us-south-1",
        ),
        (
            named(&["us-south-1"]),
            &south,
            in_cities(&["DFW"]),
            "keeps us-south-1 as city DFW",
        ),
        (
            in_cities(&["DFW"]),
            &dfw,
            selecting(&json!({keys::CITY_CODE: "DFW"})),
            "keeps DFW as location us-south-1",
        ),
    ] {
        let to: Value = serde_json::from_str(&to.to_string().replace("\"eu\"", "\"us\"")).unwrap();
        let (shop, wanted) = form(from, place.clone(), to).await;
        let seen = shop.run(&deploy(&wanted)).await;
        assert_eq!(seen.code, 4, "no map yet: {}", seen.stderr);
        assert!(seen.stderr.contains("\nmay "), "{}", seen.stderr);
        locations(&shop, &[("us-south-1", json!({keys::CITY_CODE: "DFW"}))]);
        assert_eq!(effects(&shop, &wanted).await, [line]);
        shop.run(&deploy(&wanted)).await.ok();
    }
    let (shop, wanted) = form(in_cities(&["DFW"]), dfw.clone(), named(&["us-east-1"])).await;
    assert_eq!(
        effects(&shop, &wanted).await,
        [
            "adds us-east-1 (min 2)",
            "may replace DFW and its 2 instances: no location tells whether us-east-1 is in this city",
        ]
    );
    locations(&shop, &[("us-east-1", json!({keys::CITY_CODE: "IAD"}))]);
    assert_eq!(
        effects(&shop, &wanted).await,
        [
            "adds us-east-1 (min 2)",
            "removes DFW and its 2 instances once the new cities are ready"
        ]
    );
    let (shop, wanted) = form(
        in_cities(&["DFW"]),
        json!({"locationRef": {"name": "us-south-1"}, "cityCode": "DFW"}),
        named(&["us-south-1"]),
    )
    .await;
    assert_eq!(
        effects(&shop, &wanted).await,
        ["keeps DFW as location us-south-1"],
        "the deployment itself says both"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_never_make_a_placement_of_both_forms() {
    let shop = Project::start("shop").await;
    web(
        &shop,
        &json!([
            named(&["us-1"])[0],
            in_cities(&["DFW"])[0].as_object().map(|placement| {
                let mut placement = placement.clone();
                placement.insert("name".to_owned(), json!("old"));
                placement
            }),
            selecting(&json!({"region": "eu"}))[0]
        ]),
    );
    let writes = shop.writes();
    for (words, what) in [
        (
            ["--placement", "us", "--city", "DFW"],
            "placement \"us\" of workload \"web\" has locations; --city would set cityCodes beside them",
        ),
        (
            ["--placement", "eu", "--city", "DFW"],
            "placement \"eu\" of workload \"web\" has locationSelector; --city would set cityCodes beside it",
        ),
        (
            ["--placement", "old", "--location", "us-1"],
            "placement \"old\" of workload \"web\" has cityCodes; --location would set locations beside them",
        ),
    ] {
        let seen = shop
            .run(&[&["deploy", "web", "--wait=false"][..], &words].concat())
            .await;
        assert_eq!(
            (seen.code, seen.stderr.as_str()),
            (
                2,
                &*format!("error: {what}\n  next: kubectl compute deploy -f FILE\n")
            ),
        );
    }
    let both = ["deploy", "web", "--city", "DFW", "--location", "us-1"];
    assert_eq!(shop.run(&both).await.code, 2);
    let wrong = ["deploy", "web", "--location", "a b"];
    assert_eq!(shop.run(&wrong).await.code, 2);
    assert_eq!(shop.writes(), writes);
    shop.run(&[
        "deploy",
        "web",
        "--placement",
        "us",
        "--location",
        "us-1,us-2",
        "--wait=false",
    ])
    .await
    .ok();
    let live = shop.plane.get("Workload", NAMESPACE, "web").unwrap();
    assert_eq!(
        live["spec"]["placements"][0]["locations"],
        json!([{"name": "us-1"}, {"name": "us-2"}])
    );
    let new = [
        "deploy",
        "new",
        "--image",
        "nginx",
        "--location",
        "us-1",
        "--wait=false",
    ];
    shop.run(&new).await.ok();
    let live = shop.plane.get("Workload", NAMESPACE, "new").unwrap();
    let placement = &live["spec"]["placements"][0];
    assert_eq!(
        (&placement["locations"], &placement["cityCodes"]),
        (&json!([{"name": "us-1"}]), &Value::Null)
    );
    locations(&shop, &[("us-south-1", json!({keys::CITY_CODE: "DFW"}))]);
    let seen = shop.run(&["deploy", "new", "--location", "us-south-2"]).await;
    assert_eq!(seen.code, 2);
    assert!(
        seen.stderr
            .contains("no location \"us-south-2\"; did you mean \"us-south-1\"?"),
        "{}",
        seen.stderr
    );
    let seen = shop
        .run(&["__complete", "deploy", "new", "--location", ""])
        .await
        .ok();
    assert_eq!(seen.stdout, "us-south-1\n:4\n");
}

/// As the gateway reads them (locations.md §2.1, number 3).
#[tokio::test(flavor = "multi_thread")]
async fn of_the_kinds_that_tell_locations_the_first_that_is_served_counts() {
    let shop = Project::start("shop").await;
    locations(&shop, &[("us-south-1", json!({keys::CITY_CODE: "DFW"}))]);
    let complete = ["__complete", "deploy", "new", "--location", ""];
    let listed = async || shop.run(&complete).await.ok().stdout;
    assert_eq!(listed().await, "us-south-1\n:4\n");
    let (group, kind) = ("networking.datumapis.com", "LocationBinding");
    shop.plane
        .define_plain(group, "v1alpha", kind, "locationbindings", false, true);
    shop.create(
        json!({"apiVersion": format!("{group}/v1alpha"), "kind": kind, "metadata": {"name": "us-east-1"},
            "spec": {"locationRef": {"name": "us-east-1"}, "topology": {keys::CITY_CODE: "IAD"}}}),
    );
    assert_eq!(listed().await, "us-east-1\n:4\n");
}
