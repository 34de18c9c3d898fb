//! Admission policies of a plane, for tests of what holds without them, and of what a member refuses.

use super::{
    Case,
    kinds::{ADMISSION_BINDING, ADMISSION_POLICY, Kind},
    plane::{Plane, seconds, wait_for},
    trials::with_cleanup,
};
use serde_json::{Value, json};

/// Awaits `body` while a policy of a plane has no binding; the binding returns whatever becomes of it.
pub(crate) async fn without_policy<T>(plane: &Plane, policy: &str, body: impl Future<Output = T>) -> T {
    let binding = plane.get(&ADMISSION_BINDING, "", policy).await;
    let spec: Value = binding.expect("the policy is installed")["spec"].take();
    plane.delete(&ADMISSION_BINDING, "", policy).await;
    let again = json!({"metadata": {"name": policy}, "spec": spec});
    with_cleanup(body, async {
        plane.create(&ADMISSION_BINDING, "", again).await;
    })
    .await
}

/// What a member refuses in a test's namespace.
pub(crate) struct Refusal<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) operations: &'a [&'a str],
    /// What it admits, in CEL.
    pub(crate) admits: &'a str,
    /// What it says to the rest.
    pub(crate) words: &'a str,
    /// An object that it does not let in.
    pub(crate) probe: Value,
}

/// A member, DFW's, that refuses something in a test's namespace, which it has already.
pub(crate) struct Closed<'a> {
    plane: &'a Plane,
    policy: String,
    words: String,
}

impl<'a> Closed<'a> {
    /// Waits until the member refuses it.
    pub(crate) async fn close(case: &'a Case, refusal: Refusal<'_>) -> Self {
        let Refusal { kind, words, .. } = refusal;
        let policy = format!("no-{}-{}", kind.plural, case.hub_ns);
        let plane = &case.dfw.plane;
        let resource = kind.resource();
        let rule = json!({"apiGroups": [resource.group], "apiVersions": [resource.version],
            "operations": refusal.operations, "resources": [kind.plural]});
        let spec = json!({"matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": refusal.admits, "message": words}]});
        let object = json!({"metadata": {"name": policy}, "spec": spec});
        plane.create(&ADMISSION_POLICY, "", object).await;
        let of = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": case.hub_ns}}});
        let spec = json!({"policyName": policy, "validationActions": ["Deny"], "matchResources": of});
        let object = json!({"metadata": {"name": policy}, "spec": spec});
        plane.create(&ADMISSION_BINDING, "", object).await;
        wait_for("the member refuses it", seconds(60), || async {
            let admitted = plane.would_create(kind, &case.hub_ns, refusal.probe.clone());
            (!admitted.await).then_some(())
        })
        .await;
        let words =
            format!("ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {words}");
        Self { plane, policy, words }
    }

    /// What the member's API server says when it refuses.
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    /// Lets the member admit everything again.
    pub(crate) async fn open(&self) {
        self.plane.delete(&ADMISSION_BINDING, "", &self.policy).await;
        self.plane.delete(&ADMISSION_POLICY, "", &self.policy).await;
    }
}
