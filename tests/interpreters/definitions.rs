//! The definitions under tests/kinds, by which planes of tests serve the kinds that are federated only when named.

use crate::roots;
use fedgate_kinds::Kinds;
use kube::core::ApiResource;
use serde_json::{Value, json};
use std::fs;

fn definitions() -> Vec<Value> {
    let files = fs::read_dir(&roots()[1])
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .flat_map(|file| serde_saphyr::from_multiple::<Value>(&fs::read_to_string(file).unwrap()).unwrap())
        .collect()
}

/// Group, names, version and scope of each kind, of its companions and of the platform's kinds are those of a definition.
pub(crate) fn every_kind_that_is_named_has_a_definition() {
    let definitions = definitions();
    let mut kinds = Kinds::load_dir(&roots()[0]).unwrap();
    kinds
        .federated
        .extend(Kinds::load_dir(&roots()[1]).unwrap().federated);
    let mut needed: Vec<(&ApiResource, &str, bool)> = Vec::new();
    let is_further = |resource: &ApiResource| resource.group != fedgate_api::GROUP;
    for kind in kinds.federated.iter().filter(|kind| is_further(&kind.resource)) {
        needed.push((&kind.resource, "Namespaced", true));
        let companions = kind.companions.iter().flat_map(|section| &section.references);
        let defined = companions.filter(|reference| !reference.resource.group.is_empty());
        needed.extend(defined.map(|reference| (&reference.resource, "Namespaced", false)));
    }
    needed.extend(
        kinds
            .platform
            .iter()
            .map(|kind| (&kind.resource, "Cluster", false)),
    );
    assert_eq!(needed.len(), 11);
    for (resource, scope, has_status) in needed {
        let is_it = |definition: &&Value| {
            let (spec, names) = (&definition["spec"], &definition["spec"]["names"]);
            (&spec["group"], &names["kind"], &names["plural"], &spec["scope"])
                == (
                    &json!(resource.group),
                    &json!(resource.kind),
                    &json!(resource.plural),
                    &json!(scope),
                )
        };
        let found = definitions.iter().find(is_it);
        assert!(found.is_some(), "no definition of {resource:?}");
        let definition = found.unwrap();
        let version = &definition["spec"]["versions"][0];
        assert_eq!(
            (&version["name"], &version["served"]),
            (&json!(resource.version), &json!(true))
        );
        assert!(
            !has_status || version["subresources"]["status"].is_object(),
            "{resource:?}"
        );
    }
}
