//! Tests of the checks, and of the lists that they wait for.

use super::*;

/// Tests a failed check: the status reports the reason, sums are updated, and no deployment is changed, even if it
/// differs.
fn refused(change: impl Fn(&mut WorkloadSnapshot), reason: &str, words_of_message: &str) {
    let mut s = normalized(&[("us", &["DFW", "IAD"])]);
    s.deployments[0].spec.scale_settings.min_replicas = 7;
    report(
        &mut s.deployments[0],
        &[],
        ReplicaCounts {
            replicas: 2,
            ..ReplicaCounts::default()
        },
    );
    s.workload.spec.placements[0].city_codes = vec!["DFW".into(), "LHR".into()];
    change(&mut s);
    let effects = step(&mut s, 2);
    assert_eq!(words(&effects), ["status"]);
    let status = status_of(&effects);
    assert_eq!(reasons(status)[0], reason);
    let message = &status.conditions[0].message;
    assert!(message.contains(words_of_message), "{message}");
    assert_eq!((status.deployments, status.counts.replicas), (2, 2));
    assert_eq!(step(&mut s, 3), []);
}

#[test]
fn a_failed_check_changes_nothing_that_runs() {
    let networks = |names: &[(&str, &str)]| {
        Networks::Existing(
            names
                .iter()
                .map(|(ns, n)| ((*ns).to_owned(), (*n).to_owned()))
                .collect(),
        )
    };
    let template = |s: &mut WorkloadSnapshot, pointer: &str, value: Value| {
        let mut json = serde_json::to_value(&s.workload.spec.template).unwrap();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        json.pointer_mut(parent).unwrap()[key] = value;
        s.workload.spec.template = serde_json::from_value(json).unwrap();
    };
    refused(
        |s| s.checks.networks = networks(&[("other", "default")]),
        "NetworkNotFound",
        "default/default",
    );
    let foreign = json!({"name": "default", "namespace": "other"});
    refused(
        |s| template(s, "/spec/networkInterfaces/0/network", foreign.clone()),
        "InvalidTemplate",
        "\"other\"",
    );
    refused(
        |s| template(s, "/spec/runtime/resources/instanceType", json!("huge")),
        "InvalidTemplate",
        "\"huge\"",
    );
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "TCP"}]);
    refused(
        |s| template(s, "/spec/runtime/sandbox/containers/0/ports", ports.clone()),
        "InvalidTemplate",
        "TCP port 80",
    );
    refused(
        |s| s.workload.spec.placements[0].name = "US".into(),
        "InvalidTemplate",
        "spec.placements[0].name",
    );
}

#[test]
fn disks_and_keys_are_checked() {
    let machine = |storage: &str, device: &str, keys: &str| {
        let mut s = snapshot(&[("us", &["DFW"])]);
        s.workload.spec.template = serde_json::from_value(json!({
            "metadata": {"annotations": {"compute.datumapis.com/ssh-keys": keys}},
            "spec": {
                "runtime": {"resources": {"instanceType": "datumcloud-d1-standard-2"},
                            "virtualMachine": {"volumeAttachments": [{"name": "boot"}, {"name": "data"}]}},
                "networkInterfaces": [{"network": {"name": "default"}}],
                "volumes": [
                    {"name": "boot", "disk": {"template": {"spec": {
                        "resources": {"requests": {"storage": storage}},
                        "populator": {"image": {"name": "datumcloud/ubuntu-2204-lts"}}}}}},
                    {"name": "data", "disk": {"deviceName": device, "template": {"spec": {
                        "resources": {"requests": {"storage": "10Gi"}}}}}},
                ],
            },
        }))
        .unwrap();
        let effects = step(&mut s, 0);
        status_of(&effects).conditions[0].message.clone()
    };
    let good = "ops:ssh-ed25519 AAAA ops@example";
    assert_eq!(machine("25Gi", "data", good), "no placement is available yet");
    assert!(machine("24Gi", "data", good).contains("at least the image's 25Gi"));
    assert!(machine("25Gi", "persistent-disk-0", good).contains("default name of another disk"));
    assert!(machine("25Gi", "data", &format!("{good}\n:key")).contains("line 2 is not user:public-key"));
}

#[test]
fn lists_that_are_not_complete_are_waited_for() {
    let mut s = snapshot(&[("us", &["DFW"])]);
    s.checks.networks = Networks::Pending;
    assert_eq!(step(&mut s, 0), []);
    s.checks.networks = Networks::Unchecked;
    s.checks.locations = Locations::Pending;
    assert_eq!(step(&mut s, 0), []);
}

#[test]
fn a_city_without_location_gets_no_new_deployment_and_keeps_an_old_one() {
    let mut s = normalized(&[("us", &["DFW"])]);
    s.checks.locations = Locations::Serving([].into());
    s.workload.spec.placements[0].city_codes.push("IAD".into());
    s.workload.spec.placements[0].scale_settings.min_replicas = 2;
    let effects = step(&mut s, 2);
    assert_eq!(words(&effects), ["update shop-us-dfw us/DFW", "status"]);
    assert_eq!(
        reasons(status_of(&effects)),
        ["NoMatchingLocations", "NoMatchingLocations"]
    );
    assert!(status_of(&effects).conditions[0].message.contains("DFW, IAD"));
    s.checks.locations = Locations::Serving(["DFW".to_owned(), "IAD".to_owned()].into());
    assert_eq!(words(&step(&mut s, 3)), ["create shop-us-iad us/IAD", "status"]);
}
