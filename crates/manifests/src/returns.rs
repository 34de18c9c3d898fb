//! Rights and limits of returns (contract: clusters.md §7, §9): of members on the hub, of the gateway in projects, and of the
//! program `fedgate returns` at its member. Without a kind that has returns there are none.

use super::{
    CELL_ACCOUNTS_GROUP, CELL_RETURNS, CELLS, KindManifests, Manifest, NAMESPACE, Plane, RETURNS,
    ReturnedSecrets,
    admission::{
        annotations_of, by_a_cell,
        gateway::{by_the_gateway, labelled},
        labels_of, names, on, policy, strange, validation, writer,
    },
    rbac::{binding, bound, cluster_role, role_binding, rule},
};
use fedgate_api::keys;
use serde_json::{Value, json};

/// The only labels that a returned Secret may have on the hub.
const LABELS: [&str; 5] = [
    keys::UPSTREAM_CLUSTER,
    keys::UPSTREAM_NAMESPACE,
    keys::CELL,
    keys::RETURNED,
    keys::RETURNED_FOR,
];

/// A kind with returns: its name as the label has it, and what comes back.
type Returning<'a> = (String, &'a ReturnedSecrets);

/// All files; none if no kind has returns.
pub(super) fn files(kinds: &[KindManifests]) -> Vec<Manifest> {
    let mut with_returns: Vec<(&KindManifests, &ReturnedSecrets)> = kinds
        .iter()
        .filter_map(|kind| Some((kind, kind.returns.as_ref()?)))
        .collect();
    // A policy is the same whether its kinds come from the executable or from a folder.
    with_returns.sort_by(|(a, _), (b, _)| (&a.group, &a.plural).cmp(&(&b.group, &b.plural)));
    if with_returns.is_empty() {
        return Vec::new();
    }
    let file = |path: &str, planes: &'static [Plane], objects: Vec<Value>| Manifest {
        path: path.to_owned(),
        planes,
        objects,
    };
    let named: Vec<Returning<'_>> = with_returns
        .iter()
        .map(|(kind, returns)| (format!("{}.{}", kind.plural, kind.group), *returns))
        .collect();
    let watched: Vec<&KindManifests> = with_returns.iter().map(|(kind, _)| *kind).collect();
    vec![
        file("hub/cell-returns.yaml", &[Plane::Hub], members_secrets(&named)),
        file(
            "project/gateway-returns.yaml",
            &[Plane::Project],
            [gateways_secrets(), gateway_in_projects()].concat(),
        ),
        file("hub/role-of-returns.yaml", &[Plane::Hub], members_on_hub()),
        file("member/returns-role.yaml", &[Plane::Cell], at_member(&watched)),
    ]
}

/// Rights of members on the hub. Without a right to read, a member learns of no Secret but by its own writes. It may not
/// `patch`: a server shows fields of the patched object when it refuses one, and a JSON patch moves any field into one of those,
/// before a policy is asked.
fn members_on_hub() -> Vec<Value> {
    let group = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name});
    let rules = json!([rule("", &["secrets"], &["create", "update", "delete"])]);
    vec![
        cluster_role(CELL_RETURNS, &rules),
        binding(CELL_RETURNS, &json!([group(CELLS), group(CELL_ACCOUNTS_GROUP)])),
    ]
}

/// Rights of the gateway in projects.
fn gateway_in_projects() -> Vec<Value> {
    let rules = json!([rule("", &["secrets"], &["create", "patch", "delete"])]);
    bound("fedgate-gateway-returns", &rules)
}

/// Limits the gateway in projects to Secrets with its label. Its role can only name the kind.
fn gateways_secrets() -> Vec<Value> {
    let is_returned = |object: &str| {
        let labelled = labelled(object, keys::RETURNED, "true");
        format!("({object} == null || {labelled})")
    };
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": on("", "v1", &["CREATE", "UPDATE", "DELETE"], &["secrets"]),
        "matchConditions": by_the_gateway(),
        "validations": [validation(
            format!("{} && {}", is_returned("object"), is_returned("oldObject")),
            "the gateway may write and delete only Secrets labelled fedgate.dev/returned=true, and that were before",
        )],
    });
    policy("fedgate-gateway-returns", &spec, None)
}

/// Limits a member to Secrets that it has returned itself. Their names begin with its own, so that it takes no name of another
/// member's, and go on with one that a kind admits. No message shows anything of a Secret: a refused one may be another's.
fn members_secrets(kinds: &[Returning<'_>]) -> Vec<Value> {
    let validations = [whose(), which(kinds), what_comes_along()].concat();
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": on("", "v1", &["CREATE", "UPDATE", "DELETE"], &["secrets"]),
        "matchConditions": by_a_cell(),
        "variables": [
            writer(),
            labels_of("labels", "object"),
            labels_of("oldLabels", "oldObject"),
            labels_of("home", "namespaceObject"),
            annotations_of("annotations", "object"),
            annotations_of("oldAnnotations", "oldObject"),
            strange("strangeLabels", "labels", &format!("k in {}", names(&LABELS))),
            strange(
                "strangeAnnotations",
                "annotations",
                &format!("k == '{}' && variables.annotations[k].size() <= 64", keys::SOURCE_UID),
            ),
            json!({"name": "kind", "expression": format!("variables.labels[?'{}'].orValue('')", keys::RETURNED)}),
            // No pattern fits the empty name.
            json!({"name": "name", "expression":
                "object != null && object.metadata.name.startsWith(variables.writer + '.') ? \
                 object.metadata.name.substring(variables.writer.size() + 1) : ''"}),
            json!({"name": "owners", "expression":
                "object != null && has(object.metadata.ownerReferences) ? object.metadata.ownerReferences : []"}),
            json!({"name": "bytes", "expression":
                "object != null && has(object.data) ? object.data.map(k, object.data[k].size() / 4 * 3).sum() : 0"}),
        ],
        "validations": validations,
    });
    policy(CELL_RETURNS, &spec, None)
}

/// The Secret is the writer's, before and after, and of the tenant of its Namespace.
fn whose() -> Vec<Value> {
    let (cell, returned) = (keys::CELL, keys::RETURNED);
    let like_home = [keys::UPSTREAM_CLUSTER, keys::UPSTREAM_NAMESPACE].map(|key| {
        format!(
            "variables.labels[?'{key}'].orValue('') != '' && variables.labels[?'{key}'] == variables.home[?'{key}']"
        )
    });
    vec![
        validation(
            format!(
                "oldObject == null || ('{returned}' in variables.oldLabels && variables.writer != '' && \
                 variables.oldLabels[?'{cell}'].orValue('') == variables.writer)"
            ),
            "the hub has another Secret of this name, which this member has not returned; leave it alone",
        ),
        validation(
            format!(
                "object == null || (variables.writer != '' && \
                 variables.labels[?'{cell}'].orValue('') == variables.writer)"
            ),
            "label fedgate.dev/cell must be the member that writes: set it to <name>, and log in as user \
             fedgate-cell-<name>",
        ),
        validation(
            format!("object == null || ({})", like_home.join(" && ")),
            "labels meta.datumapis.com/upstream-cluster-name and -namespace must be those of the Namespace",
        ),
    ]
}

/// A kind admits the name, the copy owns it, and it is not too large.
fn which(kinds: &[Returning<'_>]) -> Vec<Value> {
    let of_kinds = |test: &dyn Fn(&Returning<'_>) -> String| -> String {
        let each = kinds.iter().map(|kind| {
            let (name, test) = (&kind.0, test(kind));
            format!("(variables.kind == '{name}' && ({test}))")
        });
        each.collect::<Vec<_>>().join(" || ")
    };
    let fits = |pattern: &str| format!("variables.name.matches('{}')", regular(pattern));
    let named = of_kinds(&|(_, returns)| {
        let all = returns.patterns.iter().map(|(pattern, _)| fits(pattern));
        all.collect::<Vec<_>>().join(" || ")
    });
    let sized = of_kinds(&|(_, returns)| {
        let all = returns
            .patterns
            .iter()
            .map(|(pattern, most)| format!("({} && variables.bytes <= {most})", fits(pattern)));
        all.collect::<Vec<_>>().join(" || ")
    });
    let owned = of_kinds(&|(_, returns)| {
        let ReturnedSecrets {
            api_version, kind, ..
        } = returns;
        format!("variables.owners.all(o, o.apiVersion == '{api_version}' && o.kind == '{kind}')")
    });
    let object = keys::RETURNED_FOR;
    vec![
        validation(
            format!("object == null || {named}"),
            "label fedgate.dev/returned must be a kind with returns, and metadata.name the name of the member, a dot, and a \
             name that this kind allows",
        ),
        validation(
            format!(
                "object == null || (variables.owners.size() == 1 && variables.owners.all(o, has(o.controller) && \
                 o.controller && o.name == variables.labels[?'{object}'].orValue('')) && ({owned}))"
            ),
            "metadata.ownerReferences must be the copy that label fedgate.dev/returned-for names, as controller, alone",
        ),
        validation(
            format!("object == null || !({named}) || {sized}"),
            "the Secret has more bytes than its kind allows; return less",
        ),
    ]
}

/// Forbids metadata that delays deletion or that Karmada acts on.
fn what_comes_along() -> Vec<Value> {
    vec![
        validation(
            "variables.strangeLabels.size() == 0",
            "metadata.labels: a member may set only those of a returned Secret",
        ),
        validation(
            "variables.strangeAnnotations.size() == 0",
            "metadata.annotations: a member may set only fedgate.dev/source-uid of at most 64 characters",
        ),
        validation(
            "object == null || !has(object.metadata.finalizers) || object.metadata.finalizers.all(f, \
             oldObject != null && has(oldObject.metadata.finalizers) && f in oldObject.metadata.finalizers)",
            "metadata.finalizers: a member may not set any on a returned Secret; leave them out",
        ),
    ]
}

/// A pattern of names as a regular expression in a text of CEL. Names have letters, digits, dashes and dots.
fn regular(pattern: &str) -> String {
    let text: String = pattern
        .chars()
        .map(|c| match c {
            '*' => ".*".to_owned(),
            c if c.is_ascii_alphanumeric() || c == '-' => c.to_string(),
            c => format!(
                "[{}]",
                if c == '\'' || c == '\\' || c == ']' || c == '^' {
                    '!'
                } else {
                    c
                }
            ),
        })
        .collect();
    format!("^{text}$")
}

/// Rights of the program at its member.
fn at_member(kinds: &[&KindManifests]) -> Vec<Value> {
    let subjects = json!([
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": RETURNS},
        {"kind": "ServiceAccount", "name": RETURNS, "namespace": NAMESPACE},
    ]);
    let mut rules: Vec<Value> = kinds
        .iter()
        .map(|kind| rule(&kind.group, &[&kind.plural], &["list", "watch"]))
        .collect();
    rules.push(rule("", &["secrets"], &["get", "list", "watch"]));
    let leases = rule(
        "coordination.k8s.io",
        &["leases"],
        &["get", "list", "watch", "create", "update"],
    );
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        cluster_role(RETURNS, &json!(rules)),
        binding(RETURNS, &subjects),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": RETURNS, "namespace": NAMESPACE},
            "rules": [leases],
        }),
        role_binding(RETURNS, &subjects),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_an_expression_for_whole_names_in_which_only_a_star_stands_for_others() {
        assert_eq!(regular("*-app"), "^.*-app$");
        assert_eq!(regular("lab.*-x"), "^lab[.].*-x$");
        assert_eq!(regular("a'b]"), "^a[!]b[!]$");
    }

    #[test]
    fn without_a_kind_that_has_returns_nobody_gets_a_right() {
        assert!(files(&[]).is_empty());
    }
}
