//! The `NetworkPolicy` of an Instance: admits only the ingress that its template allows (contract: cell.md §9).

use super::pod::{ProvidedInstance, UnsupportedSpec, protocol};
use fedgate_api::keys;
use fedgate_engine::object::entries;
use serde_json::{Value, json};

/// Renders the policy. The Pod has one address for all interfaces, so the policy admits the union of their rules.
///
/// # Errors
///
/// A rule that a `NetworkPolicy` cannot express: leaving it out would admit too much or too little.
pub fn render(instance: &ProvidedInstance<'_>) -> Result<Value, UnsupportedSpec> {
    let ingress = rules(instance).map(|(at, written)| rule(&at, written));
    let ingress = ingress.collect::<Result<Vec<Value>, UnsupportedSpec>>()?;
    Ok(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": instance.metadata(),
        "spec": {
            "podSelector": {"matchLabels": {keys::INSTANCE_UID: instance.uid}},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }))
}

/// True if the template limits ingress. A template without rules does not, nor does a rule without ports and peers.
pub fn limits(instance: &ProvidedInstance<'_>) -> bool {
    let all = |rule: &Value| entries(&rule["ports"]).is_empty() && entries(&rule["from"]).is_empty();
    let mut rules = rules(instance).map(|(_, rule)| rule).peekable();
    rules.peek().is_some() && !rules.any(all)
}

/// The rules of all interfaces, each with its field path.
fn rules<'a>(instance: &ProvidedInstance<'a>) -> impl Iterator<Item = (String, &'a Value)> {
    let interfaces = entries(&instance.spec["networkInterfaces"]).iter().enumerate();
    interfaces.flat_map(|(i, interface)| {
        let rules = entries(&interface["networkPolicy"]["ingress"]).iter().enumerate();
        rules.map(move |(j, rule)| (format!("networkInterfaces[{i}].networkPolicy.ingress[{j}]"), rule))
    })
}

fn rule(at: &str, written: &Value) -> Result<Value, UnsupportedSpec> {
    let mut rule = json!({});
    let (ports, from) = (entries(&written["ports"]), entries(&written["from"]));
    if !ports.is_empty() {
        rule["ports"] = ports.iter().map(port).collect();
    }
    if !from.is_empty() {
        let peers = from.iter().enumerate().map(|(i, peer)| {
            block(&peer["ipBlock"])
                .ok_or_else(|| UnsupportedSpec::PeerWithoutBlock(format!("{at}.from[{i}]")))
        });
        rule["from"] = peers.collect::<Result<Value, UnsupportedSpec>>()?;
    }
    Ok(rule)
}

/// A peer in the form that the API server stores.
fn block(written: &Value) -> Option<Value> {
    let mut block = json!({"cidr": written["cidr"].as_str()?});
    if !entries(&written["except"]).is_empty() {
        block["except"] = written["except"].clone();
    }
    Some(json!({"ipBlock": block}))
}

/// A port in the form that the API server stores.
fn port(written: &Value) -> Value {
    let mut port = json!({"protocol": protocol(written)});
    for field in ["port", "endPort"] {
        if !written[field].is_null() {
            port[field] = written[field].clone();
        }
    }
    port
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{index::digest::network_policy_spec as compared, rollout::labels::Labels};

    fn with<T>(rules: &[Value], look: impl FnOnce(&ProvidedInstance<'_>) -> T) -> T {
        let interfaces: Value = rules
            .iter()
            .map(|ingress| json!({"networkPolicy": {"ingress": ingress}}))
            .collect();
        look(&ProvidedInstance {
            namespace: "ns-1",
            name: "web-0",
            uid: "uid-0",
            labels: &Labels::default(),
            spec: &json!({"networkInterfaces": interfaces}),
        })
    }

    fn ingress_of(rules: &[Value]) -> Value {
        let policy = with(rules, render).unwrap();
        let spec = &policy["spec"];
        assert_eq!(
            spec["podSelector"],
            json!({"matchLabels": {"fedgate.dev/instance-uid": "uid-0"}})
        );
        assert_eq!(spec["policyTypes"], json!(["Ingress"]));
        assert_eq!(compared(spec), *spec, "as a server keeps it");
        spec["ingress"].clone()
    }

    #[test]
    fn nothing_comes_in_that_no_rule_lets_in() {
        assert_eq!(ingress_of(&[]), json!([]));
        assert_eq!(ingress_of(&[Value::Null]), json!([]));
        let block = json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.9.0.0/16"]}});
        let written = [
            json!([{"ports": [{"port": 8080}, {"protocol": "UDP", "port": 1, "endPort": 9}], "from": [block]}]),
            json!([{}]),
            json!([{"ports": [{"port": "http"}], "from": [{"ipBlock": {"cidr": "::/0", "except": []}}]}]),
        ];
        assert_eq!(
            ingress_of(&written),
            json!([
                {"ports": [{"protocol": "TCP", "port": 8080}, {"protocol": "UDP", "port": 1, "endPort": 9}], "from": [block]},
                {},
                {"ports": [{"protocol": "TCP", "port": "http"}], "from": [{"ipBlock": {"cidr": "::/0"}}]},
            ])
        );
    }

    #[test]
    fn a_peer_without_a_range_is_refused_and_lets_nobody_in() {
        let block = json!({"ipBlock": {"cidr": "10.0.0.0/8"}});
        let refused = with(&[json!([{}]), json!([{"from": [block, {}]}])], render).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "spec.networkInterfaces[1].networkPolicy.ingress[0].from[1] has no ipBlock, and no policy can say whom it means"
        );
    }

    #[test]
    fn what_is_for_all_limits_nothing() {
        assert!(!with(&[], limits));
        assert!(!with(&[Value::Null, json!([])], limits));
        assert!(
            !with(&[json!([{"ports": [{"port": 80}]}, {}])], limits),
            "rules are OR-ed"
        );
        assert!(with(&[json!([{"ports": [{"port": 80}]}])], limits));
        assert!(with(
            &[json!([{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}])],
            limits
        ));
    }

    /// The API server leaves out empty lists; any other difference is a manual edit.
    #[test]
    fn all_that_a_hand_adds_differs() {
        let spec = with(&[], render).unwrap()["spec"].clone();
        let mut kept = spec.clone();
        kept.as_object_mut().unwrap().remove("ingress");
        assert_eq!(compared(&kept), spec);
        for (field, value) in [
            ("egress", json!([{}])),
            ("ingress", json!([{"from": [{"podSelector": {}}]}])),
            (
                "podSelector",
                json!({"matchLabels": {"fedgate.dev/instance-uid": "uid-0"}, "matchExpressions": []}),
            ),
        ] {
            let mut edited = spec.clone();
            edited[field] = value;
            assert_ne!(compared(&edited), spec, "{field}");
        }
    }
}
