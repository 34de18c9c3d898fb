//! The committed files under manifests/ are what the generator makes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test says where")]

#[path = "manifests/chart.rs"]
mod chart;
#[path = "manifests/rights.rs"]
mod rights;
#[path = "manifests/sources.rs"]
mod sources;

use fedgate::commands::chart_flags;
use fedgate_kinds::{FederatedKind, Kinds};
use fedgate_manifests::{KindManifests, Manifest, Plane};
use serde_json::{Value, json};
use std::{path::Path, process::Command};

fn kinds() -> Vec<KindManifests> {
    let kinds = FederatedKind::builtin().unwrap();
    kinds
        .iter()
        .map(|kind| KindManifests::of(kind, Some(kind.interpreter_object())))
        .collect()
}

#[test]
fn committed_manifests_are_those_that_are_generated() {
    let monitoring = fedgate_manifests::monitoring(fedgate_manifests::RUNBOOKS).unwrap();
    let manifests = fedgate_manifests::folder(&kinds(), &monitoring).unwrap();
    let chart = fedgate_manifests::chart(&manifests, &chart_flags()).unwrap();
    for (folder, files) in [("manifests", manifests), ("charts/fedgate", chart)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let differing = fedgate_manifests::compare(&folder, &files).unwrap();
        assert!(
            differing.is_empty(),
            "run `make manifests`; in {} these differ: {differing:?}",
            folder.display()
        );
    }
}

#[test]
fn what_is_written_reads_back_as_the_same_objects() {
    for file in fedgate_manifests::all(&kinds()).unwrap() {
        let read: Vec<Value> = serde_saphyr::from_multiple(&file.text().unwrap()).unwrap();
        assert_eq!(read, file.objects, "{}", file.path);
    }
}

fn rules(plane: Plane) -> Vec<Value> {
    let objects = fedgate_manifests::objects(plane, &kinds()).unwrap();
    let gateway = objects.into_iter().filter(|o| {
        o["kind"].as_str().is_some_and(|k| k.ends_with("Role"))
            && o["metadata"]["name"]
                .as_str()
                .is_some_and(|n| n.starts_with("fedgate-gateway"))
    });
    gateway
        .flat_map(|role| role["rules"].as_array().unwrap().clone())
        .collect()
}

/// The verbs that the gateway has on a resource.
fn verbs(plane: Plane, group: &str, resource: &str) -> String {
    let mut verbs: Vec<String> = rules(plane)
        .iter()
        .filter(|r| {
            r["apiGroups"][0] == group && r["resources"].as_array().unwrap().iter().any(|x| x == resource)
        })
        .flat_map(|r| serde_json::from_value::<Vec<String>>(r["verbs"].clone()).unwrap())
        .collect();
    verbs.sort();
    verbs.join(" ")
}

#[test]
fn the_gateway_has_the_rights_of_the_contract_and_no_others() {
    const ALL: &str = "create delete get list patch watch";
    const READ: &str = "get list watch";
    const WATCH: &str = "list watch";
    let ours = "compute.datumapis.com";
    let project = |group: &str, resource: &str| verbs(Plane::Project, group, resource);
    let hub = |group: &str, resource: &str| verbs(Plane::Hub, group, resource);
    assert_eq!(project("", "namespaces"), READ);
    assert_eq!(hub("", "namespaces"), ALL);
    for resource in ["configmaps", "secrets"] {
        assert_eq!(project("", resource), READ);
        assert_eq!(hub("", resource), ALL);
    }
    assert_eq!(project("networking.datumapis.com", "networks"), WATCH);
    for kind in ["locations", "locationbindings"] {
        assert_eq!(project("networking.datumapis.com", kind), WATCH);
    }
    assert_eq!(project("locations.miloapis.com", "locations"), WATCH);
    assert_eq!(project("services.miloapis.com", "serviceavailabilities"), WATCH);
    assert_eq!(project(ours, "workloads"), "get list patch watch");
    assert_eq!(project(ours, "workloaddeployments"), ALL);
    assert_eq!(project(ours, "instances"), ALL);
    for resource in ["workloaddeployments", "instances"] {
        assert_eq!(project(ours, &format!("{resource}/status")), "patch");
        assert_eq!(hub(ours, &format!("{resource}/status")), "");
    }
    assert_eq!(project(ours, "workloads/status"), "patch");
    assert_eq!(project("events.k8s.io", "events"), "create patch");

    assert_eq!(hub("policy.karmada.io", "clusterpropagationpolicies"), ALL);
    assert_eq!(hub("policy.karmada.io", "propagationpolicies"), ALL);
    assert_eq!(
        hub("config.karmada.io", "resourceinterpretercustomizations"),
        "create get list patch watch"
    );
    assert_eq!(hub(ours, "workloaddeployments"), ALL);
    assert_eq!(hub(ours, "instances"), READ);
    assert_eq!(
        hub("work.karmada.io", "resourcebindings"),
        "delete get list patch watch"
    );
    assert_eq!(hub("cluster.karmada.io", "clusters"), WATCH);
    assert_eq!(
        hub("coordination.k8s.io", "leases"),
        "create get list update watch"
    );
    assert_eq!(hub("events.k8s.io", "events"), "");

    for rule in rules(Plane::Project).iter().chain(&rules(Plane::Hub)) {
        assert!(!rule.to_string().contains('*'), "no wildcard: {rule}");
    }
}

/// Operators reach the Pods with the token of the administrative address, and no other Secret.
#[test]
fn an_operator_finds_pods_forwards_to_them_and_reads_one_secret() {
    let hosts = fedgate_manifests::all(&kinds()).unwrap();
    let hosts: Vec<_> = hosts.iter().filter(|f| f.planes == [Plane::Host]).collect();
    assert_eq!(hosts.len(), 3, "gateway, cell and returns");
    for file in hosts {
        let is_role = |o: &&Value| o["kind"] == "Role" && o["metadata"]["name"] == "fedgate-operator";
        let role = file.objects.iter().find(is_role).unwrap();
        assert_eq!(role["metadata"]["namespace"], "fedgate-system");
        assert_eq!(
            role["rules"],
            json!([
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]},
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["fedgate-admin"], "verbs": ["get"]},
            ])
        );
    }
}

#[test]
fn tokens_are_reviewed_only_by_a_role_of_its_own_and_the_viewer_may_get_each_resource() {
    let files = fedgate_manifests::all(&kinds()).unwrap();
    let file = |path: &str| files.iter().find(|file| file.path == path).unwrap();
    let reviewer = file("hub/admin-auth/reviewer.yaml");
    assert!(reviewer.planes.is_empty(), "it is applied only if it is wanted");
    for (group, resource) in [
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ] {
        assert_eq!(verbs(Plane::Hub, group, resource), "");
        let rules = reviewer.objects[0]["rules"].as_array().unwrap();
        let rule = rules
            .iter()
            .find(|rule| rule["resources"] == json!([resource]))
            .unwrap();
        assert_eq!(
            (&rule["apiGroups"], &rule["verbs"]),
            (&json!([group]), &json!(["create"]))
        );
    }
    let viewer = &file("hub/operations-viewer.yaml").objects[0];
    let mut wanted: Vec<_> = fedgate_admin::api::Route::all()
        .map(fedgate_admin::api::Route::resource)
        .collect();
    wanted.dedup();
    wanted.push("metrics");
    assert_eq!(viewer["rules"][0]["resources"], json!(wanted));
    assert_eq!(viewer["rules"][0]["verbs"], json!(["get"]));
}

#[test]
fn a_kind_without_rust_gets_its_roles_from_its_profile() {
    let mut kind = FederatedKind::builtin().unwrap().remove(0);
    kind.resource.group = "example.com".into();
    kind.resource.plural = "widgets".into();
    (kind.companions, kind.write_back) = (None, None);
    let kind = KindManifests::of(&kind, None);
    assert_eq!(rules_of_kind(Plane::Project, &kind).len(), 2);
    assert!(rules_of_kind(Plane::Cell, &kind).is_empty());
}

/// The rules of the gateway's role for a kind on a plane.
fn rules_of_kind(plane: Plane, kind: &KindManifests) -> Vec<Value> {
    let name = format!("fedgate-gateway-{}.{}", kind.resource.plural, kind.resource.group);
    let objects = fedgate_manifests::objects(plane, std::slice::from_ref(kind)).unwrap();
    let is_of_kind = |object: &Value| object["kind"] == "ClusterRole" && object["metadata"]["name"] == name;
    let roles = objects.into_iter().filter(is_of_kind);
    roles
        .flat_map(|role| role["rules"].as_array().unwrap().clone())
        .collect()
}

/// `ConfigMap` and Secret alone are in every role.
#[test]
fn companions_of_the_core_group_get_rights_like_others() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kinds");
    let mut kinds = Kinds::load_dir(&folder).unwrap().federated;
    let references = kinds.iter_mut().filter_map(|kind| kind.companions.as_mut());
    let charter = references
        .flat_map(|section| &mut section.references)
        .find(|reference| reference.resource.kind == "Charter")
        .unwrap();
    charter.resource.group = String::new();
    charter.resource.plural = "serviceaccounts".to_owned();
    charter.resource.kind = "ServiceAccount".to_owned();
    let named = ("", "serviceaccounts");
    let vault = kinds.iter().find(|kind| kind.resource.kind == "Vault").unwrap();
    let companions = KindManifests::of(vault, None);
    let companions = companions.companions();
    assert!(companions.contains(&named), "{companions:?}");
    assert!(!companions.iter().any(|(_, plural)| *plural == "secrets"));
}

#[test]
fn the_gateway_runs_under_the_restricted_profile() {
    let files = fedgate_manifests::all(&kinds()).unwrap();
    let deploy: &Manifest = files.iter().find(|f| f.planes == [Plane::Host]).unwrap();
    let pod = &deploy.objects.iter().find(|o| o["kind"] == "Deployment").unwrap()["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0]["securityContext"];
    assert_eq!(container["allowPrivilegeEscalation"], false);
    assert_eq!(container["readOnlyRootFilesystem"], true);
    assert_eq!(container["capabilities"]["drop"][0], "ALL");
}

/// S16: what tells of tenants is behind a token, from a Secret that the Pod mounts.
#[test]
fn the_gateway_shows_tenants_only_to_who_has_the_token() {
    let files = fedgate_manifests::all(&kinds()).unwrap();
    let deploy = files.iter().find(|f| f.planes == [Plane::Host]).unwrap();
    let pod = &deploy.objects.iter().find(|o| o["kind"] == "Deployment").unwrap()["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let arguments: Vec<&str> = container["args"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let file = arguments
        .iter()
        .find_map(|a| a.strip_prefix("--admin-token-file="))
        .unwrap();
    let named = |list: &Value, key: &str, value: &str| -> Value {
        let found = list.as_array().unwrap().iter().find(|one| one[key] == value);
        found
            .unwrap_or_else(|| panic!("no {key} {value} in {list}"))
            .clone()
    };
    let mount = named(
        &container["volumeMounts"],
        "mountPath",
        file.strip_suffix("/token").unwrap(),
    );
    let volume = named(&pod["volumes"], "name", mount["name"].as_str().unwrap());
    let secret = volume["secret"]["secretName"].as_str().unwrap();
    let install = include_str!("../docs/operations/install.md");
    assert!(
        install.contains(&format!("create secret generic {secret} --from-literal=token=")),
        "docs/operations/install.md says how Secret {secret} is made"
    );
    for probe in ["livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        assert!(
            ["/livez", "/readyz"].contains(&path),
            "{probe} asks {path}, which needs the token"
        );
    }
}

/// S16: the probes have a port of their own, to which no policy admits anybody; the other port is for named peers.
#[test]
fn policies_admit_scrapers_and_operators_alone_and_nobody_to_the_probes() {
    let files = fedgate_manifests::all(&kinds()).unwrap();
    let deployed = files.iter().filter(|file| file.path.starts_with("deploy/"));
    let mut policies = 0;
    for object in deployed.flat_map(|file| &file.objects) {
        if object["kind"] == "NetworkPolicy" {
            policies += 1;
            let [rule] = object["spec"]["ingress"].as_array().unwrap().as_slice() else {
                panic!("{object}");
            };
            assert_eq!(rule["ports"], json!([{"protocol": "TCP", "port": 8080}]));
            // A policy concerns the port of the name server's Pod: 5353 on OpenShift.
            for (port, protocol) in [(53, "UDP"), (53, "TCP"), (5353, "UDP"), (5353, "TCP")] {
                let dns = json!({"port": port, "protocol": protocol});
                let egress = object["spec"]["egress"][0]["ports"].as_array().unwrap();
                assert!(egress.contains(&dns), "{dns}");
            }
            let peers = rule["from"].as_array().unwrap();
            assert!(!peers.is_empty(), "an empty list admits everybody");
            for peer in peers {
                let namespaces = &peer["namespaceSelector"];
                assert!(
                    namespaces["matchLabels"].is_object() || namespaces["matchExpressions"].is_array(),
                    "{peer} admits Pods of any Namespace"
                );
            }
        }
        if object["kind"] == "Deployment" {
            let container = &object["spec"]["template"]["spec"]["containers"][0];
            for probe in ["livenessProbe", "readinessProbe"] {
                assert_eq!(container[probe]["httpGet"]["port"], "probe");
            }
            let ports = json!([
                {"name": "admin", "containerPort": 8080}, {"name": "probe", "containerPort": 8081},
            ]);
            assert_eq!(container["ports"], ports);
            let arguments = container["args"].as_array().unwrap();
            for address in ["--probe-address=[::]:8081", "--admin-address=[::]:8080"] {
                assert!(arguments.contains(&json!(address)), "{address}");
            }
        }
    }
    assert_eq!(policies, 3);
}

/// What the executable prints for the built-in kinds and those of a folder.
#[test]
fn kinds_of_a_folder_get_roles_and_interpreters_too() {
    let kinds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kinds");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("manifests-of-more-kinds");
    // The folder of an earlier run may have files of names that are gone.
    if dir.exists() {
        std::fs::remove_dir_all(&dir).unwrap();
    }
    let fedgate = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate"));
        command.arg("manifests").args(arguments).arg(&dir);
        command.output().unwrap()
    };
    let written = fedgate(&["--interpreters", kinds, "--write"]);
    assert!(
        written.status.success(),
        "{}",
        String::from_utf8_lossy(&written.stderr)
    );
    let objects = |path: &str| -> Vec<Value> {
        serde_saphyr::from_multiple(&std::fs::read_to_string(dir.join(path)).unwrap()).unwrap()
    };
    for (path, verbs) in [
        (
            "project/role-of-gateway.yaml",
            json!(["get", "list", "watch", "patch"]),
        ),
        (
            "hub/role-of-gateway.yaml",
            json!(["get", "list", "watch", "create", "patch", "delete"]),
        ),
    ] {
        let objects = objects(path);
        let named = |kind: &str, name: &str| {
            let found = objects
                .iter()
                .find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
            found.unwrap_or_else(|| panic!("{path} has no {kind} {name}"))
        };
        let role = "fedgate-gateway-gadgets.example.fedgate.dev";
        assert_eq!(
            named("ClusterRole", role)["rules"][0],
            json!({"apiGroups": ["example.fedgate.dev"], "resources": ["gadgets"], "verbs": verbs}),
            "{path}"
        );
        assert_eq!(named("ClusterRoleBinding", role)["roleRef"]["name"], role);
        named(
            "ClusterRole",
            "fedgate-gateway-workloaddeployments.compute.datumapis.com",
        );
    }
    let interpreter = &objects("hub/interpreters/gadget.yaml")[0];
    assert_eq!(interpreter["spec"]["target"]["kind"], "Gadget");

    assert!(fedgate(&["--interpreters", kinds, "--check"]).status.success());
    let without = fedgate(&["--check"]);
    assert!(
        !without.status.success(),
        "the built-in kinds alone are another set"
    );
    assert!(String::from_utf8_lossy(&without.stderr).contains("hub/interpreters/gadget.yaml"));
}

/// The manifests of kinds of the executable, each named, and of tests/kinds.
fn further(names: &[&str]) -> Vec<KindManifests> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kinds");
    KindManifests::all(&Kinds::load(&names, Some(&folder)).unwrap(), true)
}

#[test]
fn only_kinds_that_ask_for_them_have_policies_of_their_own() {
    let further = further(&[
        "clusters.azimuth.stackhpc.com",
        "clustertemplates.azimuth.stackhpc.com",
        "clusters.postgresql.cnpg.io",
    ]);
    let files = fedgate_manifests::all(&further).unwrap();
    let of_kinds = files
        .iter()
        .filter(|file| file.path.starts_with("project/kinds/"));
    let mut found = Vec::new();
    for file in of_kinds {
        assert_eq!(file.planes, [Plane::Project], "{}", file.path);
        for pair in file.objects.chunks(2) {
            assert_eq!(pair[1]["spec"]["policyName"], pair[0]["metadata"]["name"]);
            assert_eq!(pair[1]["spec"]["validationActions"], json!(["Deny"]));
            found.push(pair[0]["metadata"]["name"].as_str().unwrap());
        }
    }
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "fedgate-abandon-clusters.azimuth.stackhpc.com",
            "fedgate-abandon-clusters.postgresql.cnpg.io",
            "fedgate-abandon-vaults.example.fedgate.dev",
            "fedgate-abandon-virtualmachines.kubevirt.io",
            "fedgate-placement-beacons.example.fedgate.dev",
            "fedgate-placement-clusters.azimuth.stackhpc.com",
            "fedgate-placement-clusters.postgresql.cnpg.io",
            "fedgate-placement-vaults.example.fedgate.dev",
            "fedgate-placement-virtualmachines.kubevirt.io",
            "fedgate-platform-clustertemplates.azimuth.stackhpc.com",
            "fedgate-platform-flavors.example.fedgate.dev",
        ]
    );
    let plain = fedgate_manifests::all(&kinds()).unwrap();
    assert!(plain.iter().all(|file| !file.path.starts_with("project/kinds/")));
}

#[test]
fn a_kind_of_the_platform_is_read_on_the_hub_and_kept_in_projects() {
    let kinds = further(&[]);
    let flavor = kinds
        .iter()
        .find(|kind| kind.resource.plural == "flavors")
        .unwrap();
    let verbs = |plane| {
        let rules = rules_of_kind(plane, flavor);
        assert_eq!(rules.len(), 1);
        rules[0]["verbs"].clone()
    };
    assert_eq!(verbs(Plane::Hub), json!(["list", "watch"]));
    assert_eq!(
        verbs(Plane::Project),
        json!(["get", "list", "watch", "create", "patch", "delete"])
    );
    let files = fedgate_manifests::all(&kinds).unwrap();
    assert!(
        files
            .iter()
            .all(|file| file.path != "hub/interpreters/flavor.yaml")
    );
}

#[test]
fn a_placement_is_fixed_by_its_path_in_cel() {
    let kinds = further(&["clusters.postgresql.cnpg.io"]);
    let files = fedgate_manifests::all(&kinds).unwrap();
    let spec = |file: &str| {
        let path = format!("project/kinds/{file}.yaml");
        let found = files.iter().find(|file| file.path == path).unwrap();
        let of_placement = |object: &&Value| {
            let name = object["metadata"]["name"].as_str().unwrap();
            name.starts_with("fedgate-placement-")
        };
        found.objects.iter().find(of_placement).unwrap()["spec"].clone()
    };
    // The words say why: an object of every member of a city does not live at one.
    for (file, why) in [
        ("beacons.example.fedgate.dev", "the object lives there"),
        (
            "vaults.example.fedgate.dev",
            "the object lives at one member there",
        ),
    ] {
        let text = spec(file)["validations"].to_string();
        assert_eq!(text.matches(why).count(), 2, "{text}");
    }
    let beacons = spec("beacons.example.fedgate.dev");
    assert_eq!(beacons["variables"][0]["expression"], "oldObject.?spec.?city");
    let rule = "!variables.was.hasValue() || variables.was.value() == '' || variables.was == variables.is";
    assert_eq!(beacons["validations"][0]["expression"], rule);
    let vaults = spec("vaults.example.fedgate.dev");
    assert_eq!(
        vaults["variables"],
        json!([
            {"name": "was", "expression": "oldObject.?metadata.?labels[?'topology.datum.net/city-code']"},
            {"name": "is", "expression": "object.?metadata.?labels[?'topology.datum.net/city-code']"},
        ])
    );
    assert_eq!(
        vaults["matchConstraints"]["resourceRules"],
        json!([{"apiGroups": ["example.fedgate.dev"], "apiVersions": ["v1"], "operations": ["UPDATE"],
            "resources": ["vaults"]}])
    );
}

/// Kinds of the executable are added by their names.
#[test]
fn named_kinds_are_added_and_an_unknown_name_is_refused_with_those_there_are() {
    let fedgate = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate"));
        command.arg("manifests").args(arguments).output().unwrap()
    };
    let printed = |arguments: &[&str]| {
        let output = fedgate(arguments);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = printed(&[]);
    assert!(!plain.contains("azimuth"));
    assert_eq!(
        printed(&["--builtin-kinds", "workloaddeployments.compute.datumapis.com"]),
        plain
    );
    let two = "clusters.azimuth.stackhpc.com,clustertemplates.azimuth.stackhpc.com";
    let more = printed(&["--builtin-kinds", two]);
    for role in two.split(',') {
        assert!(more.contains(&format!("fedgate-gateway-{role}")), "{role}");
    }
    let refused = fedgate(&["--builtin-kinds", "clusters.azimuth"]);
    assert!(!refused.status.success());
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    for word in [
        "clusters.azimuth\"",
        "clustertemplates.azimuth.stackhpc.com",
        "clusters.postgresql.cnpg.io",
        "workloaddeployments.compute.datumapis.com",
    ] {
        assert!(words.contains(word), "{word}: {words}");
    }
}

/// The line of a text file that begins with these words.
fn line<'a>(text: &'a str, begins: &str) -> &'a str {
    text.lines()
        .find_map(|line| line.strip_prefix(begins))
        .unwrap_or_else(|| panic!("no line begins with {begins:?}"))
        .trim()
}

#[test]
fn the_image_is_built_by_the_pinned_toolchain_for_the_deployments_user() {
    let container = include_str!("../Containerfile");
    let pinned = line(include_str!("../rust-toolchain.toml"), "channel =").trim_matches('"');
    assert_eq!(line(container, "ENV RUSTUP_TOOLCHAIN="), pinned);
    assert!(line(container, "FROM docker.io/library/rust:").starts_with(&format!("{pinned}-")));
    let files = fedgate_manifests::all(&kinds()).unwrap();
    let deploy = files.iter().find(|f| f.planes == [Plane::Host]).unwrap();
    let pod = &deploy.objects.iter().find(|o| o["kind"] == "Deployment").unwrap()["spec"]["template"]["spec"];
    // The image alone says its user, whose group reads the mounted Secrets.
    let security = &pod["securityContext"];
    let user = line(container, "USER ");
    assert_eq!(user, format!("{0}:{0}", security["fsGroup"]));
    for fixed in ["runAsUser", "runAsGroup"] {
        assert!(security[fixed].is_null(), "{fixed}");
    }
    assert_eq!(
        pod["containers"][0]["image"],
        concat!("fedgate:", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn the_order_in_which_kinds_are_loaded_changes_no_policy_of_returns() {
    let kinds = further(&["clusters.azimuth.stackhpc.com", "clusters.postgresql.cnpg.io"]);
    let of_returns = |kinds: &[KindManifests]| {
        let files = fedgate_manifests::all(kinds).unwrap();
        let found = files
            .into_iter()
            .find(|file| file.path == "hub/cell-returns.yaml");
        found.unwrap().objects
    };
    let reversed: Vec<KindManifests> = kinds.iter().rev().cloned().collect();
    assert_eq!(of_returns(&kinds), of_returns(&reversed));
}
