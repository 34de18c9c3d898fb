//! Which policy a template belongs to.

use crate::{meta, state::State};
use serde_json::{Value, json};
use std::{cmp::Reverse, sync::Arc};

/// Whose claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// A `PropagationPolicy`'s.
    Namespace,
    /// A `ClusterPropagationPolicy`'s.
    Cluster,
}

impl Scope {
    pub(super) const BOTH: [Self; 2] = [Self::Namespace, Self::Cluster];

    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Namespace => "propagationpolicies",
            Self::Cluster => "clusterpropagationpolicies",
        }
    }

    /// The label with the policy's identity, on the policy, its templates and their bindings.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Namespace => "propagationpolicy.karmada.io/permanent-id",
            Self::Cluster => "clusterpropagationpolicy.karmada.io/permanent-id",
        }
    }

    pub(super) fn finalizer(self) -> &'static str {
        match self {
            Self::Namespace => "karmada.io/propagation-policy-controller",
            Self::Cluster => "karmada.io/cluster-propagation-policy-controller",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Namespace => "propagationpolicy.karmada.io/name",
            Self::Cluster => "clusterpropagationpolicy.karmada.io/name",
        }
    }

    /// The scope of a policy of this kind.
    pub(super) fn of_plural(plural: &str) -> Option<Self> {
        Self::BOTH.into_iter().find(|scope| scope.plural() == plural)
    }

    /// The patch that claims an object for a policy. A cluster policy's claim gives way to a policy's.
    pub(super) fn claim(self, policy: &Value) -> Value {
        let mut patch = match self {
            Self::Namespace => Self::Cluster.release(),
            Self::Cluster => json!({}),
        };
        patch["metadata"]["labels"][self.id()] = json!(label(policy, self.id()));
        patch["metadata"]["annotations"][self.name()] = json!(meta::name(policy));
        if self == Self::Namespace {
            patch["metadata"]["annotations"][NAMESPACE] = json!(meta::namespace(policy));
        }
        patch
    }

    /// The patch that takes a claim off.
    pub(super) fn release(self) -> Value {
        let mut annotations = json!({self.name(): null});
        if self == Self::Namespace {
            annotations[NAMESPACE] = Value::Null;
        }
        json!({"metadata": {"labels": {self.id(): null}, "annotations": annotations}})
    }
}

const NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";

/// A label of an object; empty if it has none.
pub(super) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"][key]
        .as_str()
        .unwrap_or_default()
}

/// What is to be done about a template's claim.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    Nothing,
    /// Its policy is gone without having let it go.
    Release(Scope),
    Belongs(Scope, Arc<Value>),
}

/// The policy that an object says it belongs to; honoured only while all marks of the claim are there.
fn claimed(object: &Value) -> Option<(Scope, String)> {
    let whole = |scope: Scope| {
        let full = !label(object, scope.id()).is_empty() && !annotation(object, scope.name()).is_empty();
        full && (scope == Scope::Cluster || !annotation(object, NAMESPACE).is_empty())
    };
    let scope = Scope::BOTH.into_iter().find(|scope| whole(*scope))?;
    let name = annotation(object, scope.name());
    let key = match scope {
        Scope::Namespace => meta::key(annotation(object, NAMESPACE), name),
        Scope::Cluster => name.to_owned(),
    };
    Some((scope, key))
}

/// Decides whose a template is.
pub(super) fn decide(state: &State, object: &Value) -> Verdict {
    if let Some((scope, key)) = claimed(object) {
        let policy = table(state, scope)
            .and_then(|table| state.get(table, &key))
            .cloned();
        return match policy {
            None => Verdict::Release(scope),
            Some(policy) if !meta::is_ending(&policy) && closeness(&policy, object).is_some() => {
                Verdict::Belongs(scope, policy)
            }
            Some(_) => Verdict::Nothing,
        };
    }
    let scopes = if meta::namespace(object).is_empty() {
        &Scope::BOTH[1..]
    } else {
        &Scope::BOTH[..]
    };
    let found = scopes
        .iter()
        .find_map(|scope| Some((*scope, best(state, *scope, object)?)));
    found.map_or(Verdict::Nothing, |(scope, policy)| {
        Verdict::Belongs(scope, policy)
    })
}

pub(super) fn table(state: &State, scope: Scope) -> Option<usize> {
    state.table("policy.karmada.io", scope.plural())
}

/// The matching policy of the highest priority; then the one with the closer selector, then that of the first name.
fn best(state: &State, scope: Scope, object: &Value) -> Option<Arc<Value>> {
    let namespace = if scope == Scope::Namespace {
        meta::namespace(object)
    } else {
        ""
    };
    let policies = state.in_namespace(table(state, scope)?, namespace);
    let usable =
        policies.filter(|(_, policy)| !meta::is_ending(policy) && !label(policy, scope.id()).is_empty());
    let ranked = usable.filter_map(|(_, policy)| {
        let priority = policy["spec"]["priority"].as_i64().unwrap_or(0);
        Some(((priority, closeness(policy, object)?), policy))
    });
    ranked
        .max_by_key(|(rank, policy)| (*rank, Reverse(meta::name(policy).to_owned())))
        .map(|(_, policy)| policy.clone())
}

/// How closely a policy selects an object, if it does: by kind, by labels, by name.
pub(super) fn closeness(policy: &Value, object: &Value) -> Option<u8> {
    let selectors = policy["spec"]["resourceSelectors"].as_array();
    selectors
        .into_iter()
        .flatten()
        .filter_map(|selector| selects(selector, object))
        .max()
}

fn selects(selector: &Value, object: &Value) -> Option<u8> {
    let text = |key: &str| selector[key].as_str().unwrap_or_default();
    let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    let kind = selector["apiVersion"] == object["apiVersion"] && selector["kind"] == object["kind"];
    if !kind || !is(text("namespace"), meta::namespace(object)) {
        return None;
    }
    if !text("name").is_empty() {
        return (text("name") == meta::name(object)).then_some(2);
    }
    match &selector["labelSelector"] {
        Value::Null => Some(0),
        labels => labels_match(labels, object).then_some(1),
    }
}

/// Whether an object's labels fit a `LabelSelector`.
pub(super) fn labels_match(selector: &Value, object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    let equal = selector["matchLabels"]
        .as_object()
        .is_none_or(|wanted| wanted.iter().all(|(key, value)| labels[key] == *value));
    let expressions = selector["matchExpressions"].as_array();
    equal
        && expressions.into_iter().flatten().all(|expression| {
            let found = &labels[expression["key"].as_str().unwrap_or_default()];
            let among = expression["values"]
                .as_array()
                .is_some_and(|values| values.contains(found));
            match expression["operator"].as_str() {
                Some("In") => among,
                Some("NotIn") => !among,
                Some("Exists") => !found.is_null(),
                Some("DoesNotExist") => found.is_null(),
                _ => false,
            }
        })
}
