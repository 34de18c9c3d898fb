//! Workloads that name a location, and the change between the two forms (docs/contract/locations.md §4).

use crate::support::{
    Case, Wish,
    case::name,
    cell::CellRole,
    kinds::{CLUSTER, DEPLOYMENT, INSTANCE, POD, POLICY, SERVING_LOCATION, WORKLOAD},
    label, lone_trials, seconds, uid, wait_for, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};

lone_trials![
    l02_a_workload_at_a_location_runs_and_a_change_of_form_replaces_nothing,
    l03_of_a_city_with_two_locations_each_has_its_own,
];

/// Seconds until a change has arrived on the next plane.
const SOON: u64 = 60;

/// The form of a placement, with the other fields taken out by a merge.
fn cities() -> Value {
    json!({"cityCodes": ["DFW"]})
}

fn locations(name: &str) -> Value {
    json!({"locations": [{"name": name}]})
}

/// The objects that must not change with the form: the deployment in the project and in the cell, the Instance and its Pod.
#[derive(Debug, PartialEq)]
struct Kept {
    uids: [String; 4],
    hash: Value,
}

async fn kept(case: &Case) -> Kept {
    let cell = &case.dfw().plane;
    let (deployment, instance) = ("web-us-dfw", "web-us-dfw-0");
    let there = "it is there";
    let project = case
        .project
        .get(&DEPLOYMENT, &case.ns, deployment)
        .await
        .expect(there);
    let at_cell = cell
        .get(&DEPLOYMENT, &case.hub_ns, deployment)
        .await
        .expect(there);
    let made = cell.get(&INSTANCE, &case.hub_ns, instance).await.expect(there);
    let pod = cell.get(&POD, &case.hub_ns, instance).await.expect(there);
    Kept {
        uids: [&project, &at_cell, &made, &pod].map(|object| uid(object).to_owned()),
        hash: made["spec"]["controller"]["templateHash"].clone(),
    }
}

/// Gives the placement another form, and waits until the cell's deployment names city and location.
async fn take_form(case: &Case, wish: &Wish, form: &Value, place: &Value) {
    let mut spec = wish.workload()["spec"].clone();
    let placement = spec["placements"][0].as_object_mut().unwrap();
    placement.remove("cityCodes");
    placement.extend(form.as_object().unwrap().clone());
    let patch = json!({"spec": {"placements": spec["placements"]}});
    case.project.merge(&WORKLOAD, &case.ns, &wish.name, patch).await;
    let what = format!("is at {place}");
    let is_at = |d: &Value| {
        let fields = ["cityCode", "locationRef"];
        fields.iter().all(|field| d["spec"][*field] == place[*field])
    };
    case.project
        .sees(&DEPLOYMENT, &case.ns, "web-us-dfw", &what, seconds(SOON), is_at)
        .await;
}

/// Waits until the copy on the hub has this one label of a place, and the policies of its namespace are those of the routes.
async fn routed(case: &Case, deployment: &str, label: (&str, &str), policies: &[&str]) {
    let what = format!("has the label {label:?} of a place alone");
    let is_routed = |copy: &Value| {
        let found = [keys::CITY_CODE, keys::LOCATION].map(|key| self::label(copy, key));
        let wanted = [keys::CITY_CODE, keys::LOCATION].map(|key| (key == label.0).then_some(label.1));
        found == wanted
    };
    case.hub
        .sees(
            &DEPLOYMENT,
            &case.hub_ns,
            deployment,
            &what,
            seconds(SOON),
            is_routed,
        )
        .await;
    wait_for(
        &format!("{} has the policies {policies:?}", case.hub_ns),
        seconds(SOON),
        || async {
            let all = case.hub.list(&POLICY, &case.hub_ns, "").await;
            let mut names: Vec<&str> = all.iter().map(name).collect();
            names.sort_unstable();
            (names == policies).then_some(())
        },
    )
    .await;
}

/// Labels Clusters with city and location; `null` takes one off.
async fn label_cluster(case: &Case, cluster: &str, city: &str, location: Value) {
    let patch = json!({"metadata": {"labels": {keys::CITY_CODE: city, keys::LOCATION: location}}});
    case.hub.merge(&CLUSTER, "", cluster, patch).await;
}

/// A Workload of one Instance at a location.
fn located(workload: &str, location: &str) -> Value {
    let mut of = Wish::new(workload, 1).workload();
    let placement = of["spec"]["placements"][0].as_object_mut().unwrap();
    placement.remove("cityCodes");
    placement.extend(locations(location).as_object().unwrap().clone());
    of
}

/// Rows 2, 6, 8, 13 and 18.
async fn l02_a_workload_at_a_location_runs_and_a_change_of_form_replaces_nothing(case: Case) {
    let dfw = case.dfw();
    let all = dfw.plane.list(&SERVING_LOCATION, "", "").await;
    let here = name(&all[0]).to_owned();
    let (by_city, by_location) = ((keys::CITY_CODE, "DFW"), (keys::LOCATION, &*here));
    let policy = format!("location-{here}");
    with_cleanup(
        async {
            let wish = Wish::new("web", 1);
            case.run(&wish).await;
            let before = kept(&case).await;
            // The city gets its location while it runs: the copy names both.
            label_cluster(&case, "dfw-1", "DFW", json!(here)).await;
            let both =
                |d: &Value| d["spec"]["cityCode"] == "DFW" && d["spec"]["locationRef"]["name"] == *here;
            case.sees(&DEPLOYMENT, "web-us-dfw", "names city and location", both)
                .await;
            let reference = json!({"locationRef": {"name": here}});
            take_form(&case, &wish, &locations(&here), &reference).await;
            case.sees(&DEPLOYMENT, "web-us-dfw", "names city and location", both)
                .await;
            routed(&case, "web-us-dfw", by_location, &[&policy]).await;
            case.runs(&wish).await;
            assert_eq!(kept(&case).await, before);
            take_form(&case, &wish, &cities(), &json!({"cityCode": "DFW"})).await;
            routed(&case, "web-us-dfw", by_city, &["city-dfw"]).await;
            case.runs(&wish).await;
            assert_eq!(kept(&case).await, before);
            let instance = dfw
                .plane
                .get(&INSTANCE, &case.hub_ns, "web-us-dfw-0")
                .await
                .unwrap();
            assert_eq!(label(&instance, keys::INSTANCE_LOCATION), Some(&*here));
            // A Workload that begins at the location runs like one of the city.
            case.project
                .create(&WORKLOAD, &case.ns, located("far", &here))
                .await;
            let name = format!("far-us-{here}-0");
            case.project_says(&INSTANCE, &name, ["Ready", "True", "Available"])
                .await;
            let deployment = format!("far-us-{here}");
            case.project_says(&DEPLOYMENT, &deployment, ["Federated", "True", "Delivered"])
                .await;
            routed(&case, &deployment, by_location, &["city-dfw", &policy]).await;
            // A gateway that begins anew has the copies before it has the Clusters, and writes none.
            let mark = case.mark();
            case.suite.gateway.kill().await;
            case.suite.gateway.start().await;
            // A location without a Cluster says so.
            case.project
                .create(&WORKLOAD, &case.ns, located("lost", "nowhere"))
                .await;
            case.project_says(
                &DEPLOYMENT,
                "lost-us-nowhere",
                ["Federated", "False", "NoCellForLocation"],
            )
            .await;
            let asked = case.asked(&mark);
            let written = asked.iter().filter(|(plane, entry)| {
                plane == "hub" && entry.is_write() && entry.object_ref.resource == "workloaddeployments"
            });
            let gateway = written.filter(|(_, entry)| entry.user.username.contains("fedgate-gateway"));
            let words: Vec<String> = gateway
                .map(|(_, entry)| format!("{} {}", entry.action(), entry.object_ref.name))
                .collect();
            assert_eq!(words, [""; 0]);
        },
        async {
            // What is delivered to a location goes with its label.
            case.project.delete(&WORKLOAD, &case.ns, "far").await;
            label_cluster(&case, "dfw-1", "DFW", Value::Null).await;
        },
    )
    .await;
}

/// Rows 10, 13 and 17: the cell of the other location moves to DFW for the time of this test.
async fn l03_of_a_city_with_two_locations_each_has_its_own(case: Case) {
    let (dfw, lhr) = (case.dfw(), &case.suite.lhr);
    let serving = async |cell: &CellRole| {
        let all = cell.plane.list(&SERVING_LOCATION, "", "").await;
        name(&all[0]).to_owned()
    };
    let (first, second) = (serving(dfw).await, serving(lhr).await);
    let place = async |city: &str, locations: [Value; 2]| {
        let topology = json!({"spec": {"topology": {keys::CITY_CODE: city}}});
        lhr.plane.merge(&SERVING_LOCATION, "", &second, topology).await;
        let [here, there] = locations;
        label_cluster(&case, "lhr-1", city, there).await;
        label_cluster(&case, "dfw-1", "DFW", here).await;
    };
    with_cleanup(
        async {
            let wish = Wish::new("web", 1);
            case.run(&wish).await;
            let before = kept(&case).await;
            place("DFW", [json!(first), json!(second)]).await;
            // By its city, it stays at the first. The tenant names that one: it keeps all it has.
            let reference = json!({"locationRef": {"name": first}});
            take_form(&case, &wish, &locations(&first), &reference).await;
            let policy = format!("location-{first}");
            routed(&case, "web-us-dfw", (keys::LOCATION, &first), &[&policy]).await;
            case.runs(&wish).await;
            assert_eq!(kept(&case).await, before);
            assert_eq!(lhr.plane.get(&DEPLOYMENT, &case.hub_ns, "web-us-dfw").await, None);
            // Another Workload at the other one runs there, and its write-back and projection say so.
            case.project
                .create(&WORKLOAD, &case.ns, located("far", &second))
                .await;
            let instance = format!("far-us-{second}-0");
            let made = case
                .project_says(&INSTANCE, &instance, ["Ready", "True", "Available"])
                .await;
            assert_eq!(label(&made, keys::INSTANCE_LOCATION), Some(&*second));
            assert_eq!(label(&made, keys::INSTANCE_CITY_CODE), Some("DFW"));
            let there = lhr.plane.get(&INSTANCE, &case.hub_ns, &instance).await;
            assert!(there.is_some(), "{instance} runs at the cell of {second}");
            let deployment = format!("far-us-{second}");
            assert_eq!(
                dfw.plane.get(&DEPLOYMENT, &case.hub_ns, &deployment).await,
                None,
                "the cell of {first} has nothing of it"
            );
        },
        async {
            case.project.delete(&WORKLOAD, &case.ns, "far").await;
            case.project.delete(&WORKLOAD, &case.ns, "web").await;
            case.emptied(lhr).await;
            case.emptied(dfw).await;
            place("LHR", [Value::Null, Value::Null]).await;
        },
    )
    .await;
}
