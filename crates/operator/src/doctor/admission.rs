//! The admission policies of the hub, which limit what gateway and cells may write.

use super::{Check, Finding, PreflightError, Subject, definitions};
use crate::membership::change::contains;
use fedgate_manifests::{Manifest, Plane};
use serde_json::Value;
use std::collections::BTreeSet;

const NEXT: &str = "apply manifests/hub: kubectl apply --server-side -f manifests/hub";

/// Checks that the hub has the policies and bindings of these files, unchanged.
pub(super) async fn check(subject: &Subject, files: &[Manifest]) -> Finding {
    let check = Check::Admission;
    let of_hub = files.iter().filter(|file| file.planes.contains(&Plane::Hub));
    let policies = of_hub.flat_map(|file| file.objects.iter().map(|object| (file.path.as_str(), object)));
    let policies: Vec<(&str, &Value)> = policies.filter(|(_, object)| is_policy(object)).collect();
    let (mut missing, mut differing, mut changed) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (file, object) in &policies {
        let (plural, name) = (
            plural(object),
            object["metadata"]["name"].as_str().unwrap_or_default(),
        );
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}/{name}");
        match definitions::get(&subject.client, &path).await {
            Ok(live) if contains(&live["spec"], &object["spec"]) => {}
            Ok(_) => {
                differing.push(format!("{plural} {name}"));
                changed.insert(format!("-f manifests/{file}"));
            }
            Err(PreflightError::NotFound(_)) => missing.push(format!("{plural} {name}")),
            Err(PreflightError::Forbidden { .. }) => {
                let next = "give --admin-kubeconfig of a user who may get them";
                return subject.open(check, format!("this user may not get {plural}"), next);
            }
            Err(error) => return subject.error(check, &error),
        }
    }
    if !missing.is_empty() {
        return subject.fail(check, format!("missing: {}", missing.join(", ")), NEXT);
    }
    if !differing.is_empty() {
        let text = format!("other than in manifests/hub: {}", differing.join(", "));
        // An apply would leave what another manager has added to a list, for example `Audit` beside `Deny`.
        let files: Vec<String> = changed.into_iter().collect();
        let next = format!("put them back: kubectl replace {}", files.join(" "));
        return subject.fail(check, text, next);
    }
    let text = format!("all {} policies and bindings are there and deny", policies.len());
    subject.ok(check, text)
}

fn is_policy(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    kind.starts_with("ValidatingAdmissionPolicy")
}

fn plural(object: &Value) -> &'static str {
    match object["kind"].as_str() {
        Some("ValidatingAdmissionPolicyBinding") => "validatingadmissionpolicybindings",
        _ => "validatingadmissionpolicies",
    }
}
