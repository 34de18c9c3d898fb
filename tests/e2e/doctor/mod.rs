//! 66 of operations.md: the checks of doctor broken in turn on real planes, each repaired by the step that doctor names.

mod clinic;
mod front;
mod karmada;
mod members;

use crate::support::{
    Case,
    kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, DEPLOYMENT, Kind, kind},
    lone_trials,
    plane::Plane,
    with_cleanup,
};
use clinic::Clinic;
use serde_json::{Value, json};

use karmada::karmada_and_what_surrounds_it_are_mended_by_the_step_that_doctor_names;
use members::the_way_to_members_is_mended_by_the_step_that_doctor_names;

lone_trials![
    a_check_that_is_broken_is_mended_by_the_step_that_doctor_names,
    karmada_and_what_surrounds_it_are_mended_by_the_step_that_doctor_names,
    the_way_to_members_is_mended_by_the_step_that_doctor_names,
];

const ADMISSION: &str = "admissionregistration.k8s.io";
const POLICY: Kind = kind(
    ADMISSION,
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    false,
);
const BINDING: Kind = kind(
    ADMISSION,
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    false,
);
const DEFINITION: Kind = kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    false,
);
const PATCH: &str = "patch workloaddeployments.compute.datumapis.com";
/// The gateway's role for copies and deployments.
const ROLE: &str = "fedgate-gateway-workloaddeployments.compute.datumapis.com";

async fn a_check_that_is_broken_is_mended_by_the_step_that_doctor_names(case: Case) {
    // What it may not do for a while is no fault of its own.
    case.suite.gateway.stop().await;
    let clinic = Clinic::open(&case).await;
    let run = async {
        // Another test may have applied it.
        let reviewer = "fedgate-operations-reviewer";
        case.hub.delete(&CLUSTER_ROLE_BINDING, "", reviewer).await;
        let reviews = clinic
            .finds(("hub", "rights"), "fail", "--admin-auth=hub are missing")
            .await;
        clinic.apply("hub", &reviews).await;
        clinic.is_mended(("hub", "rights")).await;
        clinic.is_well().await;
        rights(&clinic).await;
        admission(&clinic).await;
        definitions(&clinic).await;
        cell_login(&clinic).await;
        credentials(&clinic).await;
        clinic.is_well().await;
    };
    with_cleanup(run, case.suite.gateway.start()).await;
}

/// Takes the right to patch deployments from the gateway.
async fn take_patch(plane: &Plane) {
    let role = plane.get(&CLUSTER_ROLE, "", ROLE).await;
    let mut rules = role.expect("the role is there")["rules"].clone();
    let rules = rules.as_array_mut().expect("rules");
    for rule in rules.iter_mut() {
        if rule["resources"] == json!([DEPLOYMENT.plural])
            && let Some(verbs) = rule["verbs"].as_array_mut()
        {
            verbs.retain(|verb| verb != "patch");
        }
    }
    rules.retain(|rule| rule["verbs"] != json!([]));
    plane
        .merge(&CLUSTER_ROLE, "", ROLE, json!({"rules": rules}))
        .await;
}

async fn rights(clinic: &Clinic) {
    let case = &clinic.case;
    let project = format!("project {}", crate::support::suite::ALPHA_KEY);
    let dfw = &case.suite.dfw.plane;
    let bound = "fedgate-gateway";
    let copies = "create instances.compute.datumapis.com";
    for (plane, context, title) in [
        (&case.hub, "hub", "hub"),
        (&case.project, "alpha", project.as_str()),
    ] {
        take_patch(plane).await;
        let next = clinic.finds((title, "rights"), "fail", PATCH).await;
        clinic.apply(context, &next).await;
        clinic.is_mended((title, "rights")).await;
        plane.delete(&CLUSTER_ROLE_BINDING, "", bound).await;
        let next = clinic.finds((title, "rights"), "fail", "list namespaces").await;
        clinic.apply(context, &next).await;
        clinic.is_mended((title, "rights")).await;
    }
    for (plane, context, title) in [
        (&case.hub, "hub", "hub as cell dfw-1"),
        (dfw, "dfw-1", "cell dfw-1"),
    ] {
        plane.delete(&CLUSTER_ROLE_BINDING, "", "fedgate-cell").await;
        let next = clinic.finds((title, "rights"), "fail", copies).await;
        clinic.apply(context, &next).await;
        clinic.is_mended((title, "rights")).await;
    }
}

async fn admission(clinic: &Clinic) {
    let (hub, of) = (&clinic.case.hub, ("hub", "admission"));
    hub.delete(&POLICY, "", "fedgate-cell-writes").await;
    let next = clinic
        .finds(
            of,
            "fail",
            "missing: validatingadmissionpolicies fedgate-cell-writes",
        )
        .await;
    clinic.carry_out("hub", &next, "").await;
    clinic.is_mended(of).await;
    let audit = json!({"spec": {"validationActions": ["Audit"]}});
    hub.merge(&BINDING, "", "fedgate-cell-writes", audit).await;
    let next = clinic.finds(of, "fail", "other than in manifests/hub").await;
    clinic.carry_out("hub", &next, "").await;
    clinic.is_mended(of).await;
}

async fn definitions(clinic: &Clinic) {
    let suite = &clinic.case.suite;
    let name = "workloads.compute.datumapis.com";
    let (hub, of) = (&suite.hub, ("hub", "definitions"));
    let crd = hub
        .get(&DEFINITION, "", name)
        .await
        .expect("the definition is there");
    let mut versions = crd["spec"]["versions"].clone();
    versions[0]["additionalPrinterColumns"] = json!([]);
    hub.merge(&DEFINITION, "", name, json!({"spec": {"versions": versions}}))
        .await;
    let next = clinic.finds(of, "open", "columns or short names").await;
    clinic.apply("hub", &next).await;
    clinic.is_mended(of).await;

    let beta = &suite.beta;
    let (of, name) = (("project beta", "definitions"), "instances.compute.datumapis.com");
    let crd = beta
        .get(&DEFINITION, "", name)
        .await
        .expect("the definition is there");
    let mut versions = crd["spec"]["versions"].clone();
    let status = versions[0].pointer_mut("/schema/openAPIV3Schema/properties/status/properties");
    let fields = status
        .and_then(Value::as_object_mut)
        .expect("a status has fields");
    fields.remove("suspended").expect("the field is there");
    beta.merge(&DEFINITION, "", name, json!({"spec": {"versions": versions}}))
        .await;
    let next = clinic.finds(of, "open", "it has no status.suspended").await;
    clinic.apply("beta", &next).await;
    clinic.is_mended(of).await;

    beta.delete(&DEFINITION, "", "workloads.compute.datumapis.com")
        .await;
    let of = ("project beta", "kinds");
    let next = clinic
        .finds(
            of,
            "fail",
            "workloads.compute.datumapis.com/v1alpha is not served",
        )
        .await;
    clinic.apply("beta", &next).await;
    clinic.is_mended(of).await;
}

async fn cell_login(clinic: &Clinic) {
    let own = clinic.file("dfw-1-on-hub.yaml");
    let kept = clinic.file("kept.yaml");
    std::fs::rename(&own, &kept).expect("set it aside");
    let lhr = clinic
        .case
        .suite
        .with_sandbox(async |sandbox| sandbox.kubeconfig("hub", fedgate_sandbox::User::Cell("lhr-1")));
    std::fs::copy(lhr.await, &own).expect("copy a kubeconfig");
    let of = ("hub as cell dfw-1", "cell-login");
    let next = clinic.finds(of, "fail", "is of user fedgate-cell-lhr-1").await;
    // The sandbox's Clusters were made by another program, for which that command does nothing.
    assert!(
        next.contains("fedgate cells credential dfw-1 rotate --out FILE"),
        "{next}"
    );
    std::fs::rename(&kept, &own).expect("put it back");
    clinic.is_mended(of).await;
}

async fn credentials(clinic: &Clinic) {
    let suite = &clinic.case.suite;
    let of = ("hub", "credential");
    clinic.renew(3600).await;
    let next = clinic.finds(of, "fail", "ends in less than a day").await;
    assert!(next.contains("issue a new one"), "{next}");
    clinic.renew_for_long().await;
    clinic.is_mended(of).await;
    clinic.write_token("no-token-of-this-server");
    let next = clinic.finds(of, "fail", "is refused").await;
    assert!(next.contains("issue a new token"), "{next}");
    clinic.renew_for_long().await;
    clinic.is_mended(of).await;

    let of = ("project beta", "reach");
    suite.stop_plane("beta").await;
    let next = with_cleanup(
        clinic.finds(of, "fail", "cannot be reached"),
        suite.start_plane("beta"),
    )
    .await;
    assert!(next.contains("--project-kubeconfig"), "{next}");
    clinic.is_mended(of).await;
}
