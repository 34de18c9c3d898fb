//! Decides which policy claims a template.

use crate::{
    Object, names,
    select::{Match, selectors, selectors_match},
};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// The next step for a template's claim; `P` is a policy.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision<P> {
    /// Nothing: no policy matches, or its policy does not match any more.
    Nothing,
    /// Its policy is being deleted: the claim is removed, then another policy may claim the template.
    PolicyTerminating(P),
    /// Its policy was deleted without removing its claim.
    Release(Claim),
    /// The template belongs to this policy.
    Apply(P),
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
    pub fn of(policy: &impl Object) -> Self {
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
    pub fn id(self, object: &impl Object) -> &str {
        object.label(self.label()).unwrap_or_default()
    }

    /// True if an object has the claim of this policy, and no other.
    pub fn is_held(self, object: &impl Object, policy: &impl Object) -> bool {
        let alone = self == Self::ClusterPolicy || Self::ClusterPolicy.id(object).is_empty();
        alone && self.id(object) == self.id(policy)
    }

    /// Removes this claim from an object.
    pub fn strip(self) -> Vec<Edit> {
        let mut edits = vec![
            Edit::label(self.label(), None),
            Edit::annotation(self.name(), None),
        ];
        if self == Self::Policy {
            edits.push(Edit::annotation(NAMESPACE, None));
        }
        edits
    }

    /// Adds the claim of `policy` to an object; the claim of a `PropagationPolicy` replaces that of a
    /// `ClusterPropagationPolicy`.
    pub fn put(self, policy: &impl Object) -> Vec<Edit> {
        let mut edits = vec![
            Edit::label(self.label(), Some(self.id(policy))),
            Edit::annotation(self.name(), Some(policy.name())),
        ];
        if self == Self::Policy {
            edits.push(Edit::annotation(NAMESPACE, Some(policy.namespace())));
            edits.extend(Self::ClusterPolicy.strip());
        }
        edits
    }
}

/// A change of one label or annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    map: &'static str,
    key: &'static str,
    /// `None` removes it.
    value: Option<String>,
}

impl Edit {
    fn label(key: &'static str, value: Option<&str>) -> Self {
        let value = value.map(str::to_owned);
        Self {
            map: "labels",
            key,
            value,
        }
    }

    fn annotation(key: &'static str, value: Option<&str>) -> Self {
        let value = value.map(str::to_owned);
        Self {
            map: "annotations",
            key,
            value,
        }
    }

    /// The changes as a JSON merge patch.
    pub fn patch(edits: &[Self]) -> Value {
        let mut patch = json!({"metadata": {}});
        for Self { map, key, value } in edits {
            patch["metadata"][map][key] = json!(value);
        }
        patch
    }

    /// The keys of a map of the metadata that the changes remove.
    pub(crate) fn removed<'a>(edits: &'a [Self], map: &str) -> Vec<&'a str> {
        let gone = edits
            .iter()
            .filter(|edit| edit.map == map && edit.value.is_none());
        gone.map(|edit| edit.key).collect()
    }

    /// Makes the changes in an object.
    #[cfg(any(test, feature = "kube"))]
    pub fn apply(edits: &[Self], object: &mut kube::core::DynamicObject) {
        for Self { map, key, value } in edits {
            let map = match *map {
                "labels" => &mut object.metadata.labels,
                _ => &mut object.metadata.annotations,
            };
            match (value, map) {
                (Some(value), map) => drop(
                    map.get_or_insert_default()
                        .insert((*key).to_owned(), value.clone()),
                ),
                (None, Some(map)) => drop(map.remove(*key)),
                (None, None) => {}
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
pub fn claimed(object: &impl Object) -> Option<PolicyName<'_>> {
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
pub fn decide<P: Object>(
    object: &impl Object,
    find: impl Fn(PolicyName<'_>) -> Option<P>,
    candidates: impl Fn(Claim) -> Vec<P>,
) -> Decision<P> {
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
fn best<P: Object>(object: &impl Object, claim: Claim, candidates: Vec<P>) -> Option<P> {
    let rank = |policy: &P| -> Option<(i64, Match)> {
        let usable = !policy.is_deleting() && !claim.id(policy).is_empty();
        let close = usable
            .then(|| selectors_match(selectors(policy), object))
            .flatten()?;
        Some((policy.field("spec")["priority"].as_i64().unwrap_or(0), close))
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
    use kube::core::DynamicObject;
    use serde_json::{from_value, json};
    use std::sync::Arc;

    fn policy(name: &str, city: &str) -> Arc<DynamicObject> {
        let labels = json!({(Claim::Policy.label()): format!("id-{name}")});
        Arc::new(
            from_value(json!({
                "metadata": {"name": name, "namespace": "n", "labels": labels},
                "spec": {"resourceSelectors": [
                    {"apiVersion": "v1", "kind": "Thing", "labelSelector": {"matchLabels": {"city": city}}}
                ]}
            }))
            .unwrap(),
        )
    }

    fn thing(city: &str) -> DynamicObject {
        from_value(json!({"apiVersion": "v1", "kind": "Thing",
            "metadata": {"name": "t", "namespace": "n", "labels": {"city": city}}}))
        .unwrap()
    }

    fn run(object: &DynamicObject, policies: &[Arc<DynamicObject>]) -> Decision<Arc<DynamicObject>> {
        decide(
            object,
            |wanted| {
                policies
                    .iter()
                    .find(|p| p.metadata.name.as_deref() == Some(wanted.name))
                    .cloned()
            },
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
        Edit::apply(&Claim::Policy.put(&dfw), &mut moved);
        assert_eq!(run(&moved, &[dfw.clone(), lhr.clone()]), Decision::Nothing);
        moved
            .metadata
            .labels
            .as_mut()
            .unwrap()
            .remove(Claim::Policy.label());
        assert_eq!(run(&moved, &[dfw, lhr.clone()]), Decision::Apply(lhr));
    }

    #[test]
    fn the_claim_of_a_policy_that_ends_is_waited_for_or_released() {
        let dfw = policy("city-dfw", "DFW");
        let mut claimed = thing("DFW");
        Edit::apply(&Claim::Policy.put(&dfw), &mut claimed);
        assert_eq!(
            run(&claimed, std::slice::from_ref(&dfw)),
            Decision::Apply(dfw.clone())
        );
        assert_eq!(run(&claimed, &[]), Decision::Release(Claim::Policy));
        let mut ending = (*dfw).clone();
        ending.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(matches!(
            run(&claimed, &[Arc::new(ending)]),
            Decision::PolicyTerminating(_)
        ));
        Edit::apply(&Claim::Policy.strip(), &mut claimed);
        assert_eq!(claimed.metadata.labels, thing("DFW").metadata.labels);
    }

    #[test]
    fn a_policy_without_identity_claims_nothing() {
        let mut bare = (*policy("city-dfw", "DFW")).clone();
        bare.metadata.labels = None;
        assert_eq!(run(&thing("DFW"), &[Arc::new(bare)]), Decision::Nothing);
    }

    #[test]
    fn priority_goes_before_the_name() {
        let (a, b) = (policy("a", "DFW"), policy("b", "DFW"));
        let mut high = (*policy("z", "DFW")).clone();
        high.data["spec"]["priority"] = json!(1);
        let high = Arc::new(high);
        assert_eq!(
            run(&thing("DFW"), &[b.clone(), a.clone()]),
            Decision::Apply(a.clone())
        );
        assert_eq!(run(&thing("DFW"), &[b, a, high.clone()]), Decision::Apply(high));
    }
}
