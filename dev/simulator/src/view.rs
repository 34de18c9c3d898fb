//! How objects are written into answers.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

/// The form in which objects are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// The version of the request.
    pub(crate) api_version: String,
    /// Metadata alone, as `PartialObjectMetadata`.
    pub(crate) metadata_only: bool,
}

/// An object in a form.
struct Shown<'a> {
    object: &'a Value,
    view: &'a View,
    /// Items of built-in kinds do not name their kind.
    typed: bool,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        if self.view.metadata_only {
            if self.typed {
                out.serialize_entry("apiVersion", "meta.k8s.io/v1")?;
                out.serialize_entry("kind", "PartialObjectMetadata")?;
            }
            out.serialize_entry("metadata", &self.object["metadata"])?;
            return out.end();
        }
        for (key, value) in self.object.as_object().into_iter().flatten() {
            match key.as_str() {
                "apiVersion" | "kind" if !self.typed => {}
                "apiVersion" => out.serialize_entry(key, &self.view.api_version)?,
                _ => out.serialize_entry(key, value)?,
            }
        }
        out.end()
    }
}

impl View {
    /// One object as JSON.
    pub(crate) fn object(&self, object: &Value) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(1024);
        self.write(&mut bytes, object, true);
        bytes
    }

    fn write(&self, bytes: &mut Vec<u8>, object: &Value, typed: bool) {
        let shown = Shown {
            object,
            view: self,
            typed,
        };
        // Values have texts as keys, so they are always JSON, and memory takes whatever is written.
        let _ = serde_json::to_writer(bytes, &shown);
    }

    /// A list as JSON.
    pub(crate) fn list<'a>(
        &self,
        kind: &str,
        metadata: &Value,
        typed_items: bool,
        objects: impl Iterator<Item = &'a Value>,
    ) -> Vec<u8> {
        let head = if self.metadata_only {
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata})
        } else {
            json!({"apiVersion": self.api_version, "kind": format!("{kind}List"), "metadata": metadata})
        };
        let mut bytes = head.to_string().into_bytes();
        bytes.pop();
        bytes.extend_from_slice(b",\"items\":[");
        for (at, object) in objects.enumerate() {
            if at > 0 {
                bytes.push(b',');
            }
            self.write(&mut bytes, object, typed_items || self.metadata_only);
        }
        bytes.extend_from_slice(b"]}");
        bytes
    }

    /// An event of a watch as one line.
    pub(crate) fn event(&self, word: &str, object: &Value) -> Vec<u8> {
        let mut bytes = begin(word);
        self.write(&mut bytes, object, true);
        end(bytes)
    }

    /// A bookmark as one line.
    pub(crate) fn bookmark(&self, kind: &str, revision: u64, initial: bool) -> Vec<u8> {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": kind, "apiVersion": self.api_version, "metadata": metadata});
        line("BOOKMARK", &self.object(&object))
    }
}

/// An event of a watch, of an object that is JSON already.
pub(crate) fn line(word: &str, object: &[u8]) -> Vec<u8> {
    let mut bytes = begin(word);
    bytes.extend_from_slice(object);
    end(bytes)
}

fn begin(word: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1024);
    for part in ["{\"type\":\"", word, "\",\"object\":"] {
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

fn end(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend_from_slice(b"}\n");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_shown_whole_or_by_its_metadata() {
        let object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "spec": 1});
        let mut view = View {
            api_version: "g/v2".to_owned(),
            metadata_only: false,
        };
        let read = |bytes: &[u8]| -> Value { serde_json::from_slice(bytes).unwrap() };
        assert_eq!(
            read(&view.object(&object)),
            json!({"apiVersion": "g/v2", "kind": "K", "metadata": {"name": "n"}, "spec": 1})
        );
        let list = view.list(
            "K",
            &json!({"resourceVersion": "3"}),
            false,
            [&object, &object].into_iter(),
        );
        assert_eq!(
            read(&list)["items"][1],
            json!({"metadata": {"name": "n"}, "spec": 1})
        );
        assert_eq!(read(&list)["kind"], "KList");
        view.metadata_only = true;
        assert_eq!(
            read(&view.object(&object)),
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "n"}})
        );
    }
}
