//! Tests of checks of the hub, each broken in turn by an answer.

use super::fake::{Fake, items, karmada, of, run, run_for, schemas};
use crate::doctor::{Check, Role, Verdict};
use serde_json::{Value, json};

/// A check that an answer breaks.
struct Broken {
    /// Path of the request, and status and body of its answer.
    answer: (&'static str, u16, Value),
    check: Check,
    verdict: Verdict,
    /// Parts of the line: of the finding and of the next step.
    line: [&'static str; 2],
}

impl Broken {
    const fn open(answer: (&'static str, u16, Value), check: Check, line: [&'static str; 2]) -> Self {
        let verdict = Verdict::Open;
        Self {
            answer,
            check,
            verdict,
            line,
        }
    }

    const fn fail(answer: (&'static str, u16, Value), check: Check, line: [&'static str; 2]) -> Self {
        let verdict = Verdict::Fail;
        Self {
            answer,
            check,
            verdict,
            line,
        }
    }

    /// Runs it on the hub, as the gateway and as an administrator.
    async fn run(self) {
        let (path, code, answer) = self.answer;
        let broken = Fake::default().with(path, code, answer);
        let report = run([broken.subject(Role::Hub, ""), broken.subject(Role::Admin, "")]).await;
        let found = of(&report, self.check);
        let named = |(verdict, line): &(Verdict, String)| {
            *verdict == self.verdict && self.line.iter().all(|part| line.contains(part))
        };
        assert!(found.iter().any(named), "{}: {found:#?}", self.check.as_str());
        let of_hub = |(_, line): &(Verdict, String)| line[5..].starts_with("hub ");
        assert!(found.iter().all(of_hub), "{found:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_cannot_be_used_is_told_by_its_first_answer() {
    let version = |text: &str| ("/version", 200, json!({"gitVersion": text}));
    let work = "/apis/work.karmada.io/v1alpha2";
    let hooked = "POST /apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies";
    let kind = "resourcebindings.work.karmada.io/v1alpha2 is not served";
    for broken in [
        Broken::fail(
            ("/version", 401, json!("Unauthorized")),
            Check::Credential,
            ["refused (Unauthorized)", "--hub-kubeconfig"],
        ),
        Broken::fail(version("v1.29.1"), Check::Version, ["v1.29.1", "upgrade"]),
        Broken::open(version("v1.36.1"), Check::Clock, ["no Date", "by hand"]),
        Broken::fail((work, 404, json!("no")), Check::Kinds, [kind, "--hub-kubeconfig"]),
        // The hub has a policy with its id from the time when the webhook acted.
        Broken::fail(
            (hooked, 500, json!("failed calling webhook")),
            Check::Webhook,
            ["karmada-webhook does not answer", "start it"],
        ),
        // The answer of Karmada's validating webhook while the one that gives ids is away.
        Broken::fail(
            (
                hooked,
                403,
                json!(
                    "admission webhook denied the request: label clusterpropagationpolicy.karmada.io/permanent-id is required"
                ),
            ),
            Check::Webhook,
            ["mutating-config does not act", "install karmada-webhook"],
        ),
        Broken::fail(
            (hooked, 200, json!({"metadata": {"name": "x"}})),
            Check::Webhook,
            ["mutating-config does not act", "install karmada-webhook"],
        ),
    ] {
        broken.run().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_with_other_objects_than_those_of_the_manifests_is_told() {
    let policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/fedgate-cell-writes";
    let bound = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/fedgate-cell-writes";
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.compute.datumapis.com";
    let ours = "/openapi/v3/apis/compute.datumapis.com/v1alpha";
    let mut older = schemas();
    let at = "/components/schemas/com.datumapis.compute.v1alpha.Instance/properties/status/properties";
    let fields = older.pointer_mut(at).unwrap().as_object_mut().unwrap();
    fields.remove("suspended");
    let audits = json!({"spec": {"policyName": "fedgate-cell-writes", "validationActions": ["Audit"]}});
    let lacks = "Instance is older than this executable: it has no status.suspended";
    let other = "columns or short names";
    let missing = "missing: validatingadmissionpolicies fedgate-cell-writes";
    let applied = [
        "other than in manifests/hub",
        "kubectl replace -f manifests/hub/cell-writes.yaml",
    ];
    for broken in [
        Broken::open(
            (ours, 200, older),
            Check::Definitions,
            [lacks, "apply manifests/crds"],
        ),
        Broken::open(
            (crd, 200, json!({"spec": {}})),
            Check::Definitions,
            [other, "manifests/crds"],
        ),
        Broken::fail(
            (policy, 404, json!("not found")),
            Check::Admission,
            [missing, "manifests/hub"],
        ),
        Broken::fail((bound, 200, audits), Check::Admission, applied),
        Broken::open(
            (policy, 403, json!("forbidden")),
            Check::Admission,
            ["may not get", "--admin-kubeconfig"],
        ),
    ] {
        broken.run().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_karmada_that_delivers_nothing_is_told() {
    let bindings = "/apis/work.karmada.io/v1alpha2/resourcebindings";
    let fields = "/openapi/v3/apis/policy.karmada.io/v1alpha1";
    let none = || items(&json!([]));
    let instance = items(&json!([{"metadata": {"name": "b"}, "spec": {"resource": {
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance"}}}]));
    let mut lacking = karmada(["PropagationPolicy", "ClusterPropagationPolicy"]);
    lacking["components"]["schemas"]["io.karmada.PropagationPolicy"]["properties"]["spec"] =
        json!({"properties": {"resourceSelectors": {}, "placement": {}}});
    let field = "PropagationPolicy has no spec.propagateDeps";
    let skip = "--skipped-propagating-apis=compute.datumapis.com/v1alpha/Instance";
    for broken in [
        Broken::fail(
            (fields, 200, lacking),
            Check::Karmada,
            [field, "install a version"],
        ),
        Broken::open(
            (bindings, 200, none()),
            Check::PropagateDeps,
            ["cannot be seen", "PropagateDeps=false"],
        ),
        Broken::open(
            (bindings, 200, none()),
            Check::SkippedPropagatingApis,
            ["from here", skip],
        ),
        Broken::fail(
            (bindings, 200, instance),
            Check::SkippedPropagatingApis,
            ["propagates Instances", skip],
        ),
    ] {
        broken.run().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_rights_of_reviews_are_asked_for_where_the_hub_is_to_review_tokens() {
    for (resource, right) in [
        ("tokenreviews", "create tokenreviews.authentication.k8s.io"),
        (
            "subjectaccessreviews",
            "create subjectaccessreviews.authorization.k8s.io",
        ),
    ] {
        let hub = Fake::denying(resource);
        let without = run([hub.subject(Role::Hub, "")]).await;
        let lines = of(&without, Check::Permissions);
        assert!(
            lines.iter().all(|(_, line)| !line.contains("reviews")),
            "{lines:?}"
        );
        assert_eq!(without.exit_code(false), 0, "{without}");
        let report = run_for(true, [hub.subject(Role::Hub, "")]).await;
        let lines = of(&report, Check::Permissions);
        let (verdict, line) = lines.last().unwrap();
        assert_eq!(*verdict, Verdict::Fail, "{lines:?}");
        assert!(
            line.contains(&format!("--admin-auth=hub are missing: {right}; ")),
            "{line}"
        );
        assert!(
            line.contains("; apply manifests/hub/admin-auth and bind its role"),
            "{line}"
        );
        assert_eq!(report.exit_code(false), 1);
    }
    let report = run_for(true, [Fake::default().subject(Role::Hub, "")]).await;
    let lines = of(&report, Check::Permissions);
    let (verdict, line) = lines.last().unwrap();
    assert_eq!(*verdict, Verdict::Ok);
    assert!(
        line.ends_with("this user has all 2 rights of --admin-auth=hub"),
        "{line}"
    );
}
