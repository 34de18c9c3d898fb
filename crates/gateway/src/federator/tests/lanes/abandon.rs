//! The annotation that ends the wait for a member.

use super::*;
use fedgate_engine::plan::{Event, Plan, Prepared};

impl World {
    /// The plan of the next decision, with its memory as if every write was applied.
    fn plans(&mut self) -> Plan<Prepared> {
        let key = self.index.source_key(self.kind, &shop(), "default", NAME);
        let snapshot = observe(&self.index, &key, &shop()).unwrap();
        let decision = decision(&snapshot, &self.memory, &SETTINGS, Permit::Granted, self.now);
        self.memory = decision.memory.applied;
        match decision.action {
            Action::Apply(plan) | Action::Confirm(plan) => plan,
            other => panic!("{other:?}"),
        }
    }
}

fn said(notes: &[Event]) -> Vec<(&str, bool, &str)> {
    let all = notes.iter();
    all.map(|note| (&*note.reason, note.warning, &*note.about.name))
        .collect()
}

/// A deleted object whose copy and binding are gone, and whose annotation names this member.
fn abandoned(member: &str) -> World {
    let mut world = deleted(&json!({"metadata": {"annotations": {keys::ABANDON: member}}}));
    world.copy_lost();
    world.binding_lost();
    world.memory.is_binding_settled = true;
    world
}

#[test]
fn the_name_of_its_member_abandons_it_and_says_so() {
    let mut world = abandoned("dfw-1");
    let plan = world.plans();
    assert_eq!(
        plan.effects.iter().map(words).collect::<Vec<_>>(),
        ["abandon_member null"]
    );
    assert_eq!(said(&plan.notes), [("MemberAbandoned", true, NAME)]);
    world.record(&json!({}));
    assert_eq!(world.decides(), ["let_go"]);
}

#[test]
fn another_name_is_refused_once_and_the_member_is_asked() {
    let mut world = abandoned("dfw-2");
    let plan = world.plans();
    assert_eq!(plan.effects, []);
    assert_eq!(said(&plan.notes), [("AbandonRefused", true, NAME)]);
    assert!(
        plan.notes[0].message.contains("dfw-1"),
        "{}",
        plan.notes[0].message
    );
    assert_eq!(world.decides(), ["look at dfw-1"]);
    let named = |member: &str| json!({"metadata": {"deletionTimestamp": "2026-05-04T09:00:00Z", "annotations": {keys::ABANDON: member}}});
    world.source(&named("dfw-3"));
    assert_eq!(said(&world.plans().notes), [("AbandonRefused", true, NAME)]);
    world.source(&named("dfw-1"));
    assert_eq!(said(&world.plans().notes), [("MemberAbandoned", true, NAME)]);
}

#[test]
fn a_pin_that_goes_because_the_member_has_let_go_is_not_abandoned() {
    let mut world = deleted(&json!({}));
    world.copy_lost();
    world.binding_lost();
    world.memory.is_binding_settled = true;
    world.memory.member.probing.observation = Some(Observation::Absent);
    let plan = world.plans();
    assert_eq!(
        plan.effects.iter().map(words).collect::<Vec<_>>(),
        ["remove_pin null"]
    );
    assert_eq!(said(&plan.notes), []);
}
