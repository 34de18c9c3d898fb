//! Which policy a template belongs to.

use crate::{meta, state::State};
use fedgate_karmada::claim::{self, Claim, Decision};
use serde_json::Value;

/// Decides whose a template is.
pub(super) fn decide(state: &State, template: &Value) -> Decision {
    let policies = |claim: Claim| state.table("policy.karmada.io", claim.plural());
    claim::decide(
        template,
        |policy| {
            state
                .get(policies(policy.claim)?, &meta::key(policy.namespace, policy.name))
                .cloned()
        },
        |claim| {
            let namespace = match claim {
                Claim::Policy => meta::namespace(template),
                Claim::ClusterPolicy => "",
            };
            let table = policies(claim).into_iter();
            let all = table.flat_map(|table| state.in_namespace(table, namespace));
            all.map(|(_, policy)| policy.clone()).collect()
        },
    )
}
