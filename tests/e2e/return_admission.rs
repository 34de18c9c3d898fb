//! Admission of a member that returns Secrets on the hub, and of the gateway in a project (docs/contract/clusters.md §7): each rule
//! refuses its attack, and no refusal shows anything of a Secret.

use crate::{
    returns::{COMPANION, NAME, delivered},
    support::{
        Case,
        kinds::{ADMISSION_POLICY, SECRET, VAULT},
        lone_trials,
        plane::Plane,
        seconds,
        suite::SYSTEM,
        trials, uid, wait_for, with_cleanup,
    },
};
use fedgate_api::keys;
use fedgate_sandbox::{Sandbox, User};
use kube::api::{ListParams, Patch, PatchParams, PostParams, ValidationDirective};
use serde_json::{Value, json};

trials![
    #[core]
    r03_the_hub_admits_of_a_member_only_what_it_may_return_and_shows_nothing,
    #[core]
    r04_the_gateway_may_write_no_other_secret_of_a_project,
];
lone_trials![r06_each_rule_of_the_hub_is_the_one_that_refuses_its_attack];

/// A value that no refusal may show.
const HIDDEN: &str = "aGlkZGVuLWZyb20tbWVtYmVycw==";

/// A Secret that a member may return for the vault.
pub(crate) fn admitted(case: &Case, member: &str, copy: &Value) -> Value {
    json!({
        "metadata": {
            "name": format!("{member}.gold-app"),
            "labels": {
                keys::UPSTREAM_CLUSTER: Case::project_label(), keys::UPSTREAM_NAMESPACE: case.ns,
                keys::CELL: member, keys::RETURNED: "vaults.example.fedgate.dev", keys::RETURNED_FOR: NAME,
            },
            "annotations": {keys::SOURCE_UID: "u"},
            "ownerReferences": [{"apiVersion": VAULT.api_version(), "kind": VAULT.name, "name": NAME, "uid": uid(copy),
                "controller": true}],
        },
        "type": "Opaque",
        "data": {"token": HIDDEN},
    })
}

/// A change of an admitted Secret that the hub refuses, and words of the rule that does.
type Attack = (&'static str, Value, &'static str);

const MEMBER_RULE: &str = "label fedgate.dev/cell must be";
const TENANT_RULE: &str = "must be those of the Namespace";
const NAME_RULE: &str = "must be a kind with returns";
const OWNER_RULE: &str = "metadata.ownerReferences must be";
const SIZE_RULE: &str = "more bytes than its kind allows";
const LABELS_RULE: &str = "metadata.labels: a member";
const ANNOTATIONS_RULE: &str = "metadata.annotations: a member";
const FINALIZERS_RULE: &str = "metadata.finalizers: a member";
/// The rule about Secrets that are there.
const ANOTHERS_RULE: &str = "another Secret of this name";

fn attacks(case: &Case) -> Vec<Attack> {
    let labels = |key: &str, value: &str| json!({"metadata": {"labels": {key: value}}});
    let without = |key: &str| json!({"metadata": {"labels": {key: null}}});
    let owner = |change: Value| {
        let mut owner = json!({"apiVersion": VAULT.api_version(), "kind": VAULT.name, "name": NAME, "uid": "u",
            "controller": true});
        for (key, value) in change.as_object().into_iter().flatten() {
            owner[key] = value.clone();
        }
        json!({"metadata": {"ownerReferences": [owner]}})
    };
    let other_kind = labels(keys::RETURNED, "gadgets.example.fedgate.dev");
    let other_namespace = labels(keys::UPSTREAM_NAMESPACE, "other");
    let named = |name: String| json!({"metadata": {"name": name}});
    let (dfw, lhr) = (&case.dfw.name, &case.lhr.name);
    vec![
        (
            "another member's label",
            labels(keys::CELL, &case.lhr.name),
            MEMBER_RULE,
        ),
        ("no label of a member", without(keys::CELL), MEMBER_RULE),
        (
            "another tenant",
            labels(keys::UPSTREAM_CLUSTER, "cluster-beta"),
            TENANT_RULE,
        ),
        ("another namespace of the tenant's", other_namespace, TENANT_RULE),
        (
            "a name that no pattern fits",
            named(format!("{dfw}.gold-admin")),
            NAME_RULE,
        ),
        ("a name of no member", named("gold-app".into()), NAME_RULE),
        (
            "another member's name",
            named(format!("{lhr}.gold-app")),
            NAME_RULE,
        ),
        (
            "a name that begins with the member's, of another member",
            named(format!("{dfw}-1.gold-app")),
            NAME_RULE,
        ),
        ("another kind", other_kind, NAME_RULE),
        ("no kind", without(keys::RETURNED), NAME_RULE),
        (
            "no owner",
            json!({"metadata": {"ownerReferences": null}}),
            OWNER_RULE,
        ),
        (
            "an owner of another name",
            owner(json!({"name": "silver"})),
            OWNER_RULE,
        ),
        (
            "an owner of another kind",
            owner(json!({"kind": "Gadget"})),
            OWNER_RULE,
        ),
        (
            "an owner that does not control it",
            owner(json!({"controller": false})),
            OWNER_RULE,
        ),
        (
            "too many bytes",
            json!({"stringData": {"token": HIDDEN.repeat(400)}}),
            SIZE_RULE,
        ),
        (
            "a label of companions",
            labels(keys::REFERENCED_DATA, "true"),
            LABELS_RULE,
        ),
        ("a label of Karmada's", labels(keys::CLAIM_ID, "x"), LABELS_RULE),
        (
            "an annotation",
            json!({"metadata": {"annotations": {"a": "b"}}}),
            ANNOTATIONS_RULE,
        ),
        (
            "a finalizer",
            json!({"metadata": {"finalizers": ["example.fedgate.dev/stay"]}}),
            FINALIZERS_RULE,
        ),
    ]
}

fn merged(mut object: Value, change: &Value) -> Value {
    fn merge(into: &mut Value, change: &Value) {
        let Some(fields) = change.as_object() else {
            *into = change.clone();
            return;
        };
        if !into.is_object() {
            *into = json!({});
        }
        for (key, value) in fields {
            if value.is_null() {
                into.as_object_mut().expect("it is an object").remove(key);
            } else {
                merge(&mut into[key], value);
            }
        }
    }
    merge(&mut object, change);
    object
}

/// The words of a refusal by a policy, which show nothing.
fn refused<T: std::fmt::Debug>(what: &str, answer: kube::Result<T>) -> String {
    let Err(kube::Error::Api(status)) = answer else {
        panic!("{what} is not refused: {answer:?}");
    };
    let words = format!("{status:?}");
    assert!([403, 422].contains(&status.code), "{what}: {words}");
    for hidden in [HIDDEN, "hidden-from-members"] {
        assert!(!words.contains(hidden), "{what}: {words}");
    }
    words
}

async fn r03_the_hub_admits_of_a_member_only_what_it_may_return_and_shows_nothing(case: Case) {
    delivered(&case).await;
    let copy = case.hub.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    let (hub, ns, good) = (
        &case.dfw.hub,
        &*case.hub_ns,
        admitted(&case, &case.dfw.name, &copy),
    );
    wait_for("the hub admits what a member may return", seconds(60), || async {
        hub.would_create(&SECRET, ns, good.clone()).await.then_some(())
    })
    .await;
    for (what, change, rule) in attacks(&case) {
        let words = refused(
            what,
            hub.try_create(&SECRET, ns, merged(good.clone(), &change)).await,
        );
        assert!(words.contains(rule), "{what}: {words}");
    }
    refused(
        "a Secret of the gateway's namespace",
        hub.try_create(&SECRET, SYSTEM, good.clone()).await,
    );
    hub.create(&SECRET, ns, good.clone()).await;
    let replaced = hub.try_replace(&SECRET, ns, good.clone(), &KEPT).await;
    replaced.expect("a member replaces what it has returned");
    for (what, change, rule) in attacks(&case) {
        if change["metadata"]["name"].is_null() {
            let changed = merged(good.clone(), &change);
            let words = refused(what, hub.try_replace(&SECRET, ns, changed, &KEPT).await);
            assert!(words.contains(rule), "{what}: {words}");
        }
    }
    let name = format!("{}.gold-app", case.dfw.name);
    may_not_patch(hub, ns, &name).await;
    another_s_secrets(&case, &good).await;
    hub.try_delete(&SECRET, ns, &name, None)
        .await
        .expect("a member takes back what it has returned");
}

/// A write that is kept.
const KEPT: PostParams = PostParams {
    dry_run: false,
    field_manager: None,
};

/// No form of a patch gets as far as the Secret. A server that may not store a patched Secret answers with its type, and a JSON
/// patch copies a value there before any policy is asked.
async fn may_not_patch(hub: &Plane, ns: &str, name: &str) {
    let operations = [
        json!({"op": "copy", "from": "/data/token", "path": "/type"}),
        json!({"op": "move", "from": "/data/token", "path": "/type"}),
        json!({"op": "test", "path": "/data/token", "value": "AAAA"}),
    ];
    let mut patches: Vec<Patch<Value>> = operations
        .map(|operation| {
            let patch = serde_json::from_value(json!([operation]));
            Patch::Json(patch.expect("a JSON patch"))
        })
        .into();
    let change = json!({"apiVersion": "v1", "kind": "Secret", "type": "other"});
    patches.extend([
        Patch::Merge(change.clone()),
        Patch::Strategic(change.clone()),
        Patch::Apply(change),
        Patch::Merge(json!({})),
    ]);
    for patch in &patches {
        for dry_run in [false, true] {
            for validation in [ValidationDirective::Ignore, ValidationDirective::Strict] {
                let params = PatchParams {
                    dry_run,
                    field_validation: Some(validation),
                    field_manager: Some("attack".to_owned()),
                    ..PatchParams::default()
                };
                let what = format!("{patch:?} of {name}");
                let words = refused(&what, hub.api(&SECRET, ns).patch(name, &params, patch).await);
                assert!(words.contains("cannot patch resource"), "{what}: {words}");
            }
        }
    }
}

/// A Secret of nobody's, under a name that DFW may return.
fn plain(case: &Case) -> Value {
    let name = format!("{}.plain-app", case.dfw.name);
    json!({"metadata": {"name": name}, "data": {"token": HIDDEN}})
}

/// Secrets that the member has not returned: a companion, another member's, and one without any label.
async fn another_s_secrets(case: &Case, good: &Value) {
    let (hub, ns) = (&case.dfw.hub, &*case.hub_ns);
    let of_lhr = |name: String| {
        let mut secret = good.clone();
        secret["metadata"]["name"] = json!(name);
        secret["metadata"]["labels"][keys::CELL] = json!(case.lhr.name);
        secret
    };
    let (own, other) = (&case.dfw.name, &case.lhr.name);
    let anothers = [format!("{own}.lhr-app"), format!("{other}.gold-app")].map(of_lhr);
    let mut names = vec![COMPANION.to_owned()];
    for secret in anothers.into_iter().chain([plain(case)]) {
        names.push(secret["metadata"]["name"].as_str().expect("a name").to_owned());
        case.hub.create(&SECRET, ns, secret).await;
    }
    for name in names {
        let taken = merged(
            good.clone(),
            &json!({"metadata": {"name": name}, "data": {"token": "AAAA"}}),
        );
        let other_type = merged(taken.clone(), &json!({"type": "other"}));
        for (what, object) in [("a replacement", taken), ("another type", other_type)] {
            for dry_run in [false, true] {
                let params = PostParams { dry_run, ..KEPT };
                refused(
                    &format!("{what} of {name}"),
                    hub.try_replace(&SECRET, ns, object.clone(), &params).await,
                );
            }
        }
        may_not_patch(hub, ns, &name).await;
        refused(
            &format!("the deletion of {name}"),
            hub.try_delete(&SECRET, ns, &name, None).await,
        );
        refused(&format!("a GET of {name}"), hub.api(&SECRET, ns).get(&name).await);
        let there = case.hub.get(&SECRET, ns, &name).await.expect("it is there");
        assert_eq!(there["data"]["token"], HIDDEN);
    }
    let all = hub.api(&SECRET, ns).list(&ListParams::default()).await;
    refused("a list", all);
}

/// Without a rule of the policy its attack is admitted: no other refuses it.
async fn r06_each_rule_of_the_hub_is_the_one_that_refuses_its_attack(case: Case) {
    const POLICY_NAME: &str = fedgate_manifests::CELL_RETURNS;
    delivered(&case).await;
    let copy = case.hub.exists(&VAULT, &case.hub_ns, NAME, seconds(5)).await;
    let (hub, ns, good) = (
        &case.dfw.hub,
        &*case.hub_ns,
        admitted(&case, &case.dfw.name, &copy),
    );
    case.hub.create(&SECRET, ns, plain(&case)).await;
    let policy = case
        .hub
        .get(&ADMISSION_POLICY, "", POLICY_NAME)
        .await
        .expect("the policy is there");
    let rules = policy["spec"]["validations"].as_array().expect("it has rules");
    let mut tried = Vec::new();
    let shipped = json!({"spec": {"validations": rules}});
    with_cleanup(
        async {
            for rule in rules {
                let says = rule["message"].as_str().expect("a rule has a message");
                let rest: Vec<&Value> = rules.iter().filter(|other| *other != rule).collect();
                let without = json!({"spec": {"validations": rest}});
                case.hub.merge(&ADMISSION_POLICY, "", POLICY_NAME, without).await;
                let attack = attacks(&case)
                    .into_iter()
                    .find(|(_, _, rule)| says.contains(rule));
                wait_for(
                    &format!("without `{says}` its attack is admitted"),
                    seconds(60),
                    || async {
                        let is_admitted = match &attack {
                            Some((_, change, _)) => {
                                hub.would_create(&SECRET, ns, merged(good.clone(), change)).await
                            }
                            None => would_take(hub, ns, &good, &plain(&case)).await,
                        };
                        is_admitted.then_some(())
                    },
                )
                .await;
                tried.push(says.to_owned());
            }
        },
        async {
            case.hub
                .merge(&ADMISSION_POLICY, "", POLICY_NAME, shipped.clone())
                .await;
        },
    )
    .await;
    assert!(tried.iter().any(|says| says.contains(ANOTHERS_RULE)), "{tried:?}");
    for (what, _, rule) in attacks(&case) {
        assert!(tried.iter().any(|says| says.contains(rule)), "{what}: {tried:?}");
    }
    wait_for("the shipped policy refuses again", seconds(60), || async {
        (!would_take(hub, ns, &good, &plain(&case)).await).then_some(())
    })
    .await;
}

/// Whether the hub would let the member take this Secret over.
async fn would_take(hub: &Plane, ns: &str, good: &Value, plain: &Value) -> bool {
    let mut taken = good.clone();
    taken["metadata"]["name"] = plain["metadata"]["name"].clone();
    taken["data"]["token"] = json!("AAAA");
    let dry = PostParams {
        dry_run: true,
        ..KEPT
    };
    hub.try_replace(&SECRET, ns, taken, &dry).await.is_ok()
}

async fn r04_the_gateway_may_write_no_other_secret_of_a_project(case: Case) {
    let gateway = case
        .suite
        .with_sandbox(async |sandbox: &Sandbox| sandbox.client("alpha", User::Gateway))
        .await
        .expect("connect as the gateway");
    let gateway = Plane::new("alpha", gateway);
    let ns = &*case.ns;
    let labelled = |name: &str| {
        json!({"metadata": {"name": name, "labels": {keys::RETURNED: "true"}},
        "data": {"token": HIDDEN}})
    };
    let plain = json!({"metadata": {"name": "plain"}, "data": {"token": HIDDEN}});
    wait_for("the project admits what comes back", seconds(60), || async {
        gateway
            .would_create(&SECRET, ns, labelled("back"))
            .await
            .then_some(())
    })
    .await;
    refused(
        "a plain Secret",
        gateway.try_create(&SECRET, ns, plain.clone()).await,
    );
    case.create(&SECRET, plain).await;
    let mark = json!({"metadata": {"labels": {keys::RETURNED: "true"}}});
    refused(
        "a tenant's Secret marked",
        gateway.try_merge(&SECRET, ns, "plain", &mark).await,
    );
    refused(
        "an empty patch",
        gateway.try_merge(&SECRET, ns, "plain", &json!({})).await,
    );
    refused(
        "a tenant's Secret deleted",
        gateway.try_delete(&SECRET, ns, "plain", None).await,
    );
    gateway.create(&SECRET, ns, labelled("back")).await;
    let unmark = json!({"metadata": {"labels": {keys::RETURNED: null}}});
    refused(
        "a mark taken off",
        gateway.try_merge(&SECRET, ns, "back", &unmark).await,
    );
    gateway
        .try_delete(&SECRET, ns, "back", None)
        .await
        .expect("it may delete what came back");
}
