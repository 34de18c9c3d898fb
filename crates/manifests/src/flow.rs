//! Flow control for the gateway's user on the API server of a platform, which serves every project at one address: the lists
//! of a start wait in queues of their own there, and hold up no tenant.

use super::{GATEWAY, Manifest, NAMESPACE};
use serde_json::json;

/// The file; it is applied only where projects are those of a platform, so that no plane gets it otherwise.
pub(super) fn files() -> Vec<Manifest> {
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": GATEWAY},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 20,
            "lendablePercent": 90,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 16, "handSize": 4, "queueLengthLimit": 100}},
        }},
    });
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": GATEWAY},
        "spec": {
            "priorityLevelConfiguration": {"name": GATEWAY},
            // Before those of the server itself for all users and ServiceAccounts.
            "matchingPrecedence": 800,
            "distinguisherMethod": {"type": "ByNamespace"},
            "rules": [{
                "subjects": [
                    {"kind": "User", "user": {"name": GATEWAY}},
                    {"kind": "ServiceAccount", "serviceAccount": {"name": GATEWAY, "namespace": NAMESPACE}},
                ],
                "resourceRules": [{
                    "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"],
                    "namespaces": ["*"], "clusterScope": true,
                }],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        },
    });
    vec![Manifest {
        path: "project/flow-control/gateway.yaml".to_owned(),
        planes: &[],
        objects: vec![level, schema],
    }]
}
