//! Objects that break V1 to V33.

#![allow(clippy::too_many_lines, reason = "a table")]

use super::{BOOT, DATA, EU, INGRESS, SPEC, TARGET, Table, VM, WEB, machine, put};
use serde_json::{Value, json};

pub(super) fn placements(t: &mut Table) {
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

pub(super) fn containers(t: &mut Table) {
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

pub(super) fn machines(t: &mut Table) {
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
