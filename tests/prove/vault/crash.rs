//! A crash at every request of a vault's life, also with Karmada's choice changed while the gateway is dead.

use super::{
    end::wrong,
    invariants::Guard,
    ops::Act::{self, *},
    rig::{EXPIRED, MEMBERS, Scene, upper},
};
use crate::{
    crash::{Crash, Mortal, at_requests, until_or_crash},
    invariants::{Watchman, restless},
    rig::{GATEWAY, rest, simulate},
    scenarios::{SETTLED, STEP},
    state::{State, differences, of},
};
use fedgate_kinds::ByMember;
use fedgate_simulator::{Faults, Verb};

/// The gateway dies at every so manieth request, unless the environment says otherwise.
const STRIDE: u64 = 4;

/// The kinds that are compared.
const KINDS: [&str; 9] = [
    "Cluster.cluster.karmada.io",
    "Namespace",
    "ConfigMap",
    "Secret",
    "Vault",
    "Seal",
    "PropagationPolicy",
    "ClusterPropagationPolicy",
    "ResourceBinding",
];

/// A vault is made, changed, held back, and released again.
const KEPT: &[&[Act]] = &[
    &[
        Secret("p", "default", "b25l"),
        Create("p", "default", "gold", "DFW"),
    ],
    &[Edit("p", "default", "gold", 2)],
    &[Suspend("p", "default", "gold", true)],
    &[Edit("p", "default", "gold", 3)],
    &[Suspend("p", "default", "gold", false)],
];
/// At last it is deleted.
const DELETED: &[Act] = &[Delete("p", "default", "gold")];

/// A vault that is guarded when it is deleted, and then no longer.
const UNGUARDED: &[&[Act]] = &[
    &[
        Secret("p", "default", "b25l"),
        Create("p", "default", "gold", "DFW"),
    ],
    &[Lock("p", "default", "gold", true)],
    DELETED,
    &[Lock("p", "default", "gold", false)],
];
/// The same of one that is suspended meanwhile, and goes without being resumed.
const UNGUARDED_AND_HELD: &[&[Act]] = &[
    &[
        Secret("p", "default", "b25l"),
        Create("p", "default", "gold", "DFW"),
        Lock("p", "default", "gold", true),
    ],
    &[Suspend("p", "default", "gold", true)],
    &[
        Lock("p", "default", "gold", false),
        Delete("p", "default", "gold"),
    ],
];

/// A vault that its member deletes, of a kind with `byMember: ends`.
const ENDED: &[&[Act]] = &[
    &[
        Secret("p", "default", "b25l"),
        Create("p", "default", "gold", "DFW"),
    ],
    &[Edit("p", "default", "gold", EXPIRED)],
    DELETED,
];

/// A change of Karmada's choice while the gateway is dead, which ends a step later.
type Choice = Option<(Act, Act)>;

const UNLABELLED: Choice = Some((City("dfw-1", None), City("dfw-1", Some("DFW"))));
const TAINTED: Choice = Some((Taint("dfw-1", true), Taint("dfw-1", false)));

struct Subject {
    scene: Scene,
    choice: Choice,
}

impl Mortal for Subject {
    fn faults(&self) -> Faults {
        self.scene.rig.simulator.faults()
    }

    async fn kill(&mut self) {
        self.scene.rig.kill().await;
        if let Some((change, _)) = self.choice {
            change.apply(&self.scene.rig);
        }
    }

    fn start(&mut self) {
        self.scene.rig.start();
    }
}

/// What a run ends in.
struct End {
    state: State,
    requests: u64,
    crashes: u64,
    deliveries: usize,
    wrong: Vec<String>,
}

async fn run(steps: &[&[Act]], choice: Choice, crash: Option<Crash>) -> End {
    let by_member = if steps == ENDED {
        ByMember::Ends
    } else {
        ByMember::Restored
    };
    let scene = Scene::with(1, &["p"], by_member);
    let mut subject = Subject { scene, choice };
    if let Some(Crash { at, after }) = crash {
        subject.faults().stop_at(GATEWAY, at, after);
    }
    subject.start();
    let mut crashes = 0;
    for step in steps {
        for act in *step {
            act.apply(&subject.scene.rig);
        }
        let died = until_or_crash(&mut subject, STEP).await;
        if let Some((_, back)) = choice.filter(|_| died > 0) {
            back.apply(&subject.scene.rig);
        }
        crashes += died;
    }
    let died = until_or_crash(&mut subject, SETTLED).await;
    if let Some((_, back)) = choice.filter(|_| died > 0) {
        back.apply(&subject.scene.rig);
        rest(SETTLED).await;
    }
    crashes += died;
    let rig = &mut subject.scene.rig;
    let entries = rig.simulator.log().entries();
    let asked = entries
        .iter()
        .filter(|e| &*e.user == GATEWAY && e.verb != Verb::Watch);
    let requests = asked.count() as u64;
    rig.simulator.log().clear();
    rig.kill().await;
    rig.start();
    rest(SETTLED).await;
    let changes = rig.simulator.take_changes();
    let mut lines = restless(&rig.simulator.log().entries());
    let mut guard = Guard::default();
    lines.extend(guard.violations(&changes));
    lines.extend(Watchman::default().violations(&changes));
    lines.extend(wrong(rig));
    let mut planes = upper(rig);
    let members = MEMBERS.iter().filter_map(|(name, _)| rig.simulator.plane(name));
    planes.extend(members.map(|plane| (plane.name().to_owned(), plane)));
    End {
        state: of(&planes, &KINDS),
        requests,
        crashes,
        deliveries: guard.deliveries,
        wrong: lines,
    }
}

/// Another choice may lead to another member: then the end need not be the same, but nothing may be violated.
fn every_request(name: &str, steps: &[&[Act]], choice: Choice, stride: u64, is_same: bool) {
    let calm = simulate(run(steps, None, None));
    assert_eq!(calm.wrong, Vec::<String>::new(), "{name}, undisturbed");
    assert!(calm.deliveries > 0, "{name}: nothing was delivered");
    let stride = crate::rig::stride("FEDGATE_PROVE_STRIDE", stride);
    at_requests(name, calm.requests, stride, |crash| {
        let end = simulate(run(steps, choice, Some(crash)));
        let mut lines = end.wrong;
        if is_same {
            let differs = differences(&calm.state, &end.state);
            // Works and the binding of a Namespace have random identities of their own.
            lines.extend(
                differs
                    .into_iter()
                    .filter(|line| !line.contains("karmada.io/permanent-id:")),
            );
        }
        if end.crashes != 1 {
            lines.push(format!("the gateway died {} times", end.crashes));
        }
        lines
    });
}

fn whole() -> Vec<&'static [Act]> {
    KEPT.iter().copied().chain([DELETED]).collect()
}

#[test]
fn a_vault() {
    every_request("vault", &whole(), None, STRIDE, true);
}

#[test]
fn a_vault_that_was_guarded() {
    every_request("guarded vault", UNGUARDED, None, STRIDE, true);
}

#[test]
fn a_vault_that_was_guarded_and_is_held() {
    every_request("guarded vault, held", UNGUARDED_AND_HELD, None, STRIDE, true);
}

#[test]
fn a_vault_that_its_member_ends() {
    every_request("ended vault", ENDED, None, STRIDE, true);
}

#[test]
fn a_vault_that_stays() {
    every_request("vault that stays", KEPT, None, STRIDE, true);
}

#[test]
fn a_vault_that_stays_while_its_city_changes() {
    every_request("vault that stays, no label", KEPT, UNLABELLED, STRIDE, false);
}

#[test]
fn a_vault_whose_city_changes() {
    every_request("vault, no label", &whole(), UNLABELLED, STRIDE, false);
}

#[test]
fn a_vault_whose_member_is_tainted() {
    every_request("vault, tainted", &whole(), TAINTED, STRIDE, false);
}
