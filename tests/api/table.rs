//! Good and bad Workloads: one table for `api::validate` and for a real API server.

use serde_json::{Value, json};

/// A change of a valid Workload, and the rule it breaks, if any.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) spec: Value,
    /// `None` if the result is still valid; `schema` for a bound, a type or a missing field.
    pub(crate) breaks: Option<&'static str>,
}

fn containers() -> Value {
    json!({
        "template": {
            "metadata": {"labels": {"app": "storefront"}},
            "spec": {
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "sandbox": {"containers": [{
                        "name": "web",
                        "image": "shop/web:1.4.2",
                        "command": ["/bin/web"],
                        "args": ["--listen", ":8080"],
                        "env": [
                            {"name": "LOG_LEVEL", "value": "info"},
                            {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "url"}}},
                        ],
                        "envFrom": [{"configMapRef": {"name": "web-env"}}],
                        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
                        "volumeAttachments": [{"name": "settings", "mountPath": "/etc/web"}],
                    }]},
                },
                "networkInterfaces": [{
                    "network": {"name": "default"},
                    "networkPolicy": {"ingress": [{
                        "ports": [{"protocol": "TCP", "port": 8080}],
                        "from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.9.0.0/16"]}}],
                    }]},
                }],
                "volumes": [{"name": "settings", "configMap": {"name": "web-settings"}}],
            },
        },
        "placements": [
            {"name": "us", "cityCodes": ["DFW", "IAD"], "scaleSettings": {"minReplicas": 2}},
            {"name": "eu", "cityCodes": ["LHR"], "scaleSettings": {
                "minReplicas": 1, "instanceManagementPolicy": "Parallel", "maxReplicas": 6,
                "metrics": [{"resource": {"name": "cpu", "target": {"averageUtilization": 70}}}],
            }},
        ],
    })
}

fn machine() -> Value {
    json!({
        "template": {
            "metadata": {"annotations": {"compute.datumapis.com/ssh-keys": "ops:ssh-ed25519 AAAA ops@example"}},
            "spec": {
                "runtime": {
                    "resources": {"instanceType": "datumcloud/d1-standard-2"},
                    "virtualMachine": {
                        "volumeAttachments": [{"name": "boot"}, {"name": "data", "mountPath": "/data"}],
                        "ports": [{"name": "ssh", "port": 22}],
                    },
                },
                "networkInterfaces": [{"network": {"name": "default"}}],
                "volumes": [
                    {"name": "boot", "disk": {"template": {"spec": {
                        "populator": {"image": {"name": "datumcloud/ubuntu-2204-lts"}}}}}},
                    {"name": "data", "disk": {"template": {"spec": {
                        "resources": {"requests": {"storage": "20Gi"}},
                        "populator": {"filesystem": {"type": "ext4"}}}}}},
                ],
            },
        },
        "placements": [{"name": "edge", "cityCodes": ["LHR"], "scaleSettings": {"minReplicas": 1}}],
    })
}

/// Puts `value` at a JSON pointer; `-` at the end appends to a list, a null removes.
fn put(mut spec: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = &key.replace("~1", "/");
    match spec
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("{parent} is not there"))
    {
        Value::Object(map) if value.is_null() => drop(map.remove(key).unwrap_or_else(|| panic!("{pointer}"))),
        Value::Object(map) => drop(map.insert(key.to_owned(), value)),
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        _ => panic!("{pointer} leads nowhere"),
    }
    spec
}

const SPEC: &str = "/template/spec";
const WEB: &str = "/template/spec/runtime/sandbox/containers/0";
const VM: &str = "/template/spec/runtime/virtualMachine";
const EU: &str = "/placements/1/scaleSettings";
const TARGET: &str = "/placements/1/scaleSettings/metrics/0/resource/target";
const BOOT: &str = "/template/spec/volumes/0/disk/template/spec";
const DATA: &str = "/template/spec/volumes/1/disk/template/spec";
const INGRESS: &str = "/template/spec/networkInterfaces/0/networkPolicy/ingress/0";

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    let mut table = Table(vec![
        Case {
            name: "the containers of the contract",
            spec: containers(),
            breaks: None,
        },
        Case {
            name: "the machine of the contract",
            spec: machine(),
            breaks: None,
        },
    ]);
    good(&mut table);
    rules_of_placements(&mut table);
    rules_of_containers(&mut table);
    rules_of_machines(&mut table);
    bounds(&mut table);
    structure(&mut table);
    table.0
}

struct Table(Vec<Case>);

impl Table {
    fn web(&mut self, breaks: Option<&'static str>, name: &'static str, at: &str, value: Value) {
        self.0.push(Case {
            name,
            spec: put(containers(), at, value),
            breaks,
        });
    }

    fn vm(&mut self, breaks: Option<&'static str>, name: &'static str, at: &str, value: Value) {
        self.0.push(Case {
            name,
            spec: put(machine(), at, value),
            breaks,
        });
    }
}

fn good(t: &mut Table) {
    t.web(
        None,
        "scale at its end",
        "/placements/0/scaleSettings/minReplicas",
        json!(1000),
    );
    t.web(
        None,
        "a city code with every allowed character",
        "/placements/0/cityCodes/0",
        json!("a-B_c.9"),
    );
    t.web(
        None,
        "cities that differ by case",
        "/placements/0/cityCodes",
        json!(["DFW", "dfw"]),
    );
    t.web(None, "an integer quantity", TARGET, json!({"value": 3}));
    t.web(None, "a text quantity", TARGET, json!({"averageValue": "500m"}));
    t.web(
        None,
        "a range of ports",
        &format!("{INGRESS}/ports/0"),
        json!({"port": 80, "endPort": 80}),
    );
    t.web(
        None,
        "a named port",
        &format!("{INGRESS}/ports/0"),
        json!({"port": "http"}),
    );
    t.web(
        None,
        "an IPv6 range",
        &format!("{INGRESS}/from/0/ipBlock/cidr"),
        json!("2001:db8::/32"),
    );
    t.web(None, "an empty rule", INGRESS, json!({}));
    t.web(
        None,
        "an empty value beside valueFrom",
        &format!("{WEB}/env/1/value"),
        json!(""),
    );
    t.web(
        None,
        "an empty resources object",
        &format!("{WEB}/resources"),
        json!({}),
    );
    t.web(
        None,
        "an odd label key",
        "/template/metadata/labels/example.com~1A_b.c",
        json!("x"),
    );
    t.web(
        None,
        "modes",
        &format!("{SPEC}/volumes/0/configMap/defaultMode"),
        json!(0o777),
    );
    let dots = json!([{"key": "a", "path": "..data/.x/a..b/."}]);
    t.web(
        None,
        "a relative path",
        &format!("{SPEC}/volumes/0/configMap/items"),
        dots,
    );
    t.vm(
        None,
        "the smallest disk",
        &format!("{DATA}/resources/requests/storage"),
        json!("10Gi"),
    );
    t.vm(
        None,
        "the largest disk",
        &format!("{DATA}/resources/requests/storage"),
        json!("102400Mi"),
    );
    t.vm(
        None,
        "a raw disk without file system",
        DATA,
        json!({"resources": {"requests": {"storage": "10Gi"}}}),
    );
    let last = t.0.len() - 1;
    let spec = put(
        t.0[last].spec.clone(),
        &format!("{VM}/volumeAttachments/1/mountPath"),
        Value::Null,
    );
    t.0[last].spec = spec;
}

fn rules_of_placements(t: &mut Table) {
    t.web(
        Some("V1"),
        "two placements of a name",
        "/placements/1/name",
        json!("us"),
    );
    t.web(
        Some("V2"),
        "maxReplicas without metrics",
        &format!("{EU}/metrics"),
        Value::Null,
    );
    t.web(
        Some("V2"),
        "maxReplicas with no metric",
        &format!("{EU}/metrics"),
        json!([]),
    );
    t.web(
        Some("V3"),
        "maxReplicas below minReplicas",
        &format!("{EU}/minReplicas"),
        json!(7),
    );
    t.web(Some("V4"), "two targets", &format!("{TARGET}/value"), json!(5));
    t.web(Some("V4"), "no target", TARGET, json!({}));
    t.web(Some("V5"), "a target of nothing", TARGET, json!({"value": 0}));
    t.web(
        Some("V5"),
        "a negative target",
        TARGET,
        json!({"averageValue": "-1m"}),
    );
}

fn rules_of_containers(t: &mut Table) {
    let runtime = format!("{SPEC}/runtime");
    t.web(
        Some("V6"),
        "no runtime",
        &format!("{runtime}/sandbox"),
        Value::Null,
    );
    t.web(
        Some("V6"),
        "two runtimes",
        &format!("{runtime}/virtualMachine"),
        json!({"volumeAttachments": [{"name": "settings"}]}),
    );
    t.web(
        Some("V7"),
        "requests",
        &format!("{runtime}/resources/requests"),
        json!({"cpu": 1}),
    );
    t.web(
        Some("V7"),
        "empty requests",
        &format!("{runtime}/resources/requests"),
        json!({}),
    );
    t.web(
        Some("V8"),
        "limits",
        &format!("{WEB}/resources"),
        json!({"limits": {"cpu": "1"}}),
    );
    t.web(
        Some("V8"),
        "empty limits",
        &format!("{WEB}/resources"),
        json!({"limits": {}}),
    );
    t.web(
        Some("V9"),
        "a port without a letter",
        &format!("{WEB}/ports/0/name"),
        json!("80"),
    );
    t.web(
        Some("V9"),
        "a port with two dashes",
        &format!("{WEB}/ports/0/name"),
        json!("a--b"),
    );
    t.web(
        Some("V10"),
        "value and valueFrom",
        &format!("{WEB}/env/1/value"),
        json!("x"),
    );
    t.web(
        Some("V11"),
        "valueFrom nowhere",
        &format!("{WEB}/env/1/valueFrom"),
        json!({}),
    );
    let two =
        json!({"secretKeyRef": {"name": "db", "key": "url"}, "fieldRef": {"fieldPath": "metadata.name"}});
    t.web(
        Some("V11"),
        "valueFrom two places",
        &format!("{WEB}/env/1/valueFrom"),
        two,
    );
    t.web(
        Some("V12"),
        "envFrom nowhere",
        &format!("{WEB}/envFrom/0"),
        json!({"prefix": "A"}),
    );
    let both = json!({"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}});
    t.web(
        Some("V12"),
        "envFrom two places",
        &format!("{WEB}/envFrom/0"),
        both,
    );
    let twice = json!({"name": "settings", "mountPath": "/etc/web"});
    t.web(
        Some("V13"),
        "a mount path twice",
        &format!("{WEB}/volumeAttachments/-"),
        twice,
    );
    t.web(
        Some("V14"),
        "a volume of nothing",
        &format!("{SPEC}/volumes/0"),
        json!({"name": "settings"}),
    );
    let both = json!({"name": "settings", "configMap": {"name": "a"}, "secret": {"secretName": "a"}});
    t.web(
        Some("V14"),
        "a volume of two things",
        &format!("{SPEC}/volumes/0"),
        both,
    );
    t.web(
        Some("V19"),
        "a location",
        &format!("{SPEC}/location"),
        json!({"name": "here"}),
    );
    t.web(
        Some("V19"),
        "a controller",
        &format!("{SPEC}/controller"),
        json!({"templateHash": "v1-0"}),
    );
    t.web(
        Some("V20"),
        "an attachment of nothing",
        &format!("{WEB}/volumeAttachments/-"),
        json!({"name": "other"}),
    );
    let lonely = json!({"name": "other", "secret": {"secretName": "a"}});
    t.web(
        Some("V21"),
        "a volume that nobody attaches",
        &format!("{SPEC}/volumes/-"),
        lonely,
    );
    let bare = json!({"name": "settings", "disk": {"template": {"spec": {
        "resources": {"requests": {"storage": "10Gi"}}}}}});
    t.web(
        Some("V22"),
        "an empty disk mounted in a container",
        &format!("{SPEC}/volumes/0"),
        bare,
    );
    t.web(
        Some("V25"),
        "a range without a start",
        &format!("{INGRESS}/ports/0"),
        json!({"endPort": 90}),
    );
    t.web(
        Some("V25"),
        "a range from a name",
        &format!("{INGRESS}/ports/0"),
        json!({"port": "a", "endPort": 9}),
    );
    t.web(
        Some("V25"),
        "a range backwards",
        &format!("{INGRESS}/ports/0"),
        json!({"port": 80, "endPort": 79}),
    );
    t.web(
        Some("V26"),
        "a label key with a space",
        "/template/metadata/labels/a b",
        json!("x"),
    );
    t.web(
        Some("V26"),
        "a label key with two prefixes",
        "/template/metadata/labels/a~1b~1c",
        json!("x"),
    );
}

fn rules_of_machines(t: &mut Table) {
    t.vm(
        Some("V9"),
        "a machine's port without a letter",
        &format!("{VM}/ports/0/name"),
        json!("22"),
    );
    t.vm(Some("V15"), "a device name twice", SPEC, {
        let one = put(
            machine(),
            &format!("{SPEC}/volumes/0/disk/deviceName"),
            json!("sda"),
        );
        put(one, &format!("{SPEC}/volumes/1/disk/deviceName"), json!("sda"))["template"]["spec"].take()
    });
    t.vm(
        Some("V16"),
        "image and file system",
        &format!("{BOOT}/populator/filesystem"),
        json!({"type": "ext4"}),
    );
    t.vm(
        Some("V17"),
        "a disk without size",
        &format!("{DATA}/resources"),
        Value::Null,
    );
    for (name, size) in [
        ("a disk too small", "9Gi"),
        ("a disk too large", "101Gi"),
        ("a disk of half a Gi", "10752Mi"),
        ("a disk in decimal units", "20G"),
    ] {
        t.vm(
            Some("V18"),
            name,
            &format!("{DATA}/resources/requests/storage"),
            json!(size),
        );
    }
    t.vm(
        Some("V20"),
        "a machine's attachment of nothing",
        &format!("{VM}/volumeAttachments/1/name"),
        json!("x"),
    );
    t.vm(
        Some("V21"),
        "a disk that the machine leaves",
        &format!("{VM}/volumeAttachments"),
        json!([{"name": "boot"}]),
    );
    t.vm(
        Some("V22"),
        "an empty disk mounted in a machine",
        &format!("{DATA}/populator"),
        Value::Null,
    );
    let swapped = json!([{"name": "data"}, {"name": "boot"}]);
    t.vm(
        Some("V23"),
        "a boot disk without image",
        &format!("{VM}/volumeAttachments"),
        swapped,
    );
    t.vm(
        Some("V24"),
        "a machine without keys",
        "/template/metadata/annotations",
        json!({"other": "x"}),
    );
    t.vm(
        Some("V24"),
        "a machine without metadata",
        "/template/metadata",
        Value::Null,
    );
}

fn bounds(t: &mut Table) {
    let bad = Some("schema");
    let many = |n: usize, f: &dyn Fn(usize) -> Value| Value::Array((0..n).map(f).collect());
    let placement =
        |i| json!({"name": format!("p{i}"), "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}});
    t.web(None, "32 placements", "/placements", many(32, &placement));
    t.web(bad, "33 placements", "/placements", many(33, &placement));
    let city = |i| json!(format!("C{i}"));
    t.web(None, "64 cities", "/placements/0/cityCodes", many(64, &city));
    t.web(bad, "65 cities", "/placements/0/cityCodes", many(65, &city));
    t.web(
        bad,
        "a city twice",
        "/placements/0/cityCodes",
        json!(["DFW", "DFW"]),
    );
    t.web(
        bad,
        "a city code with a space",
        "/placements/0/cityCodes/0",
        json!("a b"),
    );
    t.web(
        bad,
        "a city code of 64 characters",
        "/placements/0/cityCodes/0",
        json!("x".repeat(64)),
    );
    t.web(bad, "an empty city code", "/placements/0/cityCodes/0", json!(""));
    t.web(bad, "a placement in capitals", "/placements/0/name", json!("US"));
    t.web(
        bad,
        "no Instances",
        "/placements/0/scaleSettings/minReplicas",
        json!(0),
    );
    t.web(
        bad,
        "1001 Instances",
        "/placements/0/scaleSettings/minReplicas",
        json!(1001),
    );
    t.web(
        bad,
        "an unknown policy",
        &format!("{EU}/instanceManagementPolicy"),
        json!("Foo"),
    );
    t.web(
        bad,
        "an unknown metric",
        &format!("{EU}/metrics/0/resource/name"),
        json!("memory"),
    );
    t.web(bad, "a quantity that is none", TARGET, json!({"value": "lots"}));
    t.web(
        bad,
        "a quantity of 33 characters",
        TARGET,
        json!({"value": "1".repeat(33)}),
    );
    let variable = |i| json!({"name": format!("V{i}"), "value": "x"});
    t.web(None, "256 variables", &format!("{WEB}/env"), many(256, &variable));
    t.web(bad, "257 variables", &format!("{WEB}/env"), many(257, &variable));
    t.web(
        bad,
        "a variable twice",
        &format!("{WEB}/env/1"),
        json!({"name": "LOG_LEVEL"}),
    );
    t.web(
        bad,
        "a prefix with a dash",
        &format!("{WEB}/envFrom/0/prefix"),
        json!("A-"),
    );
    let long = json!({"secretKeyRef": {"name": "x".repeat(254), "key": "k"}});
    t.web(
        bad,
        "a Secret's name of 254",
        &format!("{WEB}/env/1/valueFrom"),
        long,
    );
    t.web(bad, "an empty image", &format!("{WEB}/image"), json!(""));
    t.web(bad, "a port of 0", &format!("{WEB}/ports/0/port"), json!(0));
    t.web(
        bad,
        "a port of 65536",
        &format!("{WEB}/ports/0/port"),
        json!(65536),
    );
    t.web(
        bad,
        "a port's name of 16",
        &format!("{WEB}/ports/0/name"),
        json!("x".repeat(16)),
    );
    t.web(
        bad,
        "an unknown protocol",
        &format!("{WEB}/ports/0/protocol"),
        json!("ICMP"),
    );
    t.web(
        bad,
        "an empty mount path",
        &format!("{WEB}/volumeAttachments/0/mountPath"),
        json!(""),
    );
    t.web(
        bad,
        "a CIDR without prefix",
        &format!("{INGRESS}/from/0/ipBlock/cidr"),
        json!("10.0.0.0"),
    );
    t.web(
        bad,
        "an exception that is no CIDR",
        &format!("{INGRESS}/from/0/ipBlock/except/0"),
        json!("x/8"),
    );
    t.web(
        bad,
        "a mode of 512",
        &format!("{SPEC}/volumes/0/configMap/defaultMode"),
        json!(512),
    );
    for (name, path) in [
        ("an absolute path", "/a"),
        ("a path upwards", "a/../b"),
        ("the path ..", ".."),
    ] {
        let items = json!([{"key": "a", "path": path}]);
        t.web(bad, name, &format!("{SPEC}/volumes/0/configMap/items"), items);
    }
    t.web(
        bad,
        "a label value of 64",
        "/template/metadata/labels/app",
        json!("x".repeat(64)),
    );
    t.vm(bad, "an unknown disk type", &format!("{DATA}/type"), json!("ssd"));
    t.vm(
        bad,
        "an unknown file system",
        &format!("{DATA}/populator/filesystem/type"),
        json!("xfs"),
    );
}

fn structure(t: &mut Table) {
    let bad = Some("schema");
    t.web(bad, "no template", "/template", Value::Null);
    t.web(bad, "no placements", "/placements", json!([]));
    t.web(bad, "no cities", "/placements/0/cityCodes", json!([]));
    t.web(bad, "no minReplicas", "/placements/0/scaleSettings", json!({}));
    t.web(
        bad,
        "no interfaces",
        &format!("{SPEC}/networkInterfaces"),
        json!([]),
    );
    t.web(
        bad,
        "no containers",
        &format!("{SPEC}/runtime/sandbox/containers"),
        json!([]),
    );
    t.web(bad, "no image", &format!("{WEB}/image"), Value::Null);
    t.web(
        bad,
        "an image that is a number",
        &format!("{WEB}/image"),
        json!(1),
    );
    t.web(
        bad,
        "a port that is a text",
        &format!("{WEB}/ports/0/port"),
        json!("80"),
    );
    t.web(
        bad,
        "a port beyond 32 bits",
        &format!("{WEB}/ports/0/port"),
        json!(1_u64 << 40),
    );
    let twin = json!({"name": "web", "image": "x"});
    t.web(
        bad,
        "a container twice",
        &format!("{SPEC}/runtime/sandbox/containers/-"),
        twin,
    );
    t.vm(
        bad,
        "a volume twice",
        &format!("{SPEC}/volumes/-"),
        json!({"name": "boot", "configMap": {"name": "a"}}),
    );
    t.vm(
        bad,
        "no attachments",
        &format!("{VM}/volumeAttachments"),
        json!([]),
    );
    t.vm(
        bad,
        "a file system without type",
        &format!("{DATA}/populator/filesystem"),
        json!({}),
    );
}
