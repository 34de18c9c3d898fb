//! Good and bad Workloads: one table for `api::validate` and for a real API server.

mod bounds;
mod places;
mod rules;
mod serving;

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
    rules::placements(&mut table);
    places::places(&mut table);
    rules::containers(&mut table);
    rules::machines(&mut table);
    bounds::bounds(&mut table);
    bounds::structure(&mut table);
    serving::bad(&mut table);
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
    serving::good(t);
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
