//! Checks of what kinds need whose objects live at one member: the way to each member, the user who takes it, and the Works.

use super::clinic::Clinic;
use crate::support::{
    Case,
    kinds::{CLUSTER, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, WORK},
    suite::is_real,
    with_cleanup,
};
use serde_json::{Value, json};

/// Kinds whose deletion asks a member.
const ASKING: [&str; 3] = [
    "vaults.example.fedgate.dev",
    "clusters.azimuth.stackhpc.com",
    "clusters.postgresql.cnpg.io",
];
const MEMBER: &str = "dfw-1";
/// 40 days, in seconds.
const LONG: i64 = 40 * 24 * 3600;

/// The user, the right on the hub, the right at a member, the hub's credential there, and a Work: each is broken on the suite's
/// planes, found, and well again after its next step.
pub(super) async fn the_way_to_members_is_mended_by_the_step_that_doctor_names(case: Case) {
    case.suite.gateway.stop().await;
    let clinic = Clinic::of_members(&case).await;
    let run = Box::pin(async {
        clinic.is_well_with_reviews().await;
        works(&clinic).await;
        if is_real() {
            identity(&clinic).await;
            // What the proxy answers for a member is in the hub's log, too.
            case.suite.without_rights("hub", rights(&clinic)).await;
            impersonator(&clinic).await;
        } else {
            eprintln!(
                "NOT RUN: the stand-in's proxy is not in the log of its hub, and needs no impersonator"
            );
        }
        clinic.is_well().await;
    });
    with_cleanup(run, case.suite.gateway.start()).await;
}

/// A Work that never ends: it preserves an object that its member does not have.
async fn works(clinic: &Clinic) {
    let (hub, of) = (&clinic.case.hub, ("hub", "works"));
    let (within, name) = (&format!("karmada-es-{MEMBER}"), clinic.case.ns.as_str());
    clinic.is_mended(of).await;
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    let work = json!({"metadata": {"name": name, "finalizers": ["example.fedgate.dev/held"]},
        "spec": {"suspendDispatching": true, "preserveResourcesOnDeletion": true, "workload": {"manifests": [object]}}});
    hub.create(&WORK, within, work).await;
    clinic.is_mended(of).await;
    hub.delete(&WORK, within, name).await;
    let next = clinic.finds(of, "fail", &format!("{within}/{name}")).await;
    clinic.carry_out("hub", &next, "").await;
    clinic.is_mended(of).await;
    assert!(hub.get(&WORK, within, name).await.is_none());
}

async fn identity(clinic: &Clinic) {
    clinic.renew(LONG).await;
    // Nobody may act in the name of a ServiceAccount's groups.
    let words = "may not act in the name of this user or its groups: dfw-1, lhr-1";
    let next = clinic.finds(("hub", "members"), "fail", words).await;
    assert!(next.contains("without organization"), "{next}");
    clinic.use_certificate();
    clinic.is_mended(("hub", "members")).await;
}

async fn rights(clinic: &Clinic) {
    let (case, of) = (&clinic.case, ("hub", "members"));
    for kind in ASKING {
        let role = format!("fedgate-gateway-{kind}");
        let live = case.hub.get(&CLUSTER_ROLE, "", &role).await;
        let mut rules = live.expect("the role is there")["rules"].clone();
        let rules_of = rules.as_array_mut().expect("rules");
        rules_of.retain(|rule| rule["resources"] != json!(["clusters/proxy"]));
        case.hub
            .merge(&CLUSTER_ROLE, "", &role, json!({"rules": rules}))
            .await;
    }
    let words = "the hub does not let this user get clusters/proxy: dfw-1, lhr-1";
    let next = clinic.finds(of, "fail", words).await;
    clinic.apply("hub", &next).await;
    clinic.is_mended(of).await;

    let bound = format!("fedgate-gateway-{}", ASKING[0]);
    let member = &case.suite.dfw.plane;
    member.delete(&CLUSTER_ROLE_BINDING, "", &bound).await;
    let words = format!("members do not let this user get {}: {MEMBER} (", ASKING[0]);
    let next = clinic.finds(of, "fail", &words).await;
    clinic.apply(MEMBER, &next).await;
    clinic.is_mended(of).await;
}

async fn impersonator(clinic: &Clinic) {
    let (hub, of) = (&clinic.case.hub, ("hub", "members"));
    let cluster = hub.get(&CLUSTER, "", MEMBER).await.expect("the Cluster is there");
    let reference = &cluster["spec"]["impersonatorSecretRef"];
    assert!(reference.is_object(), "{cluster}");
    let set = async |reference: &Value| {
        let spec = json!({"spec": {"impersonatorSecretRef": reference}});
        hub.merge(&CLUSTER, "", MEMBER, spec).await;
    };
    set(&Value::Null).await;
    let words = format!("(spec.impersonatorSecretRef): {MEMBER}");
    let next = with_cleanup(clinic.finds(of, "fail", &words), set(reference)).await;
    assert!(next.contains("karmadactl join"), "{next}");
    clinic.is_mended(of).await;
}
