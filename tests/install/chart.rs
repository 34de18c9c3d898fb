//! The chart as Helm renders it, without a server.

use crate::{
    files, manifests,
    objects::{self, LABELS, Objects, compare, merged, plain},
    root,
    tools::{HELM, helm, run},
};
use fedgate_manifests::Plane;
use serde_json::{Value, json};
use std::{fs, path::Path};

/// The name of the release.
pub(crate) const RELEASE: &str = "fedgate";
pub(crate) const CHART: &str = "charts/fedgate";

/// The objects that Helm renders of these values.
pub(crate) fn rendered(arguments: &[&str]) -> Objects {
    let mut all = vec!["template", RELEASE, CHART, "--namespace", "kube-system"];
    all.extend(arguments);
    objects::read(&helm(&all))
}

fn rendered_file(values: &str) -> Objects {
    rendered(&["--values", &format!("tests/install/values/{values}.yaml")])
}

/// The objects of `manifests/` for a plane of the chart.
pub(crate) fn of_plane(plane: &str) -> Objects {
    let manifests = manifests();
    let part_of = |path: &str, planes: &[Plane]| match plane {
        "hub" => planes.contains(&Plane::Hub) && !path.starts_with("hub/interpreters/"),
        "project" => planes.contains(&Plane::Project),
        "cell" => planes.contains(&Plane::Cell),
        "host" => path == "deploy/gateway.yaml",
        "cell-host" => path == "deploy/cell.yaml",
        "returns-host" => path == "deploy/returns.yaml",
        "provisioner-hub" => path.starts_with("provisioner/hub/"),
        "provisioner-hub-pull" => {
            path.starts_with("provisioner/hub/") || path.starts_with("provisioner/hub-pull/")
        }
        "provisioner-host" => path.starts_with("provisioner/home/"),
        _ => panic!("{plane}"),
    };
    let files = manifests
        .into_iter()
        .filter(|file| part_of(&file.path, file.planes));
    objects::of(files.flat_map(|file| file.objects))
}

#[test]
#[ignore = "verify: Helm judges"]
fn lint_finds_no_fault_with_any_of_the_value_files() {
    for file in files("values") {
        helm(&["lint", "--strict", CHART, "--values", file.to_str().unwrap()]);
    }
}

#[test]
#[ignore = "verify: Helm judges"]
fn wrong_values_are_refused_by_the_path_of_their_field() {
    for file in files("wrong") {
        let text = fs::read_to_string(&file).unwrap();
        let wanted = text
            .lines()
            .next()
            .unwrap()
            .strip_prefix("# refused at: ")
            .unwrap();
        let at = format!("at '{}': ", wanted.trim_end_matches('/'));
        for command in [&["lint", "--strict"][..], &["template", RELEASE]] {
            let mut arguments = command.to_vec();
            arguments.extend([CHART, "--values", file.to_str().unwrap()]);
            let said = run(&HELM, &arguments).expect_err(&text);
            assert!(said.contains(&at), "{}: {said}", file.display());
        }
    }
}

/// Each part of the chart that has a condition gets it as a value, and every part the values of all.
#[test]
#[ignore = "verify: Helm judges"]
fn the_chart_is_a_part_of_another() {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("parent-chart");
    let part = parent.join("charts/fedgate");
    fs::create_dir_all(part.parent().unwrap()).unwrap();
    if fs::symlink_metadata(&part).is_err() {
        std::os::unix::fs::symlink(root().join(CHART), &part).unwrap();
    }
    let dependency = json!({"name": "fedgate", "version": ">=0.0.0-0", "condition": "fedgate.enabled"});
    let chart =
        json!({"apiVersion": "v2", "name": "parent", "version": "1.0.0", "dependencies": [dependency]});
    let values =
        json!({"global": {"imageRegistry": "registry.example.com"}, "fedgate": {"planes": ["host"]}});
    for (file, content) in [("Chart.yaml", chart), ("values.yaml", values)] {
        fs::write(parent.join(file), content.to_string()).unwrap();
    }
    let parent = parent.to_str().unwrap();
    let rendered = |enabled: bool| {
        let set = format!("fedgate.enabled={enabled}");
        objects::read(&helm(&["template", RELEASE, parent, "--set", &set]))
    };
    compare("host", &plain(rendered(true)), &plain(of_plane("host")));
    assert!(rendered(false).is_empty());
}

/// `OpenShift` refuses a Pod that chooses user or group, and numbers over a million are no floating-point numbers.
#[test]
#[ignore = "verify: Helm judges"]
fn the_cluster_may_choose_user_and_group() {
    let security = |group: &str| {
        let set = format!("planes={{host,cell-host,returns-host}},fsGroup={group}");
        let objects = rendered(&["--set", &set]);
        let roles = ["fedgate-gateway", "fedgate-cell", "fedgate-returns"];
        roles.map(|role| {
            let key = format!("Deployment fedgate-system/{role}");
            objects[&key]["spec"]["template"]["spec"]["securityContext"].clone()
        })
    };
    let free = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    let mut chosen = free.clone();
    chosen["fsGroup"] = json!(1_000_680_000);
    assert_eq!(security("0"), [free.clone(), free.clone(), free]);
    assert_eq!(security("1000680000"), [chosen.clone(), chosen.clone(), chosen]);
}

#[test]
#[ignore = "verify: Helm judges"]
fn further_egress_is_allowed_beside_name_servers_and_api_servers() {
    let rule = json!([{"ports": [{"port": 3128}], "to": [{"ipBlock": {"cidr": "fd00::1/128"}}]}]);
    let set = format!("networkPolicy.extraEgress={rule}");
    let objects = rendered(&["--set", "planes={host,cell-host}", "--set-json", &set]);
    for role in ["fedgate-gateway", "fedgate-cell"] {
        let egress = &objects[&format!("NetworkPolicy fedgate-system/{role}")]["spec"]["egress"];
        assert_eq!(egress.as_array().unwrap().len(), 3, "{egress}");
        assert_eq!(egress[2], rule[0]);
    }
}

/// A schema cannot compare them.
#[test]
#[ignore = "verify: Helm judges"]
fn one_port_for_two_addresses_is_refused() {
    for role in ["host", "cell-host", "returns-host", "provisioner-host"] {
        let set = format!("planes={{{role}}},admin.port=8081");
        let said = run(&HELM, &["template", RELEASE, CHART, "--set", &set]).unwrap_err();
        let wanted = "admin.port and admin.probePort are both 8081: give each a port of its own";
        assert!(said.contains(wanted), "{said}");
    }
}

/// As doctor's check `version` does, and with builds of a vendor.
#[test]
#[ignore = "verify: Helm judges"]
fn a_server_that_is_too_old_is_refused() {
    let render = |version: &str| {
        let values = ["--values", "tests/install/values/hub.yaml"];
        let arguments = ["template", RELEASE, CHART, "--kube-version", version];
        run(&HELM, &[&arguments[..], &values].concat())
    };
    let oldest = fedgate_manifests::OLDEST_KUBERNETES;
    for taken in ["0", "0-alpha.1", "9-gke.100"] {
        render(&format!("v1.{oldest}.{taken}")).unwrap();
    }
    // Helm 3 leaves the part after the numbers away.
    let older = format!("v1.{}.99", oldest - 1);
    for (refused, named) in [(older.as_str(), older.as_str()), ("v0.0.0-master", "v0.0.0")] {
        let said = render(refused).unwrap_err();
        assert!(
            said.contains("chart requires kubeVersion") && said.contains(named),
            "{said}"
        );
    }
}

#[test]
#[ignore = "verify: Helm judges"]
fn each_plane_with_defaults_is_what_manifests_has() {
    for plane in [
        "hub",
        "project",
        "cell",
        "host",
        "cell-host",
        "returns-host",
        "provisioner-hub",
        "provisioner-hub-pull",
        "provisioner-host",
    ] {
        compare(plane, &plain(rendered_file(plane)), &plain(of_plane(plane)));
    }
}

#[test]
#[ignore = "verify: Helm judges"]
fn planes_of_one_release_share_what_they_have_in_common() {
    let values = |planes: &str| plain(rendered(&["--set", &format!("planes={{{planes}}}")]));
    for planes in [
        &["cell", "cell-host"][..],
        &["hub", "host"],
        &["project", "cell", "host", "cell-host"],
        &["hub", "provisioner-hub", "provisioner-hub-pull"],
    ] {
        let wanted = merged(planes.iter().map(|plane| plain(of_plane(plane))));
        compare(&planes.join(","), &values(&planes.join(",")), &wanted);
    }
}

#[test]
#[ignore = "verify: Helm judges"]
fn every_object_has_the_labels_and_selectors_use_the_name_alone() {
    for file in files("values") {
        let objects = rendered(&["--values", file.to_str().unwrap()]);
        for (key, object) in &objects {
            let labels = &object["metadata"]["labels"];
            for label in LABELS {
                let value = labels[format!("app.kubernetes.io/{label}")]
                    .as_str()
                    .unwrap_or_default();
                assert!(
                    !value.is_empty(),
                    "{}: {key} has no label {label}",
                    file.display()
                );
            }
            assert_eq!(labels["app.kubernetes.io/instance"], RELEASE);
            let keep = &object["metadata"]["annotations"]["helm.sh/resource-policy"];
            let is_kept = key.starts_with("Namespace ") || key.starts_with("CustomResourceDefinition ");
            assert_eq!(*keep == "keep", is_kept, "{key}");
            if key.starts_with("Deployment ") {
                let name = json!({"app.kubernetes.io/name": object["metadata"]["name"]});
                assert_eq!(object["spec"]["selector"], json!({"matchLabels": name}));
                assert_eq!(object["spec"]["template"]["metadata"]["labels"], name);
            }
        }
    }
}

/// Milo looks at its core for the Namespace of each object that a policy matches, and refuses the object without it.
#[test]
#[ignore = "verify: Helm judges"]
fn milo_gets_no_policy_about_objects_in_namespaces() {
    let policies = |mode: &str| {
        let objects = rendered(&[
            "--set",
            "planes={project}",
            "--set",
            &format!("projects.mode={mode}"),
        ]);
        let names = objects
            .keys()
            .filter_map(|key| key.strip_prefix("ValidatingAdmissionPolicy /"));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        policies("secrets"),
        ["fedgate-cell-claims", "fedgate-network-use"]
    );
    assert!(policies("milo").is_empty());
}

/// Number 57: with any set of planes that has the hub.
#[test]
#[ignore = "verify: Helm judges"]
fn the_hubs_namespace_stays_on_the_hub_from_its_first_version() {
    let label = "namespace.karmada.io/skip-auto-propagation";
    for (planes, wanted) in [
        ("hub", json!("true")),
        ("hub,host", json!("true")),
        ("host", Value::Null),
    ] {
        let objects = rendered(&["--set", &format!("planes={{{planes}}}")]);
        assert_eq!(
            objects["Namespace /fedgate-system"]["metadata"]["labels"][label], wanted,
            "{planes}"
        );
    }
}

fn container<'a>(objects: &'a Objects, role: &str) -> &'a Value {
    &objects[&format!("Deployment fedgate-system/{role}")]["spec"]["template"]["spec"]["containers"][0]
}

fn argument<'a>(container: &'a Value, flag: &str) -> Option<&'a str> {
    let arguments = container["args"].as_array().unwrap();
    let found = arguments
        .iter()
        .find_map(|argument| argument.as_str()?.strip_prefix(flag));
    found.map(|value| value.trim_start_matches('='))
}

/// Number 59.
#[test]
#[ignore = "verify: Helm judges"]
fn a_digest_wins_over_a_tag() {
    let image = |set: &str| {
        let set = format!("planes={{host}},image.repository=registry.example.com/fedgate{set}");
        container(&rendered(&["--set", &set]), "fedgate-gateway")["image"].clone()
    };
    let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(image(""), format!("registry.example.com/fedgate:{version}"));
    assert_eq!(image(",image.tag=9.9.9"), "registry.example.com/fedgate:9.9.9");
    let both = image(&format!(",image.tag=9.9.9,image.digest={digest}"));
    assert_eq!(both, format!("registry.example.com/fedgate@{digest}"));
}

/// Number 59.
#[test]
#[ignore = "verify: Helm judges"]
fn ports_of_values_reach_service_probes_network_policy_and_monitors() {
    for kind in ["ServiceMonitor", "PodMonitor"] {
        let set = format!(
            "planes={{host,cell-host}},admin.port=9090,admin.probePort=9091,networkPolicy.apiServerPorts={{8443}},monitoring.kind={kind}"
        );
        let objects = rendered(&["--set", &set]);
        for role in ["fedgate-gateway", "fedgate-cell"] {
            let container = container(&objects, role);
            assert_eq!(
                container["ports"],
                json!([{"name": "admin", "containerPort": 9090}, {"name": "probe", "containerPort": 9091}])
            );
            assert_eq!(argument(container, "--admin-address"), Some("[::]:9090"));
            assert_eq!(argument(container, "--probe-address"), Some("[::]:9091"));
            for probe in ["livenessProbe", "readinessProbe"] {
                assert_eq!(container[probe]["httpGet"]["port"], "probe", "{role} {probe}");
            }
            let policy = &objects[&format!("NetworkPolicy fedgate-system/{role}")]["spec"];
            assert_eq!(
                policy["ingress"][0]["ports"],
                json!([{"protocol": "TCP", "port": 9090}])
            );
            assert_eq!(
                policy["egress"][1],
                json!({"ports": [{"protocol": "TCP", "port": 8443}]})
            );
        }
        let service = &objects["Service fedgate-system/fedgate-gateway"];
        assert_eq!(
            service["spec"]["ports"],
            json!([{"name": "admin", "port": 9090, "targetPort": "admin"}])
        );
        assert_eq!(
            service["metadata"]["labels"]["app.kubernetes.io/name"],
            "fedgate-gateway"
        );
        let monitor = &objects[&format!("{kind} fedgate-system/fedgate-gateway")]["spec"];
        let endpoints = if kind == "PodMonitor" {
            "podMetricsEndpoints"
        } else {
            "endpoints"
        };
        assert_eq!(monitor[endpoints][0]["port"], "admin");
        assert!(objects.contains_key("PodMonitor fedgate-system/fedgate-cell"));
        assert!(!objects.values().any(|object| object.to_string().contains("8080")));
    }
}

/// Each argument of a rendered Pod is one that the executable knows, with a value that it takes.
#[test]
#[ignore = "verify: Helm judges"]
fn the_executable_takes_the_arguments_of_every_value_file() {
    let fedgate = Path::new(env!("CARGO_BIN_EXE_fedgate"));
    for file in files("values") {
        for (key, object) in rendered(&["--values", file.to_str().unwrap()]) {
            if object["kind"] != "Deployment" {
                continue;
            }
            let container = &object["spec"]["template"]["spec"]["containers"][0];
            let arguments = container["args"].as_array().unwrap().iter();
            let mut arguments: Vec<&str> = arguments.map(|argument| argument.as_str().unwrap()).collect();
            // What is wrong with the others is said before anything is asked of a plane.
            arguments.push("--workers=0");
            let said = run(fedgate, &arguments).unwrap_err();
            assert!(
                said.contains("'--workers <N>': 0 is not in"),
                "{} {key}: {said}",
                file.display()
            );
        }
    }
}

#[test]
#[ignore = "verify: Helm judges"]
fn alerts_that_would_always_fire_are_left_out() {
    let alerts = |set: &str| -> Vec<String> {
        let set = format!("planes={{host}},monitoring.rules.enabled=true{set}");
        let objects = rendered(&["--set", &set]);
        let rules = &objects["PrometheusRule fedgate-system/fedgate"]["spec"]["groups"][0]["rules"];
        let rules = rules.as_array().unwrap().iter();
        rules
            .map(|rule| rule["alert"].as_str().unwrap().to_owned())
            .collect()
    };
    let missing = |set: &str| {
        let found = alerts(set);
        let all = alerts("").into_iter();
        all.filter(|alert| !found.contains(alert)).collect::<Vec<_>>()
    };
    let manifests = manifests();
    let rules = manifests
        .iter()
        .find(|file| file.path == "monitoring/alerts.yaml");
    let rules = rules.unwrap().objects[0]["groups"][0]["rules"].as_array();
    assert_eq!(alerts("").len(), rules.unwrap().len());
    assert_eq!(missing(",gateway.replicas=1"), ["FedgateNoStandby"]);
    assert_eq!(
        missing(",gateway.replicas=1,gateway.flags.leader-elect=false"),
        ["FedgateNoLeader", "FedgateNoStandby"]
    );
    assert_eq!(missing(",cell.replicas=1"), Vec::<String>::new());
}

/// With the address of the runbooks; braces of Prometheus are not Helm's.
#[test]
#[ignore = "verify: Helm judges"]
fn monitoring_is_what_manifests_has() {
    let set = "planes={host,cell-host},monitoring.kind=PodMonitor,monitoring.rules.enabled=true,\
               monitoring.dashboard.enabled=true";
    let mut objects = plain(rendered(&["--set", set]));
    let board = objects
        .remove("ConfigMap fedgate-system/fedgate-dashboard")
        .unwrap();
    let shown: Value = serde_json::from_str(board["data"]["fedgate.json"].as_str().unwrap()).unwrap();
    let manifests = manifests();
    let file = |name: &str| {
        let path = format!("monitoring/{name}");
        manifests
            .iter()
            .find(|file| file.path == path)
            .unwrap()
            .objects
            .clone()
    };
    assert_eq!(shown, file("dashboard.json")[0]);
    let wanted = plain(objects::of(
        [file("podmonitor.yaml"), file("prometheusrule.yaml")].concat(),
    ));
    objects.retain(|key, _| wanted.contains_key(key));
    compare("monitoring", &objects, &wanted);
}

/// The gateway writes the interpreters itself, unless it is told otherwise.
#[test]
#[ignore = "verify: Helm judges"]
fn interpreters_are_installed_where_the_gateway_does_not_write_them() {
    let set = "planes={hub},gateway.flags.manage-interpreters=false";
    let objects = plain(rendered(&["--set", set]));
    let manifests = manifests();
    let is_interpreter = |path: &str| path.starts_with("hub/interpreters/");
    let wanted = manifests.into_iter().filter(|file| is_interpreter(&file.path));
    let wanted = objects::of(wanted.flat_map(|file| file.objects));
    assert_eq!(wanted.len(), 1);
    for (key, object) in wanted {
        assert_eq!(objects[&key], object);
    }
}
