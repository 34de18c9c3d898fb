//! What Karmada's webhook puts into policies.

use crate::{definition::Definition, meta, random::Random};
use fedgate_karmada::claim::{self, Claim};
use serde_json::{Value, json};

/// Completes a policy that is written; it keeps the identity that it has.
pub(crate) fn complete(
    definition: &Definition,
    old: Option<&Value>,
    policy: &mut Value,
    random: &mut Random,
) {
    let kind = Claim::of_plural(&definition.plural).filter(|_| &*definition.group == "policy.karmada.io");
    let Some(kind) = kind.filter(|_| !meta::is_ending(policy)) else {
        return;
    };
    if let Some(kept) = old.map(|old| kind.id(old)).filter(|id| !id.is_empty()) {
        policy["metadata"]["labels"][kind.label()] = json!(kept);
    }
    claim::complete(policy, || random.uuid());
}
