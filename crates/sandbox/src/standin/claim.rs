//! Decides which policy claims a template.

use super::{
    refs::NamespacedName,
    select::{Match, selectors_match},
    wire::{self, annotation, label},
};
use kube::api::DynamicObject;
use serde_json::Value;
use std::{cmp::Reverse, sync::Arc};

/// The next step for a template's claim.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    /// Nothing: no policy matches, or its policy does not match any more.
    Nothing,
    /// Its policy is being deleted: the claim is removed, then another policy may claim the template.
    PolicyTerminating(NamespacedName),
    /// Its policy was deleted without removing its claim.
    Release(Claim),
    /// The template belongs to this policy.
    Apply(Arc<DynamicObject>),
}

/// The kind of policy that holds a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// The claim of a `PropagationPolicy`.
    Policy,
    /// The claim of a `ClusterPropagationPolicy`.
    ClusterPolicy,
}

impl Claim {
    /// The kind of claim that a policy makes.
    pub(super) fn of(policy: &NamespacedName) -> Self {
        if policy.namespace.is_empty() {
            Self::ClusterPolicy
        } else {
            Self::Policy
        }
    }

    /// The label with the policy's permanent ID, on the policy, its templates and their bindings.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Policy => wire::CLAIM_ID,
            Self::ClusterPolicy => wire::CLUSTER_CLAIM_ID,
        }
    }

    /// Removes this claim.
    pub(super) fn strip(self, object: &mut DynamicObject) {
        let annotations: &[&str] = match self {
            Self::Policy => &[wire::CLAIM_NAME, wire::CLAIM_NAMESPACE],
            Self::ClusterPolicy => &[wire::CLUSTER_CLAIM_NAME],
        };
        if let Some(labels) = &mut object.metadata.labels {
            labels.remove(self.label());
        }
        if let Some(map) = &mut object.metadata.annotations {
            map.retain(|key, _| !annotations.contains(&key.as_str()));
        }
    }

    /// Adds the claim of `policy`; the claim of a `PropagationPolicy` replaces that of a `ClusterPropagationPolicy`.
    pub(super) fn put(self, object: &mut DynamicObject, policy: &DynamicObject) {
        let id = label(policy, self.label()).to_owned();
        let name = policy.metadata.name.clone().unwrap_or_default();
        if self == Self::Policy {
            Self::ClusterPolicy.strip(object);
        }
        object
            .metadata
            .labels
            .get_or_insert_default()
            .insert(self.label().to_owned(), id);
        let annotations = object.metadata.annotations.get_or_insert_default();
        match self {
            Self::Policy => {
                let namespace = policy.metadata.namespace.clone().unwrap_or_default();
                annotations.insert(wire::CLAIM_NAMESPACE.to_owned(), namespace);
                annotations.insert(wire::CLAIM_NAME.to_owned(), name);
            }
            Self::ClusterPolicy => {
                annotations.insert(wire::CLUSTER_CLAIM_NAME.to_owned(), name);
            }
        }
    }
}

/// The selectors of a policy.
pub(super) fn selectors(policy: &DynamicObject) -> &[Value] {
    policy.data["spec"]["resourceSelectors"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The policy that claims an object; `None` unless the label and all annotations of the claim exist.
pub(super) fn claimed(object: &DynamicObject) -> Option<NamespacedName> {
    let filled = |parts: &[&str]| parts.iter().all(|part| !part.is_empty());
    let (namespace, name) = (
        annotation(object, wire::CLAIM_NAMESPACE),
        annotation(object, wire::CLAIM_NAME),
    );
    if filled(&[namespace, name, label(object, wire::CLAIM_ID)]) {
        return Some(NamespacedName {
            namespace: namespace.into(),
            name: name.into(),
        });
    }
    let name = annotation(object, wire::CLUSTER_CLAIM_NAME);
    filled(&[name, label(object, wire::CLUSTER_CLAIM_ID)]).then(|| NamespacedName {
        namespace: "".into(),
        name: name.into(),
    })
}

/// Decides which policy claims a template. `find` looks a policy up; `candidates` returns the policies of the
/// template's namespace or the cluster policies.
pub(super) fn decide(
    object: &DynamicObject,
    find: impl Fn(&NamespacedName) -> Option<Arc<DynamicObject>>,
    candidates: impl Fn(Claim) -> Vec<Arc<DynamicObject>>,
) -> Decision {
    if !label(object, wire::CLAIMED_BY).is_empty() {
        return Decision::Nothing;
    }
    if let Some(claimed) = claimed(object) {
        return match find(&claimed) {
            None => Decision::Release(Claim::of(&claimed)),
            Some(policy) if policy.metadata.deletion_timestamp.is_some() => {
                Decision::PolicyTerminating(claimed)
            }
            Some(policy) if selectors_match(selectors(&policy), object).is_some() => Decision::Apply(policy),
            Some(_) => Decision::Nothing,
        };
    }
    let scopes: &[Claim] = match object.metadata.namespace {
        Some(_) => &[Claim::Policy, Claim::ClusterPolicy],
        None => &[Claim::ClusterPolicy],
    };
    scopes
        .iter()
        .find_map(|scope| best(object, *scope, candidates(*scope)))
        .map_or(Decision::Nothing, Decision::Apply)
}

/// The matching policy of the highest priority; among equals the more specific selector wins, then the first name.
fn best(
    object: &DynamicObject,
    scope: Claim,
    candidates: Vec<Arc<DynamicObject>>,
) -> Option<Arc<DynamicObject>> {
    let rank = |policy: &DynamicObject| -> Option<(i64, Match)> {
        let usable = policy.metadata.deletion_timestamp.is_none() && !label(policy, scope.label()).is_empty();
        let close = usable
            .then(|| selectors_match(selectors(policy), object))
            .flatten()?;
        Some((policy.data["spec"]["priority"].as_i64().unwrap_or(0), close))
    };
    candidates
        .into_iter()
        .filter_map(|policy| Some((rank(&policy)?, policy)))
        .max_by_key(|(rank, policy)| (*rank, Reverse(policy.metadata.name.clone())))
        .map(|(_, policy)| policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn policy(name: &str, city: &str) -> Arc<DynamicObject> {
        let labels = json!({wire::CLAIM_ID: format!("id-{name}")});
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

    fn run(object: &DynamicObject, policies: &[Arc<DynamicObject>]) -> Decision {
        decide(
            object,
            |wanted| {
                policies
                    .iter()
                    .find(|p| p.metadata.name.as_deref() == Some(&*wanted.name))
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
        Claim::Policy.put(&mut moved, &dfw);
        assert_eq!(run(&moved, &[dfw.clone(), lhr.clone()]), Decision::Nothing);
        moved.metadata.labels.as_mut().unwrap().remove(wire::CLAIM_ID);
        assert_eq!(run(&moved, &[dfw, lhr.clone()]), Decision::Apply(lhr));
    }

    #[test]
    fn the_claim_of_a_policy_that_ends_is_waited_for_or_released() {
        let dfw = policy("city-dfw", "DFW");
        let mut claimed = thing("DFW");
        Claim::Policy.put(&mut claimed, &dfw);
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
        Claim::Policy.strip(&mut claimed);
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
