//! Write-backs and the copies that own them.

use super::{
    courses::SETTLED,
    end::{settled, unready},
    ops::Op::*,
    planes::NS,
    rig::{Rig, USER},
};
use crate::rig::{HUB, rest, simulate};
use fedgate_simulator::Verb;
use std::time::Duration;

/// How long no write-back may come back while the Instance lives on at the cell.
const ALONE: Duration = Duration::from_secs(100);
const ROUNDS: usize = 100;

/// Acceptance 47 of federation.md. The copy goes and Karmada, which is away, takes nothing from the cell.
#[test]
fn a_write_back_whose_copy_is_gone_is_not_made_again_while_its_instance_lives() {
    simulate(async {
        let mut rig = Rig::new(1, false);
        rig.start();
        Create("web", 1).apply(&rig);
        rest(SETTLED).await;
        for round in 0..ROUNDS {
            assert_eq!((settled(&rig), unready(&rig)), (vec![], vec![]), "{round}");
            let lives = rig.cell.get("Instance", NS, "web-0").unwrap();
            assert!(rig.hub.get("Instance", NS, "web-0").is_some(), "{round}");
            rig.script.delivers.send_replace(false);
            Delete("web").apply(&rig);
            rest(Duration::from_secs(1)).await;
            assert_eq!(rig.hub.count("Instance"), 0, "the hub collects it");
            rig.simulator.log().clear();
            rest(ALONE).await;
            assert_eq!(rig.hub.count("Instance"), 0, "{round}: it came back");
            let creations = rig.simulator.log().entries();
            let tried = |e: &&fedgate_simulator::Entry| {
                &*e.plane == HUB && &*e.user == USER && matches!(e.verb, Verb::Create | Verb::Apply)
            };
            assert_eq!(creations.iter().filter(tried).count(), 0, "{round}");
            let still = rig.cell.get("Instance", NS, "web-0").unwrap();
            assert_eq!(still["metadata"]["uid"], lives["metadata"]["uid"], "{round}");
            Create("web", 1).apply(&rig);
            rig.script.delivers.send_replace(true);
            rest(SETTLED).await;
        }
    });
}
