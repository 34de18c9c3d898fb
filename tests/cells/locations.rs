//! Workloads that name a location, and the change between the two forms (docs/contract/locations.md §4).

use crate::support::{
    Case, Wish,
    case::name,
    kinds::{CLUSTER, DEPLOYMENT, INSTANCE, POD, SERVING_LOCATION, WORKLOAD},
    label, lone_trials, seconds, uid, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};

lone_trials![l02_a_workload_at_a_location_runs_and_a_change_of_form_replaces_nothing,];

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

/// Rows 2, 6, 8 and 18.
async fn l02_a_workload_at_a_location_runs_and_a_change_of_form_replaces_nothing(case: Case) {
    let dfw = case.dfw();
    let all = dfw.plane.list(&SERVING_LOCATION, "", "").await;
    let here = name(&all[0]).to_owned();
    let label_cluster = async |value: Value| {
        let patch = json!({"metadata": {"labels": {keys::LOCATION: value}}});
        case.hub.merge(&CLUSTER, "", "dfw-1", patch).await;
    };
    with_cleanup(
        async {
            let wish = Wish::new("web", 1);
            case.run(&wish).await;
            let before = kept(&case).await;
            // The city gets its location while it runs: the copy names both.
            label_cluster(json!(here)).await;
            let both =
                |d: &Value| d["spec"]["cityCode"] == "DFW" && d["spec"]["locationRef"]["name"] == *here;
            case.sees(&DEPLOYMENT, "web-us-dfw", "names city and location", both)
                .await;
            let reference = json!({"locationRef": {"name": here}});
            take_form(&case, &wish, &locations(&here), &reference).await;
            case.sees(&DEPLOYMENT, "web-us-dfw", "names city and location", both)
                .await;
            case.runs(&wish).await;
            assert_eq!(kept(&case).await, before);
            take_form(&case, &wish, &cities(), &json!({"cityCode": "DFW"})).await;
            case.runs(&wish).await;
            assert_eq!(kept(&case).await, before);
            let instance = dfw
                .plane
                .get(&INSTANCE, &case.hub_ns, "web-us-dfw-0")
                .await
                .unwrap();
            assert_eq!(label(&instance, keys::INSTANCE_LOCATION), Some(&*here));
            // A Workload that begins at the location runs like one of the city.
            let mut fresh = Wish::new("far", 1).workload();
            fresh["spec"]["placements"][0]
                .as_object_mut()
                .unwrap()
                .remove("cityCodes");
            fresh["spec"]["placements"][0]["locations"] = json!([{"name": here}]);
            case.project.create(&WORKLOAD, &case.ns, fresh).await;
            let name = format!("far-us-{here}-0");
            case.project_says(&INSTANCE, &name, ["Ready", "True", "Available"])
                .await;
            let deployment = format!("far-us-{here}");
            case.project_says(&DEPLOYMENT, &deployment, ["Federated", "True", "Delivered"])
                .await;
            // A gateway that begins anew has the copies before it has the Clusters, and writes none.
            let mark = case.mark();
            case.suite.gateway.kill().await;
            case.suite.gateway.start().await;
            // A location without a Cluster says so.
            let mut lost = Wish::new("lost", 1).workload();
            lost["spec"]["placements"][0]
                .as_object_mut()
                .unwrap()
                .remove("cityCodes");
            lost["spec"]["placements"][0]["locations"] = json!([{"name": "nowhere"}]);
            case.project.create(&WORKLOAD, &case.ns, lost).await;
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
        label_cluster(Value::Null),
    )
    .await;
}
