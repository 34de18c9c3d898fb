//! The meaning of a file that leaves things out.

use super::{
    load,
    refusals::{ALL, ONE, referring},
};
use crate::{Cardinality, ConditionsIn, FinishedWhen, Required, ReturnName, Suspension};

#[test]
fn defaults_depend_on_the_cardinality() {
    let reference = "{kind: Secret, path: $.spec.s}";
    for (base, one) in [(ALL, false), (ONE, true)] {
        let mut text = referring(base, reference);
        if one {
            text.push_str("returns:\n- {kind: Secret, path: $.status.s, allow: ['*-app']}\n");
        }
        let kind = load(&text, &[]).unwrap().remove(1);
        let place = &kind.placement;
        assert_eq!((place.immutable, place.require_member_api), (one, one));
        assert_eq!(place.cardinality == Cardinality::ExactlyOne, one);
        assert_eq!(kind.suspension == Suspension::Dispatch, one);
        let secret = &kind.companions.as_ref().unwrap().references[0];
        assert_eq!((secret.before_applied, secret.adopted), (one, false));
        assert_eq!(
            (secret.required, secret.max_bytes),
            (Required::IfNamed, 256 * 1024)
        );
        assert_eq!(
            (&secret.name_field, secret.line),
            (&None, if one { 9 } else { 8 })
        );
        let own = ["Federated", "Scheduled", "Applied", "StatusCurrent"];
        assert_eq!(kind.status.own_conditions, own);
        assert_eq!(
            (kind.status.max_bytes, kind.returns.len()),
            (64 * 1024, usize::from(one))
        );
        for found in &kind.returns {
            assert_eq!(found.max_bytes, 64 * 1024);
            assert!(matches!(&found.name, ReturnName::Path(path) if path.text() == "$.status.s"));
        }
        assert!(kind.carried_annotations.is_empty() && kind.status.counters.is_empty());
        assert_eq!(kind.deletion.finished_when, FinishedWhen::Released);
    }
}

#[test]
fn what_a_file_says_wins_over_the_defaults() {
    let text = format!(
        "{ONE}  requireMemberAPI: false\nsuspension: dispatch\nstatus: {{maxBytes: 524288, conditionsIn: annotation, \
         ownConditions: [Federated]}}\ncompanions:\n  references:\n  - {{kind: Secret, path: $.spec.s, required: always, \
         before: none, maxBytes: 1024}}\n"
    );
    let kind = load(&text, &[]).unwrap().remove(1);
    assert!(kind.placement.immutable && !kind.placement.require_member_api);
    assert_eq!(kind.suspension, Suspension::Dispatch);
    let status = &kind.status;
    assert_eq!(
        (status.max_bytes, status.conditions_in),
        (512 * 1024, ConditionsIn::Annotation)
    );
    assert_eq!(status.own_conditions, ["Federated"]);
    let secret = &kind.companions.as_ref().unwrap().references[0];
    assert_eq!(
        (secret.required, secret.before_applied, secret.max_bytes),
        (Required::Always, false, 1024)
    );
    let beside = referring(
        ALL,
        "{kind: Secret, path: $.spec.s, nameField: name, required: unlessOptional}",
    );
    let kind = load(&beside, &[]).unwrap().remove(1);
    let secret = &kind.companions.as_ref().unwrap().references[0];
    assert_eq!(secret.required, Required::UnlessOptional);
    assert_eq!(
        (
            secret.resource.api_version.as_str(),
            secret.resource.plural.as_str()
        ),
        ("v1", "secrets")
    );
    let all = format!(
        "{ALL}  immutable: true\n  requireMemberAPI: true\nsuspension: annotation\nreturns: []\n\
         deletion: {{guards: [{{path: $.spec.a, equals: 1, message: m}}]}}\n"
    );
    let kind = load(&all, &[]).unwrap().remove(1);
    assert!(kind.placement.immutable && kind.placement.require_member_api);
    assert_eq!(
        (kind.suspension, kind.deletion.guards.len()),
        (Suspension::Annotation, 1)
    );
}
