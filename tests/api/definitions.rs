//! What the definitions make the API server accept, refuse, default and prune.

use crate::{
    plane::{object, objects, verdict},
    table,
};
use anyhow::Result;
use fedgate_api::{Instance, Workload, WorkloadDeployment, is_left_to_controllers, validate};
use kube::{
    Client,
    api::{Api, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

fn kind(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": kind,
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

/// Each object of the table is accepted or refused by the server as by `api::validate`, but for what is left to controllers.
pub(crate) async fn the_server_agrees_with_rust(project: &Client) -> Result<Vec<String>> {
    let api = objects::<Workload>(project, "default");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut wrong = Vec::new();
    for (i, case) in table::cases().iter().enumerate() {
        let answer = verdict(
            api.create(&dry, &object(kind("Workload", &format!("w{i}"), &case.spec)))
                .await,
        );
        let reason = validate::spec(&case.spec)
            .into_iter()
            .find(|p| Some(p.rule) == case.breaks);
        let right = match reason {
            None => answer == "200",
            Some(p) if is_left_to_controllers(p.rule) => answer == "200",
            // The rule's own words; a bound is said in the server's words.
            Some(p) if p.rule != "schema" => answer.starts_with("422") && answer.contains(&p.message),
            Some(_) => answer.starts_with("422"),
        };
        if !right {
            wrong.push(format!(
                "{}: expected {:?}, the server says {answer}",
                case.name, case.breaks
            ));
        }
    }
    Ok(wrong)
}

/// What is bound in a Workload is not in a deployment: controllers write those.
pub(crate) async fn a_deployment_is_not_bound(project: &Client) -> Result<()> {
    let api = objects::<WorkloadDeployment>(project, "default");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    for (i, case) in table::cases()
        .iter()
        .enumerate()
        .filter(|(_, c)| c.spec["template"].is_object())
    {
        let Some(rule) = case.breaks.filter(|rule| *rule != "schema") else {
            continue;
        };
        let spec = json!({
            "workloadRef": {"name": "w", "uid": "u"}, "placementName": "P", "cityCode": "a b",
            "template": case.spec["template"], "scaleSettings": {"minReplicas": 0, "instanceManagementPolicy": "Foo"},
        });
        let answer = verdict(
            api.create(&dry, &object(kind("WorkloadDeployment", &format!("d{i}"), &spec)))
                .await,
        );
        assert_eq!(answer, "200", "{} ({rule})", case.name);
    }
    let incomplete = json!({"placementName": "p", "cityCode": "DFW"});
    let answer = verdict(
        api.create(&dry, &object(kind("WorkloadDeployment", "bad", &incomplete)))
            .await,
    );
    assert!(answer.starts_with("422"), "{answer}");
    a_deployment_has_a_place(&api, &dry).await;
    Ok(())
}

/// A city, a location or both are admitted, neither is refused, with the fields named (locations.md §2.2 rule 2).
async fn a_deployment_has_a_place(api: &Api<DynamicObject>, dry: &PostParams) {
    let template = &table::cases()[0].spec["template"];
    let location = json!({"name": "us-south-1"});
    for (i, (place, admitted)) in [
        (json!({"cityCode": "DFW"}), true),
        (json!({"locationRef": location, "replicas": 3}), true),
        (json!({"cityCode": "DFW", "locationRef": location}), true),
        (json!({}), false),
        (json!({"locationRef": {}}), false),
    ]
    .into_iter()
    .enumerate()
    {
        let mut spec = json!({"workloadRef": {"name": "w", "uid": "u"}, "placementName": "p", "template": template,
            "scaleSettings": {"minReplicas": 1}});
        if let (Some(spec), Some(place)) = (spec.as_object_mut(), place.as_object()) {
            spec.extend(place.clone());
        }
        let object = object(kind("WorkloadDeployment", &format!("place{i}"), &spec));
        let answer = verdict(api.create(dry, &object).await);
        let refused = answer.starts_with("422") && answer.contains("locationRef");
        assert!(
            if admitted { answer == "200" } else { refused },
            "{place}: {answer}"
        );
    }
}

/// Root fields are optional, the policy has a default, unknown fields go, labels of the template stay.
pub(crate) async fn a_deployment_is_pruned_and_defaulted(project: &Client) -> Result<()> {
    let api = objects::<WorkloadDeployment>(project, "default");
    let bare = json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
                      "metadata": {"name": "bare"}});
    assert_eq!(
        verdict(api.create(&PostParams::default(), &object(bare)).await),
        "200"
    );

    let mut template = table::cases()[0].spec["template"].take();
    template["spec"]["surprise"] = json!(true);
    let spec = json!({
        "workloadRef": {"name": "w", "uid": "u"}, "placementName": "us", "cityCode": "DFW",
        "template": template, "scaleSettings": {"minReplicas": 1},
    });
    let made = api
        .create(
            &PostParams::default(),
            &object(kind("WorkloadDeployment", "d", &spec)),
        )
        .await?;
    let spec = &made.data["spec"];
    assert_eq!(spec["scaleSettings"]["instanceManagementPolicy"], "OrderedReady");
    assert_eq!(spec["template"]["metadata"]["labels"]["app"], "storefront");
    assert!(spec["template"]["spec"]["surprise"].is_null());

    let apply = PatchParams::apply("test");
    let status = |counts: Value| {
        json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
        "metadata": {"name": "d"}, "status": counts})
    };
    let partial = api
        .patch_status("d", &apply, &Patch::Apply(&status(json!({"replicas": 1}))))
        .await;
    assert!(verdict(partial).starts_with("422"), "counters are required");
    let full = json!({"replicas": 0, "currentReplicas": 0, "desiredReplicas": 0, "readyReplicas": 0});
    let made = api
        .patch_status("d", &apply, &Patch::Apply(&status(full)))
        .await?;
    assert_eq!(made.data["status"]["updatedReplicas"], 0);
    Ok(())
}

/// A new Instance says that it waits.
pub(crate) async fn an_instance_has_a_status_from_the_start(project: &Client) -> Result<()> {
    let spec = json!({
        "runtime": {"resources": {"instanceType": "x"}, "sandbox": {"containers": [{"name": "a", "image": "b"}]}},
        "networkInterfaces": [{"network": {"name": "default"}}],
    });
    let api = objects::<Instance>(project, "default");
    let made = api
        .create(&PostParams::default(), &object(kind("Instance", "i-0", &spec)))
        .await?;
    let conditions = made.data["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let said: Vec<_> = conditions
        .iter()
        .map(|c| format!("{} {}", c["type"], c["reason"]))
        .collect();
    assert_eq!(
        said,
        [
            r#""Programmed" "Pending""#,
            r#""Available" "Pending""#,
            r#""Ready" "Pending""#,
            r#""QuotaGranted" "PendingEvaluation""#
        ]
    );
    serde_json::from_value::<Instance>(serde_json::to_value(&made)?)?;
    Ok(())
}

/// A new Workload is in progress, not done, for everyone who reads its condition `Ready`.
pub(crate) async fn a_workload_is_not_ready_from_the_start(project: &Client) -> Result<()> {
    let api = objects::<Workload>(project, "default");
    let spec = table::cases().remove(0).spec;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = api
        .create(&dry, &object(kind("Workload", "fresh", &spec)))
        .await?;
    let ready = &made.data["status"]["conditions"][0];
    assert_eq!(
        (&ready["type"], &ready["status"]),
        (&json!("Ready"), &json!("Unknown"))
    );
    serde_json::from_value::<Workload>(serde_json::to_value(&made)?)?;
    Ok(())
}

/// A name that instances cannot carry as a label value is refused with the bound, and a strict write names a misspelt field in
/// the words that `kubectl compute` looks for.
pub(crate) async fn a_long_name_and_a_misspelt_field_are_refused(project: &Client) -> Result<()> {
    let api = objects::<Workload>(project, "default");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut spec = table::cases().remove(0).spec;
    for (length, expected) in [(63, "200"), (64, "at most 63 characters")] {
        let named = object(kind("Workload", &"w".repeat(length), &spec));
        let answer = verdict(api.create(&dry, &named).await);
        assert!(answer.contains(expected), "{length}: {answer}, not {expected}");
    }
    spec["placements"][0]["cityCods"] = json!(["DFW"]);
    let body = kind("Workload", "misspelt", &spec).to_string().into_bytes();
    let path =
        "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads?dryRun=All&fieldValidation=Strict";
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(body)?;
    let error = project.request::<Value>(request).await.unwrap_err();
    let kube::Error::Api(status) = error else {
        anyhow::bail!("no refusal: {error}");
    };
    assert_eq!(status.code, 400, "{}", status.message);
    let names = "unknown field \"spec.placements[0].cityCods\"";
    assert!(status.message.contains(names), "{}", status.message);
    Ok(())
}

/// What `kubectl get compute` and `kubectl get wd` show.
pub(crate) async fn names_and_columns_are_served(project: &Client) -> Result<()> {
    let served = project
        .list_api_group_resources("compute.datumapis.com/v1alpha")
        .await?;
    let kinds = served.resources.iter().filter(|r| !r.name.contains('/'));
    let mut names: Vec<_> = kinds
        .map(|r| {
            let of = |list: &Option<Vec<String>>| list.clone().unwrap_or_default().join(",");
            format!("{} {} {}", r.kind, of(&r.short_names), of(&r.categories))
        })
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "Instance inst compute",
            "Workload cw compute",
            "WorkloadDeployment wd compute"
        ]
    );

    let api = objects::<WorkloadDeployment>(project, "default");
    let status = json!({"status": {"replicas": 3, "currentReplicas": 1, "desiredReplicas": 3, "readyReplicas": 2,
        "updatedReplicas": 1, "conditions": [{"type": "Federated", "status": "True", "reason": "Delivered",
            "message": "delivered", "lastTransitionTime": "2026-05-04T10:00:00Z"}]}});
    let merge = PatchParams::default();
    api.patch_status("d", &merge, &Patch::Merge(&status)).await?;
    let request =
        http::Request::get("/apis/compute.datumapis.com/v1alpha/namespaces/default/workloaddeployments/d")
            .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let shown: Value = project.request(request.body(Vec::new())?).await?;
    let columns = shown["columnDefinitions"].as_array().unwrap();
    let cells = shown["rows"][0]["cells"].as_array().unwrap();
    let narrow: Vec<_> = columns
        .iter()
        .zip(cells)
        .filter(|(column, _)| column["priority"] == 0)
        .collect();
    let heads: Vec<_> = narrow
        .iter()
        .map(|(column, _)| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        heads,
        [
            "Name",
            "City",
            "Available",
            "Reason",
            "Federated",
            "Desired",
            "Ready",
            "Up-to-date",
            "Age"
        ]
    );
    let values: Vec<_> = narrow.iter().skip(1).take(7).map(|(_, cell)| *cell).collect();
    assert_eq!(
        values,
        [
            &json!("DFW"),
            &Value::Null,
            &Value::Null,
            &json!("Delivered"),
            &json!(3),
            &json!(2),
            &json!(1)
        ]
    );
    Ok(())
}

/// The example that users are given is valid.
pub(crate) async fn the_example_is_accepted(project: &Client) -> Result<()> {
    let text = include_str!("../../examples/storefront.yaml");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    let workload = documents.into_iter().find(|d| d["kind"] == "Workload").unwrap();
    assert_eq!(validate::spec(&workload["spec"]), []);
    let answer = verdict(
        objects::<Workload>(project, "default")
            .create(&dry, &object(workload))
            .await,
    );
    assert_eq!(answer, "200");
    Ok(())
}
