//! Digest of a `WorkloadDeployment` at the cell.

use super::{Strings, annotation};
use crate::{
    rollout::{Policy, hash, strategy::RolloutStrategy},
    settings::Settings,
};
use fedgate_api::{NetworkReference, Place, RolloutSettings, ScaleSettings, keys, validate};
use fedgate_engine::object::entries;
use kube::core::DynamicObject;
use serde_json::Value;
use std::sync::Arc;

/// A `WorkloadDeployment`.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// `metadata.generation`.
    pub generation: i64,
    /// The parsed spec, or the parse error.
    pub spec: Result<Arc<Spec>, Arc<str>>,
    /// True if the deployment is suspended.
    pub suspended: bool,
    /// Hash of the last template whose rollout completed.
    pub complete_template_hash: Option<Arc<str>>,
    /// True if the annotation with the hash of an undone template exists.
    pub has_undone: bool,
    /// Annotation with the expected referenced data, unparsed.
    pub expected: Option<Arc<str>>,
    /// Annotation with the error of the referenced data, unparsed.
    pub data_error: Option<Arc<str>>,
    /// The status as JSON text.
    pub status: Arc<str>,
}

/// The spec of a `WorkloadDeployment`.
#[derive(Debug, PartialEq)]
pub struct Spec {
    /// Name of the Workload.
    pub workload: Arc<str>,
    /// UID of the Workload.
    pub workload_uid: Arc<str>,
    /// Name of the placement.
    pub placement: Arc<str>,
    /// Where it is to run.
    pub place: Place<Arc<str>>,
    /// Number of Instances; `None` if the number exceeds the limit of the cell or is negative.
    pub replicas: Option<u32>,
    /// Order in which Instances are created and deleted.
    pub policy: Policy,
    /// How Instances are replaced.
    pub strategy: Option<RolloutStrategy>,
    /// Name of the policy, unparsed.
    pub policy_name: Arc<str>,
    /// The template of its Instances as JSON text, including fields that this version does not know: the deployment's template, or,
    /// if the rollout of that template was undone, the last template whose rollout completed.
    pub template: Arc<str>,
    /// Hash of that template.
    pub hash: Arc<str>,
    /// True if the rollout of the deployment's own template was undone.
    pub undone: bool,
    /// The networks of the template's interfaces, in order.
    pub networks: Vec<NetworkReference>,
    /// True if the template references a `ConfigMap` or Secret.
    pub references: bool,
    /// Reasons why the template cannot or must not run at this cell.
    pub faults: Option<Arc<str>>,
}

/// Validation rules for users' input that do not apply at a cell.
const NOT_AT_A_CELL: [&str; 3] = ["V7", "V8", "V19"];
/// Maximum number of faults in the message.
const NAMED_FAULTS: usize = 3;

/// Builds the digest of a `WorkloadDeployment`.
pub fn deployment(object: &DynamicObject, settings: &Settings, words: &mut Strings) -> Deployment {
    let own = |key| annotation(object, key);
    let complete = own(keys::COMPLETE_TEMPLATE).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let written = &object.data["spec"];
    let spec = match complete
        .as_ref()
        .filter(|_| is_undone(written, own(keys::UNDONE)))
    {
        Some(complete) => {
            let mut former = written.clone();
            former["template"] = complete.clone();
            spec(&former, true, settings, words)
        }
        None => spec(written, false, settings, words),
    };
    Deployment {
        generation: object.metadata.generation.unwrap_or_default(),
        spec,
        has_undone: own(keys::UNDONE).is_some(),
        complete_template_hash: complete.map(|template| words.intern(hash::of(&template).as_str())),
        suspended: own(keys::SUSPENDED) == Some("true"),
        expected: own(keys::EXPECTED_REFERENCED_DATA).map(|text| words.intern(text)),
        data_error: own(keys::REFERENCED_DATA_ERROR).map(|text| words.intern(text)),
        status: object.data["status"].to_string().into(),
    }
}

/// True if `onFailure` is `Undo` and annotation `undone` has the hash of the spec's template.
fn is_undone(spec: &Value, undone: Option<&str>) -> bool {
    spec["scaleSettings"]["rollout"]["onFailure"] == RolloutSettings::UNDO
        && undone.is_some_and(|undone| *undone == hash::of(&spec["template"]))
}

fn spec(
    written: &Value,
    undone: bool,
    settings: &Settings,
    words: &mut Strings,
) -> Result<Arc<Spec>, Arc<str>> {
    let spec: fedgate_api::WorkloadDeploymentSpec =
        serde_json::from_value(written.clone()).map_err(|e| Arc::from(format!("spec: {e}")))?;
    let template = &written["template"];
    let scale = &spec.scale_settings;
    let interfaces = spec.template.spec.network_interfaces.iter();
    let mut text_of = |text: &str| words.intern(text);
    let place = Place::of(
        spec.city_code.as_deref().map(&mut text_of),
        spec.location_ref.as_ref().map(|location| text_of(&location.name)),
    );
    let has_disk = spec
        .template
        .spec
        .volumes
        .iter()
        .any(|volume| volume.disk.is_some());
    let replicas = replicas(scale, settings);
    let strategy = |settings| RolloutStrategy::of(settings, replicas.unwrap_or_default(), has_disk);
    let place = place.ok_or("spec: neither cityCode nor locationRef is set; set one of them")?;
    Ok(Arc::new(Spec {
        workload: words.intern(spec.workload_ref.name.as_str()),
        workload_uid: words.intern(spec.workload_ref.uid.as_str()),
        placement: words.intern(spec.placement_name.as_str()),
        place,
        replicas,
        policy: Policy::of(&scale.instance_management_policy),
        strategy: scale.rollout.as_ref().map(strategy),
        policy_name: words.intern(scale.instance_management_policy.0.as_str()),
        template: template.to_string().into(),
        hash: words.intern(hash::of(template).as_str()),
        undone,
        networks: interfaces.map(|interface| interface.network.clone()).collect(),
        references: references(template),
        faults: faults(&spec, written, settings),
    }))
}

fn replicas(scale: &ScaleSettings, settings: &Settings) -> Option<u32> {
    let count = u32::try_from(scale.min_replicas).ok();
    count.filter(|count| *count <= settings.max_replicas)
}

fn faults(
    spec: &fedgate_api::WorkloadDeploymentSpec,
    written: &Value,
    settings: &Settings,
) -> Option<Arc<str>> {
    let scale = &spec.scale_settings;
    let count = replicas(scale, settings).is_none().then(|| {
        format!(
            "spec.scaleSettings.minReplicas: {} is not from 0 to {}, this cell's limit; correct it, or raise --max-replicas",
            scale.min_replicas, settings.max_replicas
        )
    });
    let footprint = settings.sizes.footprint(&written["template"]["spec"]);
    let size = footprint.err().map(|why| format!("spec.template.spec.{why}"));
    let problems = validate::template(&spec.template);
    let problems = problems
        .iter()
        .filter(|problem| !NOT_AT_A_CELL.contains(&problem.rule))
        .map(ToString::to_string);
    let all = count.into_iter().chain(size).chain(problems);
    let named: Vec<String> = all.take(NAMED_FAULTS).collect();
    (!named.is_empty()).then(|| named.join("; ").into())
}

/// True if a template references a `ConfigMap` or Secret (contract: cell.md §3).
fn references(template: &Value) -> bool {
    let sandbox = &template["spec"]["runtime"]["sandbox"];
    let by_volume = |volume: &Value| !volume["configMap"].is_null() || !volume["secret"].is_null();
    let by_variable = |variable: &Value| {
        let from = &variable["valueFrom"];
        !from["configMapKeyRef"].is_null() || !from["secretKeyRef"].is_null()
    };
    let by_container = |container: &Value| {
        !entries(&container["envFrom"]).is_empty() || entries(&container["env"]).iter().any(by_variable)
    };
    !entries(&sandbox["imagePullSecrets"]).is_empty()
        || entries(&template["spec"]["volumes"]).iter().any(by_volume)
        || entries(&sandbox["containers"]).iter().any(by_container)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_way_to_reference_data_is_seen() {
        let container = |field: &str, value: Value| json!({"spec": {"runtime": {"sandbox": {"containers": [{field: value}]}}}});
        let with = [
            container("envFrom", json!([{"configMapRef": {"name": "a"}}])),
            container(
                "env",
                json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]),
            ),
            container(
                "env",
                json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}]),
            ),
            json!({"spec": {"volumes": [{"name": "v", "secret": {"secretName": "a"}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "a"}}]}}),
            json!({"spec": {"runtime": {"sandbox": {"imagePullSecrets": [{"name": "a"}]}}}}),
        ];
        for template in with {
            assert!(references(&template), "{template}");
        }
        let without = [
            container("env", json!([{"name": "A", "value": "b"}])),
            json!({"spec": {"volumes": [{"name": "v", "disk": {}}]}}),
        ];
        for template in without {
            assert!(!references(&template), "{template}");
        }
    }
}
