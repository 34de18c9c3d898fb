//! `fedgate doctor` on a real API server, which publishes schemas and defaults policies in its own way.

use anyhow::Result;
use fedgate_engine::{
    metrics::Metrics,
    plane::kubeconfig::{Credential, Rules},
};
use fedgate_kinds::FederatedKind;
use fedgate_operator::doctor::{Check, Planes, Role, Verdict, examine};
use fedgate_sandbox::{Sandbox, User};

/// Of what manifests/ has applied nothing is missing or differs.
pub(crate) async fn definitions_and_policies_are_found_as_they_were_applied(sandbox: &Sandbox) -> Result<()> {
    let metrics = Metrics::new()?;
    let clients = fedgate::config::clients(&metrics);
    let mut planes = Planes::default();
    for (role, name, plane, user) in [
        (Role::Admin, "", "hub", User::Admin),
        (Role::Project, "alpha", "alpha", User::Gateway),
    ] {
        let file = sandbox.kubeconfig(plane, user);
        if file.exists() {
            planes.add(
                role,
                name,
                Credential::from_file(&file, Rules::default()),
                &clients,
            );
        }
    }
    let report = examine(
        planes,
        &FederatedKind::builtin()?.into(),
        std::future::ready(false),
    )
    .await?;
    for (plane, check) in [
        ("hub", Check::Reach),
        ("hub", Check::Clock),
        ("hub", Check::Definitions),
        ("hub", Check::Admission),
        ("project alpha", Check::Credential),
        ("project alpha", Check::Kinds),
        ("project alpha", Check::Definitions),
        ("project alpha", Check::Permissions),
    ] {
        let mut findings = report.findings.iter();
        let found = findings.find(|finding| finding.plane == plane && finding.check == check);
        assert!(
            found.is_some_and(|finding| finding.verdict == Verdict::Ok),
            "{plane} {}: {report}",
            check.as_str()
        );
    }
    Ok(())
}
