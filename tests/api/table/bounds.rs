//! Objects at and beyond the bounds, and objects of the wrong shape.

#![allow(clippy::too_many_lines, reason = "a table")]

use super::{DATA, EU, INGRESS, SPEC, TARGET, Table, VM, WEB};
use serde_json::{Value, json};

pub(super) fn bounds(t: &mut Table) {
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

pub(super) fn structure(t: &mut Table) {
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
