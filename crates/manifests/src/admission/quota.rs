//! Limits of cells on claims of quota in projects (contract: api.md §9).

use super::{labels_of, on, policy, validation};
use crate::{QUOTA, QUOTA_USER_PREFIX};
use fedgate_api::{GROUP, keys, names::CLAIM_PREFIX};
use serde_json::{Value, json};

/// Limits a cell to the claims of its own Instances. Its role can only name the kind, and the claims of every cell and of
/// every other service are of the same one.
pub(super) fn cell_claims() -> Vec<Value> {
    let validations = [whose(), what()].concat();
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints":
            on("quota.miloapis.com", "v1alpha1", &["CREATE", "UPDATE", "DELETE"], &["resourceclaims"]),
        "matchConditions": [{
            "name": "by-a-cell",
            "expression": format!("'{QUOTA}' in request.userInfo.groups"),
        }],
        "variables": [
            json!({"name": "writer", "expression": format!(
                "request.userInfo.username.startsWith('{QUOTA_USER_PREFIX}') ? \
                 request.userInfo.username.substring({}) : ''",
                QUOTA_USER_PREFIX.len()
            )}),
            labels_of("labels", "object"),
            labels_of("oldLabels", "oldObject"),
        ],
        "validations": validations,
    });
    policy("fedgate-cell-claims", &spec, None)
}

/// The claim is the writer's, before and after, and has the name of an Instance's claim.
fn whose() -> Vec<Value> {
    let is_writers = |labels: &str| {
        let cell = keys::SOURCE_CLUSTER;
        format!("variables.writer != '' && variables.{labels}[?'{cell}'].orValue('') == variables.writer")
    };
    let is_named =
        |object: &str| format!("({object} == null || {object}.metadata.name.startsWith('{CLAIM_PREFIX}'))");
    vec![
        validation(
            format!("oldObject == null || ({})", is_writers("oldLabels")),
            "this claim is another cell's or another service's; leave it alone",
        ),
        validation(
            format!("object == null || ({})", is_writers("labels")),
            "label compute.datumapis.com/source-cluster must be the cell that writes: set it to <name>, and log in as user \
             fedgate-quota:<name>",
        ),
        validation(
            format!("{} && {}", is_named("object"), is_named("oldObject")),
            "metadata.name: a cell may write only claims of Instances, instance-<instance>",
        ),
    ]
}

/// The claim is of compute's quota, and has nothing that keeps it or another object from being deleted.
fn what() -> Vec<Value> {
    let is_unchanged = |field: &str| {
        format!(
            "(!has(object.metadata.{field}) || (oldObject != null && has(oldObject.metadata.{field}) && \
             object.metadata.{field} == oldObject.metadata.{field}))"
        )
    };
    vec![
        validation(
            format!("object == null || object.spec.requests.all(r, r.resourceType.startsWith('{GROUP}/'))"),
            "spec.requests: a cell may claim only types of compute.datumapis.com",
        ),
        validation(
            format!(
                "object == null || ({} && {})",
                is_unchanged("finalizers"),
                is_unchanged("ownerReferences")
            ),
            "metadata: a cell may set neither finalizers nor ownerReferences on a claim; leave them out",
        ),
    ]
}
