//! Tests of loading: the built-in kinds, and each fault that a folder can have.

mod defaults;
mod refusals;
mod shipped;
mod together;

use super::*;
use std::{fmt::Write, fs, path::Path};

const GOOD: &str = "\
plural: gizmos
placement:
  path: $.spec.city
  label: topology.datum.net/city-code
  policyPrefix: gizmo-
carriedAnnotations: []
status:
  counters: []
  ownConditions: []
";

/// Loads `kind.yaml` and scripts as kind Gizmo, from a new folder with a group of the test's own.
fn load(kind: &str, scripts: &[(&str, &str)]) -> Result<Vec<FederatedKind>, String> {
    let kinds = load_all(&[("example.com/v1/Gizmo", kind)], scripts)?;
    Ok(kinds.federated)
}

/// Loads files as the kinds of these folders, beside the default kinds; the scripts are the first one's.
fn load_all(kinds: &[(&str, &str)], scripts: &[(&str, &str)]) -> Result<Kinds, String> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("fedgate-kinds-{}-{number}", std::process::id()));
    for (folder, kind) in kinds {
        write(&dir.join(folder), "kind.yaml", kind);
    }
    for (name, text) in scripts {
        write(&dir.join(kinds[0].0), name, text);
    }
    let loaded = Kinds::load(&[], Some(&dir))
        .map_err(|error| error.to_string().replace(&dir.display().to_string(), "DIR"));
    fs::remove_dir_all(&dir).unwrap();
    loaded
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(name), text).unwrap();
}

fn refused(kind: &str, scripts: &[(&str, &str)]) -> String {
    load(kind, scripts).map(|_| ()).unwrap_err()
}

#[test]
fn the_built_in_kind_is_the_profile_of_the_contract() {
    let kinds = FederatedKind::builtin().unwrap();
    let kind = &kinds[0];
    assert_eq!(
        (kinds.len(), kind.resource.kind.as_str()),
        (1, "WorkloadDeployment")
    );
    assert_eq!(kind.resource.api_version, "compute.datumapis.com/v1alpha");
    assert_eq!(kind.resource.plural, "workloaddeployments");
    assert_eq!(kind.placement.path.text(), "$.spec.cityCode");
    assert_eq!(kind.placement.label, fedgate_api::keys::CITY_CODE);
    assert_eq!(kind.placement.policy_prefix, "city-");
    assert_eq!(
        kind.suspend_annotation.as_deref(),
        Some(fedgate_api::keys::SUSPENDED)
    );
    assert_eq!(kind.status.counters.len(), 5);
    assert_eq!(kind.companions.as_ref().unwrap().references.len(), 7);
    let write_back = kind.write_back.as_ref().unwrap();
    assert_eq!(
        (write_back.resource.kind.as_str(), write_back.linking_labels.len()),
        ("Instance", 8)
    );
}

#[test]
fn the_interpreter_object_carries_the_scripts_verbatim() {
    let kind = FederatedKind::builtin().unwrap().remove(0);
    let object = kind.interpreter_object();
    assert_eq!(object["metadata"]["name"], "workloaddeployment");
    assert_eq!(object["spec"]["target"]["kind"], "WorkloadDeployment");
    let customizations = object["spec"]["customizations"].as_object().unwrap();
    let keys: Vec<&str> = customizations.keys().map(String::as_str).collect();
    let expected = [
        "dependencyInterpretation",
        "healthInterpretation",
        "replicaResource",
        "retention",
        "statusAggregation",
        "statusReflection",
    ];
    assert_eq!(keys, expected);
    let text = include_str!(
        "../../../../interpreters/compute.datumapis.com/v1alpha/WorkloadDeployment/health-interpretation.lua"
    );
    assert_eq!(customizations["healthInterpretation"]["luaScript"], text);
}

#[test]
fn the_references_of_a_template_are_found() {
    let kind = FederatedKind::builtin().unwrap().remove(0);
    let object = serde_json::json!({"spec": {"template": {"spec": {
        "volumes": [{"name": "a", "configMap": {"name": "web"}}, {"name": "b", "secret": {"secretName": "db"}}],
        "runtime": {"sandbox": {
            "containers": [{
                "env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "key", "optional": true}}}],
                "envFrom": [{"configMapRef": {"name": "all"}}],
            }],
            "imagePullSecrets": [{"name": "pull"}],
        }},
    }}}});
    let mut names = Vec::new();
    for reference in &kind.companions.as_ref().unwrap().references {
        for found in reference.path.all(&object) {
            names.push(
                found[reference.name_field.as_ref().unwrap()]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
    assert_eq!(names, ["web", "db", "key", "all", "pull"]);
}

#[test]
fn a_folder_beside_the_built_in_kinds_loads() {
    let kinds = load(
        GOOD,
        &[(
            "health-interpretation.lua",
            "function InterpretHealth() return true end",
        )],
    );
    let kinds = kinds.unwrap();
    assert_eq!(kinds.len(), 2);
    assert_eq!(kinds[1].resource.api_version, "example.com/v1");
    assert_eq!(kinds[1].interpreter.name, "gizmo");
    assert_eq!(kinds[1].interpreter.scripts.len(), 1);
}

#[test]
fn an_unknown_field_is_refused_with_line_and_allowed_names() {
    let error = refused(&GOOD.replace("  path:", "  pfad: x\n  path:"), &[]);
    assert!(
        error.starts_with("DIR/example.com/v1/Gizmo/kind.yaml:3: unknown field \"pfad\""),
        "{error}"
    );
    assert!(
        error.ends_with("allowed are path, label, policyPrefix, cardinality, immutable, requireMemberAPI"),
        "{error}"
    );
}

#[test]
fn a_missing_field_is_refused_with_line_and_allowed_names() {
    let error = refused(&GOOD.replace("  policyPrefix: gizmo-\n", ""), &[]);
    assert!(
        error.contains("kind.yaml:4: missing field \"policyPrefix\""),
        "{error}"
    );
    assert!(
        error.contains("; placement has the fields path, label, policyPrefix, cardinality"),
        "{error}"
    );
}

#[test]
fn text_that_is_no_yaml_and_a_wrong_type_name_their_line() {
    let error = refused(&GOOD.replace("counters: []", "counters: {a: b}"), &[]);
    assert!(error.contains("kind.yaml:8: "), "{error}");
    let error = refused("plural: [", &[]);
    assert!(error.contains("kind.yaml:1: "), "{error}");
}

#[test]
fn a_path_that_is_no_jsonpath_names_its_line() {
    let error = refused(&GOOD.replace("$.spec.city", "'$.spec['"), &[]);
    assert!(
        error.contains("kind.yaml:3: \"$.spec[\" is no JSONPath"),
        "{error}"
    );
}

#[test]
fn a_prefix_or_label_that_clashes_with_another_kind_names_its_line() {
    let error = refused(&GOOD.replace("gizmo-", "city-"), &[]);
    assert!(
        error.contains("kind.yaml:5: policyPrefix \"city-\" cannot be told from"),
        "{error}"
    );
    let error = refused(
        &GOOD.replace("topology.datum.net/city-code", "example.com/zone"),
        &[],
    );
    assert!(
        error.contains("kind.yaml:4: label \"example.com/zone\" differs"),
        "{error}"
    );
    let error = refused(&format!("{GOOD}interpreter: {{name: workloaddeployment}}\n"), &[]);
    assert!(error.contains("kind.yaml:1: the interpreter's name"), "{error}");
}

#[test]
fn a_script_without_its_entry_point_or_with_an_error_names_file_and_line() {
    let error = refused(
        GOOD,
        &[(
            "status-reflection.lua",
            "local x = 1\nfunction reflectStatus() end\n",
        )],
    );
    assert!(
        error.contains("status-reflection.lua:1: ") && error.contains("ReflectStatus"),
        "{error}"
    );
    let error = refused(GOOD, &[("status-reflection.lua", "local x = 1\nlocal y = = 2\n")]);
    assert!(error.contains("status-reflection.lua:2: "), "{error}");
    let error = refused(GOOD, &[("status.lua", "")]);
    assert!(
        error.contains("status.lua:1: ") && error.contains("status-reflection.lua"),
        "{error}"
    );
}

#[test]
fn a_folder_without_kind_yaml_and_a_folder_that_is_not_there_are_refused() {
    let dir = std::env::temp_dir().join(format!("fedgate-kinds-none-{}", std::process::id()));
    fs::create_dir_all(dir.join("example.com/v1/Gizmo")).unwrap();
    let error = Kinds::load_dir(&dir).unwrap_err().to_string();
    fs::remove_dir_all(&dir).unwrap();
    assert!(
        error.contains("Gizmo/kind.yaml:1: there is no such file"),
        "{error}"
    );
    let error = Kinds::load_dir(&dir).unwrap_err().to_string();
    assert!(error.contains("cannot read"), "{error}");
}

/// The linter says of a folder what a start would say, of that of one kind and of each above, and not twice.
#[cfg(feature = "checks")]
#[test]
fn the_linter_reads_kind_yaml_as_a_start_does() {
    let root = std::env::temp_dir().join(format!("fedgate-kinds-lint-{}", std::process::id()));
    let dir = root.join("kinds");
    let folder = dir.join("example.com/v1/Gizmo");
    let found = |kind: &str, script: &str| {
        write(&folder, "kind.yaml", kind);
        write(&folder, "status-reflection.lua", script);
        let above: Vec<&Path> = folder.ancestors().take(4).collect();
        assert_eq!(above[3], dir);
        above.into_iter().map(|at| {
            let report = crate::lua::checks::lint(at);
            let lines = report.findings.iter().map(ToString::to_string);
            let lines = lines.map(|line| line.replace(&folder.display().to_string(), "DIR"));
            (report.checked, lines.collect::<Vec<_>>())
        })
    };
    let good = "function ReflectStatus(o) return o.status end";
    for at in found(GOOD, good) {
        assert_eq!(at, (2, vec![]));
    }
    let unknown = "DIR/kind.yaml:1: scope 3 is unknown; allowed are Namespaced, Cluster".to_owned();
    for at in found(&format!("scope: 3\n{GOOD}"), good) {
        assert_eq!(at, (2, vec![unknown.clone()]));
    }
    for (_, lines) in found(GOOD, "function ReflectStatus(o) return o.status") {
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("DIR/status-reflection.lua:1: "), "{lines:?}");
    }
    fs::remove_dir_all(&root).unwrap();
}

/// `test` names a folder without its file as `lint` does.
#[cfg(feature = "checks")]
#[test]
fn a_folder_of_the_layout_without_kind_yaml_is_a_finding_of_every_check() {
    let dir = std::env::temp_dir().join(format!("fedgate-kinds-typo-{}", std::process::id()));
    write(&dir.join("example.com/v1/Gizmo"), "kind.yml", GOOD);
    write(&dir.join("example.com/v1/.git"), "HEAD", "");
    for check in [crate::lua::checks::lint, crate::lua::checks::cases::run] {
        let report = check(&dir).to_string().replace(&dir.display().to_string(), "DIR");
        assert_eq!(
            report,
            "DIR/example.com/v1/Gizmo/kind.yaml:1: there is no such file; a kind's folder needs it (docs/kinds.md)\n"
        );
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_kind_whose_folder_lacks_the_version_is_refused() {
    let dir = std::env::temp_dir().join(format!("fedgate-kinds-levels-{}", std::process::id()));
    write(&dir.join("example.com/Gizmo"), "kind.yaml", GOOD);
    let error = Kinds::load_dir(&dir).unwrap_err().to_string();
    fs::remove_dir_all(&dir).unwrap();
    assert_eq!(
        error.replace(&dir.display().to_string(), "DIR"),
        "DIR/example.com/Gizmo/kind.yaml:1: the version's folder \"example.com\" is no version of an API; a kind's folder \
         is <group>/<version>/<Kind>"
    );
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn a_kind_that_was_changed_anywhere_is_refused_or_loaded(
        at in proptest::prelude::any::<proptest::sample::Index>(),
        with in "[ -~\\n]{0,8}",
        taken in 0..12_usize,
        file in proptest::sample::select(vec![
            GOOD,
            include_str!("../../../../interpreters/azimuth.stackhpc.com/v1alpha1/Cluster/kind.yaml"),
            refusals::PLATFORM,
        ]),
    ) {
        let mut text: Vec<char> = file.chars().collect();
        let at = at.index(text.len());
        let end = text.len().min(at + taken);
        text.splice(at..end, with.chars());
        drop(load(&text.into_iter().collect::<String>(), &[]));
    }
}

/// Texts that make some YAML parsers run out of stack or memory.
#[test]
fn a_kind_that_is_deep_or_multiplies_itself_is_refused() {
    let deep = format!("{GOOD}more: {}", "[".repeat(10_000));
    let mut bomb = format!("{GOOD}a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let items = vec![format!("*a{}", n - 1); 10].join(", ");
        writeln!(bomb, "a{n}: &a{n} [{items}]").unwrap();
    }
    for text in [deep, bomb] {
        assert!(load(&text, &[]).is_err());
    }
}

#[test]
fn the_folder_of_one_kind_and_each_folder_above_it_up_to_the_groups_hold_that_kind() {
    let dir = std::env::temp_dir().join(format!("fedgate-one-kind-{}", std::process::id()));
    let own = dir.join("below/example.com/v1/Gizmo");
    write(&own, "kind.yaml", GOOD);
    let loaded: Vec<Kinds> = own
        .ancestors()
        .take(4)
        .map(|at| Kinds::load_dir(at).unwrap())
        .collect();
    let above = Kinds::load_dir(&dir).unwrap_err().to_string();
    fs::remove_dir_all(&dir).unwrap();
    for kinds in loaded {
        assert_eq!(kinds.federated[0].resource.api_version, "example.com/v1");
    }
    assert!(
        above.contains("below/example.com/v1/kind.yaml:1: there is no such file"),
        "{above}"
    );
}

#[test]
fn an_error_of_reading_has_its_cause_once() {
    let error = Kinds::load_dir(Path::new("nothing/here")).unwrap_err();
    // A command prints the sources of an error, too.
    assert!(std::error::Error::source(&error).is_none());
    assert_eq!(
        error.to_string(),
        "cannot read nothing/here: No such file or directory (os error 2); give a folder of the form \
         <group>/<version>/<Kind>/kind.yaml"
    );
}

#[test]
fn a_text_that_is_no_yaml_gets_a_hint_and_no_list_of_fields() {
    let path = "plural: gizmos\ncompanions:\n  references:\n  - {kind: Secret, path: $.spec.all[*].name}\n";
    let error = refused(path, &[]);
    assert!(error.contains("kind.yaml:4: "), "{error}");
    assert!(
        error.ends_with(
            "; the text is no YAML; between braces {} a path with [ or * must be quoted (docs/kinds.md)"
        ),
        "{error}"
    );
    for text in [path, "- a\n- b\n", "scope: Namespaced\nplural: [a\n"] {
        let error = refused(text, &[]);
        assert!(!error.contains("the file has the fields"), "{error}");
    }
    let error = refused("- a\n- b\n", &[]);
    assert!(
        error.ends_with("; the file is a map of fields (docs/kinds.md)"),
        "{error}"
    );
}
