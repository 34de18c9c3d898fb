//! A restart whose longer lists hang: specs are carried, and nothing else is written.

use crate::{
    end::wrong,
    invariants::Watchman,
    ops::Op::*,
    rig::{GATEWAY, HUB, Rig, rest, simulate},
    scenarios::{SETTLED, STEP},
};
use fedgate_api::keys;
use fedgate_simulator::{Fault, Rule, Verb, When, karmada::Cluster};
use std::time::Duration;

/// What the gateway has written since the log was cleared.
fn written(rig: &Rig) -> Vec<String> {
    let entries = rig.simulator.log().entries();
    let writes = entries.iter().filter(|e| &*e.user == GATEWAY && e.verb.writes());
    writes
        .map(|e| format!("{:?} {} {} {}", e.verb, e.plane, e.resource, e.name))
        .collect()
}

/// One list hangs after a restart. Meanwhile there is much to do: edits before and after the start, a deployment that
/// leaves, a report, a projection that is missing, a policy that nobody needs.
async fn hangs(plane: &str, resource: &str) {
    let mut rig = Rig::new(1, &["p"]);
    rig.karmada.join(&Cluster::new("syd-1", keys::CITY_CODE, "SYD"));
    rig.start();
    for (name, city) in [("web", "DFW"), ("api", "LHR"), ("old", "FRA")] {
        Create("p", "default", name, city, 1).apply(&mut rig);
    }
    rest(STEP).await;
    rig.kill().await;
    Scale("p", "default", "web", 2).apply(&mut rig);
    Delete("p", "default", "old").apply(&mut rig);
    Report("api-0", false).apply(&mut rig);
    DropProjection("p", "default", "web-0").apply(&mut rig);
    Create("p", "default", "far", "SYD", 1).apply(&mut rig);
    let hangs = Rule::new(When::Always, Fault::Hang).plane(plane).user(GATEWAY);
    rig.simulator.faults().add(hangs.verb(Verb::List).kind(resource));
    rig.simulator.log().clear();
    rig.start();
    rest(Duration::from_secs(1)).await;
    let announced = "Patch p workloaddeployments far";
    let carried = "Patch hub workloaddeployments";
    let mut found = written(&rig);
    found.sort();
    assert_eq!(found, [format!("{carried} web"), announced.to_owned()]);
    rig.simulator.log().clear();
    Image("p", "default", "api", "shop/web:2").apply(&mut rig);
    rest(Duration::from_millis(500)).await;
    assert_eq!(written(&rig), [format!("{carried} api")]);
    rest(Duration::from_secs(1)).await;
    assert_eq!(written(&rig).len(), 1, "nothing else: {:?}", written(&rig));
    assert!(rig.gateway().ready().is_err());

    rig.simulator.faults().clear();
    rest(SETTLED).await;
    let violated = Watchman::default().violations(&rig.simulator.take_changes());
    assert_eq!(violated, Vec::<String>::new());
    assert_eq!(wrong(&rig), Vec::<String>::new());
    assert!(rig.gateway().ready().is_ok());
}

#[test]
fn an_edit_is_carried_while_a_list_hangs_that_it_does_not_need() {
    for (plane, resource) in [
        (HUB, "instances"),
        (HUB, "resourcebindings"),
        ("p", "instances"),
        ("p", "workloads"),
    ] {
        println!("{plane} {resource}");
        simulate(hangs(plane, resource));
    }
}
