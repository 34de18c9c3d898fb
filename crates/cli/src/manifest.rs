//! A Workload in a file, and the object that applying it would make.

use crate::{error::Error, view::Object};
use fedgate_api::{API_VERSION, yaml};
use serde_json::{Value, json};
use std::io::{self, Read};

/// Annotation of the template that `restart` sets.
pub(crate) const RESTARTED_AT: &str = "compute.datumapis.com/restartedAt";

/// Path of that annotation.
pub(crate) const RESTART: [&str; 5] = ["spec", "template", "metadata", "annotations", RESTARTED_AT];

/// Bytes of a file that are read: an API server takes no larger request.
const LARGEST: u64 = 3 << 20;

/// Reads a file, or stdin for `-`. It must have exactly one Workload, in this namespace or in none.
pub(crate) async fn read(file: &str, namespace: &str, command: &str) -> Result<Value, Error> {
    let failed = |error: String| Error::usage(format!("cannot read {file}")).because(error);
    if file.contains("://") || std::path::Path::new(file).is_dir() {
        return Err(for_kubectl(file, "is no file", command));
    }
    let path = file.to_owned();
    // A thread of its own, so that Ctrl-C ends a command whose stdin is silent.
    let bytes = tokio::task::spawn_blocking(move || bytes(&path)).await;
    let bytes = bytes.map_err(|error| failed(error.to_string()))?;
    let bytes = bytes.map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(Error::usage(format!(
            "{file} is larger than {} MiB",
            LARGEST >> 20
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
    parse(&text, file, namespace, command)
}

/// The bytes of a file, or of stdin, up to one more than are allowed.
fn bytes(file: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file == "-" {
        io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(file)?
            .take(LARGEST + 1)
            .read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// A folder, an address, a list or several documents: kubectl takes them.
fn for_kubectl(file: &str, what: &str, command: &str) -> Error {
    let verb = if command == "diff" { "diff" } else { "apply" };
    Error::usage(format!("{file} {what}"))
        .because("a file has exactly one Workload; kubectl takes folders, addresses and several objects")
        .next(format!("kubectl {verb} -f {file}"))
}

fn parse(text: &str, file: &str, namespace: &str, command: &str) -> Result<Value, Error> {
    let mut documents = yaml::documents(text)
        .map_err(|error| Error::usage(format!("{file} is no YAML")).because(error.to_string()))?;
    let (Some(mut workload), true) = (documents.pop(), documents.is_empty()) else {
        return Err(for_kubectl(file, "must have exactly one Workload", command));
    };
    if workload["kind"]
        .as_str()
        .is_some_and(|kind| kind.ends_with("List"))
    {
        return Err(for_kubectl(file, "is a list of objects", command));
    }
    if workload["apiVersion"] != API_VERSION || workload["kind"] != "Workload" {
        let found = format!("{} {}", workload["apiVersion"], workload["kind"]);
        return Err(Error::usage(format!(
            "{file} must have a Workload of {API_VERSION}, not {found}"
        )));
    }
    if workload["metadata"]["name"].as_str().is_none_or(str::is_empty) {
        return Err(Error::usage(format!("{file}: metadata.name is missing")));
    }
    check_shape(&workload).map_err(|error| Error::usage(format!("{file}: {}", error.what)))?;
    match workload["metadata"]["namespace"].as_str() {
        Some(other) if other != namespace => {
            let what = format!("{file} is for namespace {other}, not {namespace}");
            Err(Error::usage(what).next(format!("kubectl compute {command} -f {file} -n {other}")))
        }
        _ => {
            workload["metadata"]["namespace"] = json!(namespace);
            Ok(workload)
        }
    }
}

/// Refuses a Workload whose maps are something else: the fields in them are read and set.
fn check_shape(workload: &Value) -> Result<(), Error> {
    for (field, is_needed) in [
        ("/spec", true),
        ("/spec/template", true),
        ("/metadata/labels", false),
        ("/metadata/annotations", false),
        ("/spec/template/metadata", false),
        ("/spec/template/metadata/annotations", false),
    ] {
        let value = workload.pointer(field).filter(|value| !value.is_null());
        if value.map_or(is_needed, |value| !value.is_object()) {
            let field = field[1..].replace('/', ".");
            return Err(Error::usage(format!("{field} must be an object")));
        }
    }
    Ok(())
}

/// The field at a path; null if it is new. Maps on the way are made.
pub(crate) fn field_mut<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(object, |value, field| {
        // Only a map has fields. An API server admits nothing else there, and a file was checked.
        if !value.is_object() {
            *value = json!({});
        }
        &mut value[*field]
    })
}

/// The object that applying a file makes if there is none: the fields that the server sets are not the file's.
pub(crate) fn created(file: &Value) -> Value {
    let mut wanted = without_status(&Object(file.clone()));
    for field in [
        "resourceVersion",
        "uid",
        "generation",
        "creationTimestamp",
        "managedFields",
    ] {
        if let Some(metadata) = wanted["metadata"].as_object_mut() {
            metadata.remove(field);
        }
    }
    wanted
}

/// Writes a manifest to a file.
pub(crate) fn save(workload: &Value, path: &std::path::Path) -> Result<(), Error> {
    let failed = |error: String| Error::usage(format!("cannot write {}", path.display())).because(error);
    let manifest = created(workload);
    let yaml = serde_saphyr::to_string(&manifest).map_err(|error| failed(error.to_string()))?;
    std::fs::write(path, yaml).map_err(|error| failed(error.to_string()))
}

/// The object without its status, which a write of the spec does not carry.
pub(crate) fn without_status(object: &Object) -> Value {
    let mut object = object.0.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

/// The object that applying a file makes of the live one: the file's spec, its labels and annotations beside the live
/// ones, and the stamp of the last restart, so that applying a file after a restart replaces no Instance.
pub(crate) fn applied(live: &Object, file: &Value) -> Value {
    let mut wanted = without_status(live);
    *field_mut(&mut wanted, &["spec"]) = file["spec"].clone();
    for map in ["labels", "annotations"] {
        for (key, value) in file["metadata"][map].as_object().into_iter().flatten() {
            *field_mut(&mut wanted, &["metadata", map, key]) = value.clone();
        }
    }
    let annotations = "/spec/template/metadata/annotations";
    let stamp = live
        .0
        .pointer(annotations)
        .map(|all| all[RESTARTED_AT].clone())
        .unwrap_or_default();
    let set = file
        .pointer(annotations)
        .is_some_and(|all| !all[RESTARTED_AT].is_null());
    if !stamp.is_null() && !set {
        *field_mut(&mut wanted, &RESTART) = stamp;
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = "apiVersion: compute.datumapis.com/v1alpha\nkind: Workload\nmetadata: {name: web}\nspec: {template: {}}\n";

    fn what(text: &str) -> String {
        parse(text, "web.yaml", "default", "diff").unwrap_err().what
    }

    #[test]
    fn a_file_has_exactly_one_workload_of_the_namespace() {
        let web = parse(WEB, "web.yaml", "default", "diff").unwrap();
        assert_eq!(web["metadata"]["namespace"], "default");
        assert_eq!(
            what(&format!("{WEB}---\n{WEB}")),
            "web.yaml must have exactly one Workload"
        );
        assert_eq!(what(""), "web.yaml must have exactly one Workload");
        assert!(what("kind: Deployment\napiVersion: apps/v1\n").contains("not \"apps/v1\" \"Deployment\""));
        let other = WEB.replace("{name: web}", "{name: web, namespace: shop}");
        assert_eq!(what(&other), "web.yaml is for namespace shop, not default");
        assert_eq!(
            what(&WEB.replace("{name: web}", "{}")),
            "web.yaml: metadata.name is missing"
        );
        assert!(parse("a: [", "web.yaml", "default", "diff").is_err());
    }

    #[test]
    fn a_mode_is_octal_as_kubectl_reads_it() {
        let mounted = "{volumes: [{name: key, secret: {secretName: key, defaultMode: 0400}}]}";
        let file = WEB.replace("{template: {}}", &format!("{{template: {{spec: {mounted}}}}}"));
        let web = parse(&file, "web.yaml", "default", "deploy").unwrap();
        let volume = &web["spec"]["template"]["spec"]["volumes"][0];
        assert_eq!(volume["secret"]["defaultMode"], 0o400);
    }

    #[test]
    fn a_file_replaces_the_spec_and_keeps_labels_and_the_stamp_of_a_restart() {
        let live = Object(json!({
            "metadata": {"name": "web", "labels": {"a": "1", "b": "1"}, "resourceVersion": "7"},
            "spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: "t"}}}, "gone": 1},
            "status": {},
        }));
        let file =
            json!({"metadata": {"name": "web", "labels": {"b": "2"}}, "spec": {"template": {"spec": {}}}});
        assert_eq!(
            applied(&live, &file),
            json!({
                "metadata": {"name": "web", "labels": {"a": "1", "b": "2"}, "resourceVersion": "7"},
                "spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: "t"}}, "spec": {}}},
            })
        );
        let mut own = file;
        own["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT] = json!("mine");
        let made = applied(&live, &own);
        assert_eq!(
            made["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT],
            "mine"
        );
    }
}
