//! Decides which policy claims a template.

use crate::{
    Object, names,
    select::{Match, selectors, selectors_match},
};
use serde_json::{Value, json};
use std::{cmp::Reverse, sync::Arc};

/// The next step for a template's claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing: no policy matches, or its policy does not match.
    Nothing,
    /// Its policy is being deleted: the claim is removed, then another policy may claim the template.
    PolicyTerminating(Arc<Value>),
    /// Its policy was deleted without removing its claim.
    Release(Claim),
    /// The template belongs to this policy.
    Apply(Arc<Value>),
}

/// The kind of policy that holds a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The claim of a `PropagationPolicy`.
    Policy,
    /// The claim of a `ClusterPropagationPolicy`.
    ClusterPolicy,
}

/// Annotation with the namespace of the claiming `PropagationPolicy`.
const NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";

impl Claim {
    /// The kind of claim that a policy makes.
    pub fn of(policy: &Value) -> Self {
        if policy.namespace().is_empty() {
            Self::ClusterPolicy
        } else {
            Self::Policy
        }
    }

    /// The kind of claim that policies with this plural make.
    pub fn of_plural(plural: &str) -> Option<Self> {
        match plural {
            "propagationpolicies" => Some(Self::Policy),
            "clusterpropagationpolicies" => Some(Self::ClusterPolicy),
            _ => None,
        }
    }

    /// The plural of the policies.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Policy => "propagationpolicies",
            Self::ClusterPolicy => "clusterpropagationpolicies",
        }
    }

    /// The finalizer of the policies.
    pub fn finalizer(self) -> &'static str {
        match self {
            Self::Policy => "karmada.io/propagation-policy-controller",
            Self::ClusterPolicy => "karmada.io/cluster-propagation-policy-controller",
        }
    }

    /// The label with the policy's permanent ID, on the policy, its templates and their bindings.
    pub fn label(self) -> &'static str {
        match self {
            Self::Policy => "propagationpolicy.karmada.io/permanent-id",
            Self::ClusterPolicy => "clusterpropagationpolicy.karmada.io/permanent-id",
        }
    }

    /// The annotation with the policy's name.
    fn name(self) -> &'static str {
        match self {
            Self::Policy => "propagationpolicy.karmada.io/name",
            Self::ClusterPolicy => "clusterpropagationpolicy.karmada.io/name",
        }
    }

    /// The policy's permanent ID on an object; empty if it has none.
    pub fn id(self, object: &Value) -> &str {
        object.label(self.label()).unwrap_or_default()
    }

    /// True if an object has the claim of this policy, and no other.
    pub fn is_held(self, object: &Value, policy: &Value) -> bool {
        let alone = self == Self::ClusterPolicy || Self::ClusterPolicy.id(object).is_empty();
        alone && self.id(object) == self.id(policy)
    }

    /// The merge patch that removes this claim from an object.
    pub fn strip(self) -> Value {
        let mut patch =
            json!({"metadata": {"labels": {self.label(): null}, "annotations": {self.name(): null}}});
        if self == Self::Policy {
            patch["metadata"]["annotations"][NAMESPACE] = Value::Null;
        }
        patch
    }

    /// The merge patch that adds the claim of `policy` to an object; the claim of a `PropagationPolicy` replaces that of a
    /// `ClusterPropagationPolicy`.
    pub fn put(self, policy: &Value) -> Value {
        let mut patch = match self {
            Self::Policy => Self::ClusterPolicy.strip(),
            Self::ClusterPolicy => json!({}),
        };
        patch["metadata"]["labels"][self.label()] = json!(self.id(policy));
        patch["metadata"]["annotations"][self.name()] = json!(policy.name());
        if self == Self::Policy {
            patch["metadata"]["annotations"][NAMESPACE] = json!(policy.namespace());
        }
        patch
    }
}

/// Completes a policy that is written, as Karmada's webhook does: permanent ID, finalizer, and a namespaced policy's own
/// namespace in its selectors.
pub fn complete(policy: &mut Value, new_id: impl FnOnce() -> String) {
    let claim = Claim::of(policy);
    if claim.id(policy).is_empty() {
        policy["metadata"]["labels"][claim.label()] = json!(new_id());
    }
    if !policy.finalizers().iter().any(|have| have == claim.finalizer()) {
        let finalizers = policy.finalizers().iter().cloned();
        policy["metadata"]["finalizers"] = finalizers.chain([json!(claim.finalizer())]).collect();
    }
    if claim == Claim::Policy {
        let namespace = policy.namespace().to_owned();
        let selectors = policy["spec"]["resourceSelectors"].as_array_mut();
        for selector in selectors.into_iter().flatten() {
            if selector["namespace"].as_str().unwrap_or_default().is_empty() {
                selector["namespace"] = json!(namespace);
            }
        }
    }
}

/// The policy that an object names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyName<'a> {
    /// Its kind.
    pub claim: Claim,
    /// Its namespace; empty for a `ClusterPropagationPolicy`.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// The policy that claims an object; `None` unless the label and all annotations of the claim exist.
pub fn claimed(object: &Value) -> Option<PolicyName<'_>> {
    let annotation = |key| object.annotation(key).filter(|text| !text.is_empty());
    let named = |claim: Claim| {
        let name = annotation(claim.name()).filter(|_| !claim.id(object).is_empty())?;
        let namespace = match claim {
            Claim::Policy => annotation(NAMESPACE)?,
            Claim::ClusterPolicy => "",
        };
        Some(PolicyName {
            claim,
            namespace,
            name,
        })
    };
    named(Claim::Policy).or_else(|| named(Claim::ClusterPolicy))
}

/// Decides which policy claims a template. `find` looks a policy up; `candidates` returns the policies of the
/// template's namespace or the cluster policies.
pub fn decide(
    object: &Value,
    find: impl Fn(PolicyName<'_>) -> Option<Arc<Value>>,
    candidates: impl Fn(Claim) -> Vec<Arc<Value>>,
) -> Decision {
    if object.label(names::CLAIMED_BY).is_some_and(|by| !by.is_empty()) {
        return Decision::Nothing;
    }
    if let Some(claimed) = claimed(object) {
        return match find(claimed) {
            None => Decision::Release(claimed.claim),
            Some(policy) if policy.is_deleting() => Decision::PolicyTerminating(policy),
            Some(policy) if selectors_match(selectors(&policy), object).is_some() => Decision::Apply(policy),
            Some(_) => Decision::Nothing,
        };
    }
    let claims: &[Claim] = match object.namespace() {
        "" => &[Claim::ClusterPolicy],
        _ => &[Claim::Policy, Claim::ClusterPolicy],
    };
    claims
        .iter()
        .find_map(|claim| best(object, *claim, candidates(*claim)))
        .map_or(Decision::Nothing, Decision::Apply)
}

/// The matching policy of the highest priority; among equals the more specific selector wins, then the first name.
fn best(object: &Value, claim: Claim, candidates: Vec<Arc<Value>>) -> Option<Arc<Value>> {
    let rank = |policy: &Value| -> Option<(i64, Match)> {
        let usable = !policy.is_deleting() && !claim.id(policy).is_empty();
        let close = usable
            .then(|| selectors_match(selectors(policy), object))
            .flatten()?;
        Some((policy["spec"]["priority"].as_i64().unwrap_or(0), close))
    };
    candidates
        .into_iter()
        .filter_map(|policy| Some((rank(&policy)?, policy)))
        .max_by_key(|(rank, policy)| (*rank, Reverse(policy.name().to_owned())))
        .map(|(_, policy)| policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge;

    fn policy(name: &str, city: &str) -> Arc<Value> {
        let labels = json!({(Claim::Policy.label()): format!("id-{name}")});
        Arc::new(json!({
            "metadata": {"name": name, "namespace": "n", "labels": labels},
            "spec": {"resourceSelectors": [
                {"apiVersion": "v1", "kind": "Thing", "labelSelector": {"matchLabels": {"city": city}}}
            ]}
        }))
    }

    fn thing(city: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Thing",
            "metadata": {"name": "t", "namespace": "n", "labels": {"city": city}}})
    }

    fn run(object: &Value, policies: &[Arc<Value>]) -> Decision {
        decide(
            object,
            |wanted| policies.iter().find(|p| p.name() == wanted.name).cloned(),
            |scope| {
                if scope == Claim::Policy {
                    policies.to_vec()
                } else {
                    Vec::new()
                }
            },
        )
    }

    #[test]
    fn an_unclaimed_template_is_taken_by_a_matching_policy() {
        let (dfw, lhr) = (policy("city-dfw", "DFW"), policy("city-lhr", "LHR"));
        assert_eq!(
            run(&thing("LHR"), &[dfw.clone(), lhr.clone()]),
            Decision::Apply(lhr)
        );
        assert_eq!(run(&thing("AMS"), &[dfw]), Decision::Nothing);
    }

    #[test]
    fn a_claimed_template_stays_with_a_policy_that_no_longer_matches() {
        let (dfw, lhr) = (policy("city-dfw", "DFW"), policy("city-lhr", "LHR"));
        let mut moved = thing("LHR");
        merge(&mut moved, &Claim::Policy.put(&dfw));
        assert_eq!(run(&moved, &[dfw.clone(), lhr.clone()]), Decision::Nothing);
        moved["metadata"]["labels"][Claim::Policy.label()] = Value::Null;
        assert_eq!(run(&moved, &[dfw, lhr.clone()]), Decision::Apply(lhr));
    }

    #[test]
    fn the_claim_of_a_policy_that_ends_is_waited_for_or_released() {
        let dfw = policy("city-dfw", "DFW");
        let mut claimed = thing("DFW");
        merge(&mut claimed, &Claim::Policy.put(&dfw));
        assert_eq!(
            run(&claimed, std::slice::from_ref(&dfw)),
            Decision::Apply(dfw.clone())
        );
        assert_eq!(run(&claimed, &[]), Decision::Release(Claim::Policy));
        let mut ending = (*dfw).clone();
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(matches!(
            run(&claimed, &[Arc::new(ending)]),
            Decision::PolicyTerminating(_)
        ));
        merge(&mut claimed, &Claim::Policy.strip());
        assert_eq!(claimed["metadata"]["labels"], thing("DFW")["metadata"]["labels"]);
    }

    #[test]
    fn a_policy_without_identity_claims_nothing() {
        let mut bare = (*policy("city-dfw", "DFW")).clone();
        bare["metadata"]["labels"] = Value::Null;
        assert_eq!(run(&thing("DFW"), &[Arc::new(bare)]), Decision::Nothing);
    }

    #[test]
    fn priority_goes_before_the_name() {
        let (a, b) = (policy("a", "DFW"), policy("b", "DFW"));
        let mut high = (*policy("z", "DFW")).clone();
        high["spec"]["priority"] = json!(1);
        let high = Arc::new(high);
        assert_eq!(
            run(&thing("DFW"), &[b.clone(), a.clone()]),
            Decision::Apply(a.clone())
        );
        assert_eq!(run(&thing("DFW"), &[b, a, high.clone()]), Decision::Apply(high));
    }

    #[test]
    fn a_new_policy_gets_identity_finalizer_and_namespace_once() {
        let mut policy = json!({
            "metadata": {"name": "city-dfw", "namespace": "n", "finalizers": ["f"]},
            "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Thing"}]}
        });
        complete(&mut policy, || "id".to_owned());
        assert_eq!(policy["spec"]["resourceSelectors"][0]["namespace"], "n");
        assert_eq!(
            policy["metadata"]["finalizers"],
            json!(["f", Claim::Policy.finalizer()])
        );
        let completed = policy.clone();
        complete(&mut policy, || "other".to_owned());
        assert_eq!(policy, completed);
        assert_eq!(Claim::Policy.id(&policy), "id");
    }

    #[test]
    fn a_cluster_policy_keeps_its_selectors() {
        let mut policy = json!({
            "metadata": {"name": "cities-dfw"},
            "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace"}]}
        });
        let spec = policy["spec"].clone();
        complete(&mut policy, || "id".to_owned());
        assert_eq!(policy["spec"], spec);
        assert_eq!(
            policy["metadata"]["finalizers"],
            json!([Claim::ClusterPolicy.finalizer()])
        );
    }
}
