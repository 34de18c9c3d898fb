//! `fedgate-sandbox explain` tells the requests that a gateway sends: those of a vault's life here, object by object and in
//! their order.

use super::{ops::Act, rig::Scene};
use crate::rig::{GATEWAY, HUB, rest, simulate};
use fedgate_explain::{Chapter, Happening, Options, explain};
use fedgate_simulator::Verb;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

/// Long enough for everything to come to rest, and for what lingers to go.
const CHAPTER: Duration = Duration::from_mins(10);
/// Kinds that are compared: those of the objects that a vault leads to. Status writes depend on what members report, and when.
const KINDS: [&str; 6] = [
    "vaults",
    "seals",
    "secrets",
    "configmaps",
    "propagationpolicies",
    "namespaces",
];

/// The verbs of the writes to each object: plural, and name.
type Writes = BTreeMap<(String, String), Vec<String>>;

/// Hub namespaces have other UIDs in each run.
fn name(text: &str) -> String {
    let of_uid = ["fedgate-pins-", "ns-"]
        .into_iter()
        .find(|prefix| text.starts_with(prefix));
    of_uid
        .map_or(text, |prefix| prefix.trim_end_matches('-'))
        .to_owned()
}

async fn seen(object: &mut Value) -> (Writes, Vec<String>, fedgate_gateway::settings::Settings) {
    let mut scene = Scene::new(7, &["p"]);
    Act::Secret("p", "default", "b25l").apply(&scene.rig);
    scene.rig.start();
    rest(CHAPTER).await;
    scene.rig.simulator.log().clear();
    Act::Create("p", "default", "gold", "DFW").apply(&scene.rig);
    *object = (*scene.rig.projects["p"].get("Vault", "default", "gold").unwrap()).clone();
    rest(CHAPTER).await;
    for on in [true, false] {
        Act::Suspend("p", "default", "gold", on).apply(&scene.rig);
        rest(CHAPTER).await;
    }
    Act::Delete("p", "default", "gold").apply(&scene.rig);
    rest(CHAPTER).await;
    let (mut writes, mut of_copy) = (Writes::new(), Vec::new());
    for entry in scene.rig.simulator.log().entries() {
        let own = &*entry.user == GATEWAY && entry.verb.writes() && entry.changed;
        if !own || entry.subresource.is_some() || !KINDS.contains(&&*entry.resource) {
            continue;
        }
        let verb = match entry.verb {
            Verb::Create => "create",
            Verb::Apply => "apply",
            Verb::Delete => "delete",
            _ => "patch",
        };
        note(
            &entry.plane,
            &entry.resource,
            &entry.name,
            verb,
            &mut writes,
            &mut of_copy,
        );
    }
    (writes, of_copy, scene.rig.settings.clone())
}

fn note(plane: &str, plural: &str, of: &str, verb: &str, writes: &mut Writes, of_copy: &mut Vec<String>) {
    let side = if plane == HUB { HUB } else { "project" };
    let object = (format!("{side} {plural}"), name(of));
    if side == HUB && ["vaults", "configmaps"].contains(&plural) {
        of_copy.push(format!("{verb} {plural}"));
    }
    writes.entry(object).or_default().push(verb.to_owned());
}

fn told(object: &Value, settings: &fedgate_gateway::settings::Settings) -> (Writes, Vec<String>) {
    let metadata = json!({"name": "gold", "labels": object["metadata"]["labels"]});
    let example = json!({"apiVersion": object["apiVersion"], "kind": "Vault", "metadata": metadata,
        "spec": object["spec"], "status": {"phase": "Ready", "ready": 1}});
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("explained-vault.yaml");
    fs::write(&file, example.to_string()).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let options = Options {
        dir: root.join("tests/kinds/example.fedgate.dev/v1/Vault"),
        object: Some(file),
        chapters: vec![Chapter::Create, Chapter::Suspend, Chapter::Delete],
    };
    let explained = explain(&options, settings).unwrap();
    let (mut writes, mut of_copy) = (Writes::new(), Vec::new());
    for (_, what) in explained[0].chapters.iter().flat_map(|chapter| &chapter.happened) {
        let Happening::Request(request) = what else {
            continue;
        };
        let plural = match request.kind.as_str() {
            "PropagationPolicy" => "propagationpolicies".to_owned(),
            kind => format!("{}s", kind.to_lowercase()),
        };
        let reads = ["get", "list"].contains(&request.verb);
        if !reads && !request.is_status && KINDS.contains(&&*plural) {
            note(
                request.plane,
                &plural,
                &request.name,
                request.verb,
                &mut writes,
                &mut of_copy,
            );
        }
    }
    (writes, of_copy)
}

#[test]
fn the_requests_that_explain_tells_are_those_that_a_gateway_sends() {
    let mut object = Value::Null;
    let (seen, of_copy, settings) = simulate(seen(&mut object));
    let (told, told_of_copy) = told(&object, &settings);
    assert!(seen.len() > 8, "{seen:#?}");
    assert_eq!(told, seen, "explained (left) and sent (right)");
    assert_eq!(
        told_of_copy, of_copy,
        "copy and pin: explained (left) and sent (right)"
    );
}
